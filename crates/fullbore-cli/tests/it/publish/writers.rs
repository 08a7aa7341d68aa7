//! Rows that others commit to a table while its replacement is loaded are found before the swap, exactly; or
//! their writers are kept out.

use crate::common::codes::STOPPED;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

use crate::common;
use crate::common::held::Load;
use crate::common::held::{end_of, session, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{REPLACE, prepared};
use crate::common::{Files, assert_same};

/// The replaced table with some rows, which are there long before the run.
fn made(database: &TestDatabase<'_>) {
    REPLACE.make(database);
    database.psql("INSERT INTO replaced SELECT n, n, 'old' FROM generate_series(1, 1000) n");
}

fn old_rows(database: &TestDatabase<'_>) -> String {
    database.psql("SELECT count(*), count(*) FILTER (WHERE v = 'old') FROM replaced")
}

/// Does something to the old table in the middle of a load; how that ends.
fn meanwhile(
    database: &TestDatabase<'_>,
    files: &Files,
    file: &str,
    more: &[&str],
    work: impl FnOnce(),
) -> (i32, String) {
    let mut gate = Gate::at(database, Moment::PieceBegins(1));
    let load = Load::begin(database, files, file, &REPLACE, more);
    gate.wait();
    work();
    gate.open(database);
    load.end()
}

#[test]
fn rows_committed_to_the_old_table_meanwhile_are_not_lost() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        for (sql, words) in [
            ("INSERT INTO replaced VALUES (-1, 1, 'late'), (-2, 2, 'late')", "2 rows of"),
            ("UPDATE replaced SET v = 'late' WHERE k = 7", "1 row of"),
            ("BEGIN; SAVEPOINT a; INSERT INTO replaced VALUES (-3, 3, 'late'); COMMIT", "1 row of"),
            ("TRUNCATE replaced", "was emptied by another session"),
            ("TRUNCATE replaced; INSERT INTO replaced VALUES (-1, 1, 'late')", "1 row of"),
        ] {
            made(&database);
            let (code, said) =
                meanwhile(&database, &files, &file, &[], || drop(database.psql(sql)));
            assert_eq!(code, STOPPED, "{sql}: {said}");
            for words in [words, "hint: ", "--replace-anyway", "--lock-writers"] {
                assert!(said.contains(words), "{sql}: {said} lacks {words}");
            }
            let before = database.psql("SELECT count(*), min(v) FROM replaced");
            // What was loaded is kept, and is held against the first attempt's beginning again.
            let output = files.fullbore(&["runs", "resume", "last"]);
            assert_eq!(output.code, STOPPED, "{sql}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*), min(v) FROM replaced"), before);
            assert_loaded(&files.fullbore(&["runs", "resume", "last", "--replace-anyway"]));
            assert_same(&database, "replaced", "plain");
        }
    }
}

#[test]
fn transactions_under_way_as_a_replacement_begins_are_told_from_those_that_ended() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        // Older than all: what is committed after it began is not new therefore.
        let mut oldest = session(database.url());
        oldest.execute("BEGIN; SELECT pg_current_xact_id()").expect("begun");
        made(&database);
        database.psql(
            "BEGIN; SAVEPOINT a; INSERT INTO replaced VALUES (-1, 1, 'old'); SAVEPOINT b;
             INSERT INTO replaced VALUES (-2, 2, 'old'); RELEASE b; COMMIT",
        );
        let (code, said) = meanwhile(&database, &files, &file, &[], || {
            // Frozen or moved rows are as old as they were, and what is deleted is not looked for.
            database.psql("VACUUM FREEZE replaced");
            database.psql("VACUUM FULL replaced");
            database.psql("DELETE FROM replaced WHERE k = 5");
            database.psql("SELECT FROM replaced WHERE k = 6 FOR UPDATE");
        });
        assert_eq!(code, 0, "{said}");
        assert_same(&database, "replaced", "plain");

        // One that has written before, and one that writes after, by subtransactions that began before;
        // one of them over already.
        for ways in [
            "SAVEPOINT a; INSERT INTO replaced VALUES (-3, 3, 'late')",
            "SAVEPOINT a; INSERT INTO replaced VALUES (-3, 3, 'late'); RELEASE a",
            "SAVEPOINT a; SELECT pg_current_xact_id(); INSERT INTO other VALUES (1); SAVEPOINT b;
             INSERT INTO other VALUES (2)",
        ] {
            made(&database);
            database.psql("DROP TABLE IF EXISTS other; CREATE TABLE other (a int)");
            let mut writer = session(database.url());
            writer.execute(&format!("BEGIN; {ways}")).expect("written");
            let (code, said) = meanwhile(&database, &files, &file, &[], || {
                if ways.contains("other") {
                    writer.execute("INSERT INTO replaced VALUES (-3, 3, 'late')").expect("written");
                }
                writer.execute("COMMIT").expect("committed");
            });
            assert_eq!(code, STOPPED, "{ways}: {said}");
            assert!(said.contains("1 row of"), "{ways}: {said}");
            assert_eq!(old_rows(&database), "1001|1000");
            files.fullbore(&["runs", "abort", "last"]);
        }
        oldest.execute("COMMIT").expect("committed");
    }
}

