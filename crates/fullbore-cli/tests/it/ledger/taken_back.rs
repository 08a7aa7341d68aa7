//! Runs that are rolled back: they stay so, and what belongs to others stays too.

use std::process::Child;

use fullbore_pgwire::Session;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

use crate::common::codes::STOPPED;
use crate::common::held::{end_of, session, wait_for};
use crate::common::moments::{Gate, Moment};
use crate::common::ways::{REPLACE, prepared};
use crate::common::{Files, assert_no_leftovers};

#[test]
fn an_aborted_run_does_not_come_back_to_life() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let append = ["--header", "none", "--streams", "1", "--statistics=none"];
    let mut replace = append.to_vec();
    replace.extend(REPLACE.options);
    for (args, kept) in [(&append[..], true), (&replace, false)] {
        // Without a key, which would keep rows from being there twice.
        database.psql("DROP TABLE IF EXISTS t; CREATE TABLE t (k bigint, n int, v text)");
        let mut gate = Gate::at(&database, Moment::PieceBegins(2));
        // At its last piece: it finds nothing left to do that it would be refused.
        let child = files.start_load(database.url(), &file, "t", args);
        gate.wait();
        // As the hint for a job that is being loaded already tells people to do.
        gate.terminate_control();
        let aborted = files.fullbore(&["runs", "abort", "last"]);
        assert_eq!(aborted.code, if kept { STOPPED } else { 0 }, "{}", aborted.stderr);
        gate.open(&database);
        let output = end_of(child);
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        assert!(output.stderr.contains("rolled back"), "{}", output.stderr);
        let rows = database.psql("SELECT count(*) > 0, count(*) = count(DISTINCT k) FROM t");
        assert_eq!(rows, if kept { "t|t" } else { "f|t" });
        assert_eq!(
            database.psql("SELECT count(*) FROM fullbore_ledger.runs WHERE state <> 'finished'"),
            "0"
        );
        assert_no_leftovers(&database);
    }
}

/// Statements that make tables, held back while a test does something.
struct Making {
    session: Session,
}

/// The lock that they wait for.
const KEY: i64 = 4_712;

impl Making {
    /// From the `nth` statement on that looks so.
    fn hold(database: &TestDatabase<'_>, pattern: &str, nth: u32) -> Self {
        database.psql(&format!(
            "CREATE SEQUENCE made;
             CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                IF current_query() ~ '{pattern}' AND nextval('public.made') >= {nth} THEN
                    PERFORM pg_advisory_xact_lock_shared({KEY});
                END IF;
             END $$;
             CREATE EVENT TRIGGER hold ON ddl_command_start WHEN TAG IN ('CREATE TABLE')
                EXECUTE FUNCTION hold()"
        ));
        let mut session = session(database.url());
        session.execute(&format!("SELECT pg_advisory_lock({KEY})")).expect("locked");
        Self { session }
    }

    /// The lock that a run takes before it makes the ledger.
    fn hold_ledger(database: &TestDatabase<'_>) -> Self {
        let mut session = session(database.url());
        session
            .execute("SELECT pg_advisory_lock(x'66756c6c626f7265'::bigint)")
            .expect("the lock is free");
        Self { session }
    }

    fn wait(&mut self, child: &mut Child) {
        wait_for("load that makes its tables", || {
            if child.try_wait().expect("asked").is_some() {
                let told = child.stderr.take().map(std::io::read_to_string);
                panic!("it ended before it came there: {told:?}");
            }
            let waiting = self.session.query(
                "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database =
                    (SELECT oid FROM pg_database WHERE datname = current_database())",
            );
            !waiting.expect("asked").is_empty()
        });
    }

    /// Does something, which is not held, and lets everybody pass.
    fn let_pass(mut self, database: &TestDatabase<'_>, first: &str) {
        self.session.execute(first).expect("done");
        self.session.execute("SELECT pg_advisory_unlock_all()").expect("unlocked");
        database.psql(
            "DROP EVENT TRIGGER IF EXISTS hold; DROP FUNCTION IF EXISTS hold();
             DROP SEQUENCE IF EXISTS made",
        );
    }
}

const CREATE: [&str; 6] =
    ["--create", "--header", "true", "--type", "k=bigint", "--statistics=none"];

fn start(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) -> Child {
    let mut args = CREATE.to_vec();
    args.extend(more);
    files.start_load(database.url(), file, "t", &args)
}

#[test]
fn a_table_that_somebody_else_made_meanwhile_is_not_dropped() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for ledger in [true, false] {
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("x.csv", "k,v\n1,a\n2,b\n");
        let mut making = match ledger {
            true => Making::hold_ledger(&database),
            // The first one is the planner's, which rolls it back.
            false => Making::hold(&database, r#"CREATE TABLE "?t"? "#, 2),
        };
        let more: &[&str] = if ledger { &["--atomic"] } else { &["--atomic", "--no-ledger"] };
        let mut child = start(&database, &files, &file, more);
        making.wait(&mut child);
        making.let_pass(
            &database,
            "CREATE TABLE t (k bigint, v text); INSERT INTO t VALUES (7, 'ours')",
        );
        let output = end_of(child);
        assert_ne!(output.code, 0, "{}", output.stderr);
        for words in ["another session created", "hint:"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_eq!(database.psql("SELECT k, v FROM t"), "7|ours");
        assert_no_leftovers(&database);
        if ledger {
            assert_eq!(database.psql("SELECT count(*) FROM fullbore_ledger.runs"), "0");
        }
    }
}

#[test]
fn rows_that_others_put_into_a_table_that_the_run_made_stay() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let ways: [&[&str]; 3] =
        [&["--atomic"], &["--publish", "replace"], &["--atomic", "--no-ledger"]];
    for way in ways {
        for others in [true, false] {
            let database = cluster.fresh_database();
            let files = Files::new();
            let file = files.write("x.csv", "k,v\n1,a\ntwo,b\n");
            let mut making = Making::hold(&database, "_fb_", 1);
            let mut child = start(&database, &files, &file, way);
            making.wait(&mut child);
            making
                .let_pass(&database, if others { "INSERT INTO t VALUES (7, 'ours')" } else { "" });
            let output = end_of(child);
            assert_ne!(output.code, 0, "{}", output.stderr);
            assert!(output.stderr.contains("two"), "{}", output.stderr);
            let left = match others {
                true => database.psql("SELECT k, v FROM t"),
                false => database.psql("SELECT to_regclass('t')"),
            };
            assert_eq!(left, if others { "7|ours" } else { "" }, "{way:?}");
            assert_no_leftovers(&database);
        }
    }
}
