//! A client that is killed while indexes are built leaves sessions that go on building: who resumes
//! ends them first, or both would build the same.

use fullbore_pgwire::Session;
use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::Files;
use crate::common::held::{end_of, session};
use crate::common::moments::{Gate, Moment, assert_loaded, kill, signal};
use crate::common::ways::{REPLACE, prepared};
use crate::common::{assert_no_leftovers, assert_same};

/// Returns once a session waits for a lock on a table, other than one that is named; its process.
fn waiting(session: &mut Session, table: &str, not: &str) -> String {
    session
        .execute(&format!(
            "DO $$ BEGIN
                FOR i IN 1..6000 LOOP
                    PERFORM FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass
                        AND pid <> {not};
                    EXIT WHEN FOUND;
                    PERFORM pg_sleep(0.01);
                END LOOP;
                IF NOT FOUND THEN RAISE 'nobody waits for {table}'; END IF;
            END $$"
        ))
        .expect("somebody waits");
    let rows = session
        .query(&format!(
            "SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass
                AND pid <> {not} ORDER BY waitstart LIMIT 1"
        ))
        .expect("asked");
    rows[0].get("pid").expect("a process").to_owned()
}

#[test]
fn an_index_that_a_killed_client_still_builds_is_not_built_twice() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(2));
    let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
    gate.wait();
    let staging = database.psql("SELECT relname FROM pg_class WHERE relname ~ '_new$'");
    // Rows can still come in, an index can't be built.
    let mut holder = session(database.url());
    holder.execute("BEGIN").expect("begun");
    holder.execute(&format!("LOCK TABLE {staging} IN ROW EXCLUSIVE MODE")).expect("locked");
    gate.release();
    let mut watcher = session(database.url());
    let first = waiting(&mut watcher, &staging, "0");
    kill(child);
    let resumed = files.start(&["runs", "resume", "last"]);
    waiting(&mut watcher, &staging, &first);
    holder.execute("COMMIT").expect("released");
    let output = end_of(resumed);
    assert_loaded(&output);
    assert_same(&database, "replaced", "plain");
    assert_no_leftovers(&database);
    let built = "SELECT count(*) FROM pg_index WHERE indrelid = 'replaced'::regclass";
    assert_eq!(database.psql(built), "2");
    gate.open(&database);
}

#[test]
fn a_client_that_was_only_thought_dead_builds_no_index() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(2));
    let mut child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
    gate.wait();
    let staging = database.psql("SELECT relname FROM pg_class WHERE relname ~ '_new$'");
    let mut holder = session(database.url());
    holder.execute("BEGIN").expect("begun");
    holder.execute(&format!("LOCK TABLE {staging} IN ROW EXCLUSIVE MODE")).expect("locked");
    gate.release();
    let mut watcher = session(database.url());
    let first = waiting(&mut watcher, &staging, "0");
    signal(&child, "-STOP");
    gate.terminate_control();
    let resumed = files.start(&["runs", "resume", "last"]);
    let second = waiting(&mut watcher, &staging, &first);
    // Awake, it finds its sessions ended: it opens no other to build them, and ends no other's.
    signal(&child, "-CONT");
    let code = child.wait().expect("it ends").code();
    assert_eq!(code, Some(super::STOPPED), "{}", end_of(child).stderr);
    let waits = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {second}");
    assert_eq!(database.psql(&waits), "1");
    holder.execute("COMMIT").expect("released");
    assert_loaded(&end_of(resumed));
    assert_same(&database, "replaced", "plain");
    assert_no_leftovers(&database);
    gate.open(&database);
}