#[test]
fn rows_written_between_a_kill_and_the_resume_are_found() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    made(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "replaced", &REPLACE.args());
    database.psql("INSERT INTO replaced VALUES (-1, 1, 'late')");
    let output = files.load(&database, &file, "replaced", &REPLACE.resume_args());
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    assert!(output.stderr.contains("1 row of"), "{}", output.stderr);
    assert_eq!(old_rows(&database), "1001|1000");
}

#[test]
fn rows_are_looked_for_without_a_ledger_too_or_not_at_all_where_that_is_asked_for() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (option, code) in [("--no-ledger", 1), ("--replace-anyway", 0)] {
        made(&database);
        let mut held = common::held::Held::begin(
            database.url(),
            "CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4713); END $$;
             SELECT pg_advisory_lock(4713)",
        );
        // Indexes are built when all rows are loaded.
        held.session()
            .execute(
                "CREATE EVENT TRIGGER wait ON ddl_command_start WHEN TAG IN ('CREATE INDEX')
                    EXECUTE FUNCTION wait(); COMMIT; BEGIN",
            )
            .expect("made");
        let load = Load::begin(&database, &files, &file, &REPLACE, &[option]);
        held.wait_for_load();
        database.psql("INSERT INTO replaced VALUES (-1, 1, 'late')");
        held.session()
            .execute(
                "SELECT pg_advisory_unlock(4713); DROP EVENT TRIGGER wait; DROP FUNCTION wait()",
            )
            .expect("let pass");
        held.release();
        let (ended, said) = load.end();
        assert_eq!(ended, code, "{said}");
        match code {
            0 => assert_same(&database, "replaced", "plain"),
            _ => assert_eq!(old_rows(&database), "1001|1000"),
        }
    }
}

#[test]
fn writers_can_be_kept_out_from_the_beginning() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    made(&database);
    let mut plan = vec!["plan", &file, "--to", database.url(), "--table", "replaced"];
    plan.extend(REPLACE.args());
    plan.retain(|arg| *arg != "--statistics=none");
    plan.push("--lock-writers");
    let planned = files.fullbore(&plan);
    assert!(planned.stdout.contains("writers of the old table are blocked"), "{}", planned.stdout);

    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let load = Load::begin(&database, &files, &file, &REPLACE, &["--lock-writers"]);
    gate.wait();
    let url = database.url().to_owned();
    let writer = std::thread::spawn(move || {
        session(&url).execute("INSERT INTO replaced VALUES (-1, 1, 'after')").map(drop)
    });
    let mut watcher = session(database.url());
    wait_for("writer that waits", || {
        let rows = watcher.query(
            "SELECT FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'
                AND relation = 'replaced'::regclass",
        );
        !rows.expect("asked").is_empty()
    });
    // Readers go on.
    assert_eq!(old_rows(&database), "1000|1000");
    gate.open(&database);
    let (code, said) = load.end();
    assert_eq!(code, 0, "{said}");
    // It comes after the swap, into the new table.
    writer.join().expect("joined").expect("inserted");
    database.psql("DELETE FROM replaced WHERE v = 'after'");
    assert_same(&database, "replaced", "plain");
}

#[test]
fn writers_that_a_lost_lock_let_in_are_noticed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for writes in [true, false] {
        made(&database);
        let (code, said) = meanwhile(&database, &files, &file, &["--lock-writers"], || {
            let ended = database.psql(
                "SELECT count(pg_terminate_backend(pid, 20000)) FROM pg_locks
                  WHERE granted AND mode = 'ShareLock' AND relation = 'replaced'::regclass",
            );
            assert_eq!(ended, "1");
            if writes {
                database.psql("INSERT INTO replaced VALUES (-1, 1, 'late')");
            }
        });
        assert!(said.contains("the session that blocked writers was lost"), "{said}");
        assert_eq!(code, if writes { STOPPED } else { 0 }, "{said}");
        if writes {
            assert_eq!(old_rows(&database), "1001|1000");
            // A resume keeps them out again, and looks for what came between.
            let output = files.fullbore(&["runs", "resume", "last"]);
            assert_eq!(output.code, STOPPED, "{}", output.stderr);
            database.psql("DELETE FROM replaced WHERE v = 'late'");
            assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        }
        assert_same(&database, "replaced", "plain");
    }
}

#[test]
fn a_replacement_that_fails_lets_writers_in_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("bad.csv", "1,1,x\n1,2,y\n");
    made(&database);
    for more in [&["--lock-writers"][..], &["--lock-writers", "--max-rejects", "5"]] {
        let mut args = REPLACE.args();
        args.extend(more);
        let output = files.load(&database, &file, "replaced", &args);
        assert_eq!(output.code, if more.len() == 1 { 1 } else { 3 }, "{}", output.stderr);
        database.psql("INSERT INTO replaced VALUES (-1, 1, 'in')");
    }
    // Of a table that the run made, too.
    let child = files.start_load(
        database.url(),
        &file,
        "made",
        &[
            "--create",
            "--header",
            "none",
            "--publish",
            "replace",
            "--lock-writers",
            "--type",
            "column3=int",
        ],
    );
    let output = end_of(child);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert_eq!(database.psql("SELECT to_regclass('made')"), "");
}
