//! Merges that are killed, and gone on with: each row is inserted or updated once, and counted once.

use super::{merged, upsert};
use crate::common::held::{session, wait_for};
use crate::common::moments::{assert_loaded, kill};
use crate::common::{Files, assert_no_leftovers};
use fullbore_pgwire::Session;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip};

/// Rows that a load stands still before.
const KEYS: [u32; 3] = [0, 15_000, 39_998];

/// A table with rows of even keys and a log of what was done to it; a trigger waits at one key for a lock that the
/// session has.
fn prepare(database: &TestDatabase<'_>, files: &Files, key: u32) -> (String, Session) {
    let lines: String = (0..40_000)
        .map(|k| {
            let v = if k % 10 == 0 { k } else { k + 1 };
            format!("{k},{v},{}\n", "x".repeat(80))
        })
        .collect();
    let file = files.write("a.csv", format!("k,v,t\n{lines}"));
    database.psql(&format!(
        "CREATE TABLE log (what text, k int);
         CREATE TABLE ours (k int PRIMARY KEY, v int, t text);
         INSERT INTO ours SELECT k, k, repeat('x', 80) FROM generate_series(0, 39999, 2) k;
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO log VALUES (TG_OP, NEW.k);
             IF NEW.k IN ({key}, {key} + 1, {key} + 2) THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
             RETURN NULL; END $$;
         CREATE TRIGGER note AFTER INSERT OR UPDATE ON ours FOR EACH ROW EXECUTE FUNCTION note()"
    ));
    let mut holder = session(database.url());
    holder.execute("SELECT pg_advisory_lock(4711)").expect("locked");
    (file, holder)
}

fn wait_for_it(database: &TestDatabase<'_>) {
    wait_for("a merge", || {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND objid = 4711 AND database =
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
        database.psql(waiting) != "0"
    });
}

const ARGS: [&str; 6] = ["--publish", "upsert", "--statistics", "none", "--streams", "2"];

/// 20,000 are inserted; of the others those of keys divisible by ten are as they were.
fn assert_merged(database: &TestDatabase<'_>) {
    let rows = "SELECT count(*), count(*) FILTER (WHERE v = CASE k % 10 WHEN 0 THEN k ELSE k + 1 END) FROM ours";
    assert_eq!(database.psql(rows), "40000|40000");
    let log = "SELECT what, count(*), count(DISTINCT k) FROM log GROUP BY 1 ORDER BY 1";
    assert_eq!(database.psql(log), "INSERT|20000|20000\nUPDATE|16000|16000");
    assert_no_leftovers(database);
}

#[test]
fn a_killed_merge_is_gone_on_with() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for key in KEYS {
        let database = cluster.fresh_database();
        let files = Files::new();
        let (file, mut holder) = prepare(&database, &files, key);
        let child = files.start_load(database.url(), &file, "ours", &ARGS);
        wait_for_it(&database);
        kill(child);
        holder.execute("SELECT pg_advisory_unlock_all()").expect("released");
        let args = [&ARGS[..], &["--resume"]].concat();
        let output = files.load(&database, &file, "ours", &args);
        assert_loaded(&output);
        assert_eq!(merged(&output), "20,000 inserted, 16,000 updated, 4,000 unchanged");
        assert_merged(&database);
        let again = files.load(&database, &file, "ours", &args);
        assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    }
}

#[test]
fn a_server_that_crashes_while_rows_are_merged_is_waited_for() {
    let cluster = start_or_skip!(TestServer::Embedded18, &[]);
    let database = cluster.fresh_database();
    let files = Files::new();
    let (file, holder) = prepare(&database, &files, 15_000);
    let child = files.start_load(database.url(), &file, "ours", &ARGS);
    wait_for_it(&database);
    drop(holder);
    cluster.crash_and_restart();
    let output = crate::common::held::end_of(child);
    assert_loaded(&output);
    assert_eq!(merged(&output), "20,000 inserted, 16,000 updated, 4,000 unchanged");
    assert_merged(&database);
}

#[test]
fn a_merge_that_is_given_up_says_what_stays() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let (file, mut holder) = prepare(&database, &files, 39_998);
    let child = files.start_load(database.url(), &file, "ours", &ARGS);
    wait_for_it(&database);
    kill(child);
    holder.execute("SELECT pg_advisory_unlock_all()").expect("released");
    let run = database.psql("SELECT run FROM fullbore_ledger.runs");
    let output = files.fullbore(&["runs", "abort", &run, "--to", database.url()]);
    assert!(output.stderr.contains("--atomic merges all rows or none"), "{}", output.stderr);
    assert_no_leftovers(&database);
    // What was merged is found as it is by the next load.
    let output = upsert(&files, &database, &[&file], &[]);
    assert_loaded(&output);
    assert_merged(&database);
}
