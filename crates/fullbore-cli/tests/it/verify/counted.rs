//! Rows that were committed and are gone again before the run ends: `--verify quick` counts them where
//! they should be.

use crate::common::codes::{FAILED, STOPPED};
use fullbore_testing::{TestServer, shared_or_skip, wanted};

use crate::common::held::{Held, Load, end_of, session, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{APPEND, ATOMIC, PARTITIONS, REPLACE, Way, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

const UNCHANGED: &str = "row counts match (25,000 rows, 3 pieces), and the server's statistics show no deletions by others";
const COUNTED: &str = "row counts match (25,000 rows, 3 pieces), counted in the table";

#[test]
fn a_target_that_was_truncated_meanwhile_is_not_verified() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for change in ["TRUNCATE append", "DELETE FROM append WHERE k = 0", "VACUUM FULL append"] {
        APPEND.make(&database);
        let mut gate = Gate::at(&database, Moment::PieceBegins(2));
        let child = files.start_load(database.url(), &file, "append", &APPEND.args());
        gate.wait();
        database.psql(change);
        gate.open(&database);
        let output = end_of(child);
        if change.starts_with("VACUUM") {
            assert_loaded(&output);
            assert!(output.stderr.contains("counted in the table"), "{}", output.stderr);
            continue;
        }
        assert_eq!(output.code, STOPPED, "{change}: {}", output.stderr);
        for words in ["of the 25000 rows", "fullbore runs abort", "append"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert!(!output.stderr.contains("verified"), "{}", output.stderr);
        assert_eq!(files.fullbore(&["runs", "abort", "last"]).code, STOPPED);
    }
}

/// A TRUNCATE that comes while the run is called published waits, and finds a run that is published.
#[test]
fn nobody_truncates_a_target_while_its_run_is_called_published() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let mut gate = Gate::at(&database, Moment::Publishes);
    let child = files.start_load(database.url(), &file, "append", &APPEND.args());
    gate.wait();
    let mut other = session(database.url());
    other.execute("SET statement_timeout = '1s'").expect("set");
    let truncated = other.execute("TRUNCATE append");
    assert!(truncated.is_err_and(|error| error.to_string().contains("timeout")));
    gate.open(&database);
    assert_loaded(&end_of(child));
    assert_same(&database, "append", "plain");
}

/// Another table's lock is waited for, and meanwhile rows go that were verified before.
#[test]
fn what_goes_between_the_counting_and_the_end_is_missed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    prepared(&database, &files);
    let table = |way: &Way, publish: &str| {
        let name = way.name;
        format!(
            "[[table]]\nname = \"{name}\"\nsources = [\"big.csv\"]\nheader = \"none\"\n\
             publish = \"{publish}\"\n"
        )
    };
    let job = table(&APPEND, "append") + &table(&REPLACE, "replace");
    let job = files.write("job.toml", format!("lock_timeout = \"300ms\"\n{job}"));
    for change in ["TRUNCATE append", "VACUUM FULL append"] {
        APPEND.make(&database);
        REPLACE.make(&database);
        let reader = Held::begin(database.url(), "SELECT FROM replaced");
        let args =
            ["load", &job, "--to", database.url(), "--method", "copy", "--if-loaded", "again"];
        let mut load = Load::of(files.start(&args));
        load.wait_for("waits for a lock");
        database.psql(change);
        reader.release();
        let (code, said) = load.end();
        if change.starts_with("VACUUM") {
            assert_eq!(code, 0, "{said}");
            assert_same(&database, "append", "plain");
            assert_same(&database, "replaced", "plain");
            continue;
        }
        assert_eq!(code, STOPPED, "{said}");
        assert!(said.contains("holds 0 of the 25000 rows"), "{said}");
        assert_eq!(database.psql("SELECT count(*) FROM replaced"), "0");
        assert_eq!(files.fullbore(&["runs", "abort", "last"]).code, STOPPED);
    }
}

#[test]
fn a_staging_table_that_lacks_rows_after_a_kill_is_not_shown() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&REPLACE, &ATOMIC, &PARTITIONS] {
        for change in ["TRUNCATE %s", "DELETE FROM %s WHERE k %% 2 = 0"] {
            way.make(&database);
            files.kill_load_at(&database, Moment::PieceBegins(2), &file, way.name, &way.args());
            database.psql(&format!(
                "DO $$ DECLARE t regclass; BEGIN
                    SELECT oid INTO STRICT t FROM pg_class
                     WHERE relname LIKE '%\\_fb\\_%' AND relkind = 'r' ORDER BY oid LIMIT 1;
                    EXECUTE format('{change}', t);
                 END $$"
            ));
            let output = files.fullbore(&["runs", "resume", "last"]);
            assert_eq!(output.code, FAILED, "{} {change}: {}", way.name, output.stderr);
            for words in [" rows, but ", "were committed to it"] {
                assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
            }
            assert!(!output.stderr.contains("verified"), "{}", output.stderr);
            assert_eq!(database.psql(&format!("SELECT count(*) FROM {}", way.name)), "0");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn rows_are_counted_where_they_are() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        for way in [&APPEND, &REPLACE, &ATOMIC, &PARTITIONS] {
            way.make(&database);
            let output = files.load(&database, &file, way.name, &way.args());
            assert_loaded(&output);
            assert!(output.stderr.contains(UNCHANGED), "{}: {}", way.name, output.stderr);
            assert_same(&database, way.name, "plain");
            way.make(&database);
            let args = [&way.args()[..], &["--verify", "count"]].concat();
            let output = files.load(&database, &file, way.name, &args);
            assert_loaded(&output);
            assert!(output.stderr.contains(COUNTED), "{}: {}", way.name, output.stderr);
        }
        // Rows that take the place of others, between others, and in partitions.
        database.psql(
            "CREATE TABLE used (k bigint, n int, v text);
             INSERT INTO used SELECT -k, n, v FROM plain; DELETE FROM used WHERE k % 3 = 0",
        );
        database.psql("VACUUM used");
        // Before 15 they come by way of a process of their own, and a load that sees them come counts.
        wait_for("statistics of what was deleted", || {
            database.psql("SELECT pg_stat_get_tuples_deleted('used'::regclass) > 0") == "t"
        });
        database.psql(
            "CREATE TABLE split (k bigint, n int, v text) PARTITION BY HASH (k);
             CREATE TABLE split0 PARTITION OF split FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE split1 PARTITION OF split FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        );
        for table in ["used", "split"] {
            let output = files.load(&database, &file, table, &APPEND.args());
            assert_loaded(&output);
            assert!(output.stderr.contains(UNCHANGED), "{table}: {}", output.stderr);
            database.psql(&format!("DELETE FROM {table} WHERE k >= 0"));
            let args =
                [&APPEND.args()[..], &["--verify", "count", "--if-loaded", "again"]].concat();
            let output = files.load(&database, &file, table, &args);
            assert_loaded(&output);
            assert!(output.stderr.contains(COUNTED), "{table}: {}", output.stderr);
        }
        let plan = files.fullbore(&[
            "plan",
            &file,
            "--to",
            database.url(),
            "--table",
            "used",
            "--if-loaded",
            "again",
        ]);
        assert!(
            plan.stdout.contains("are also counted in the new part of the table"),
            "{}",
            plan.stdout
        );
    }
}

#[test]
fn what_can_not_be_counted_is_said() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "1\n2\n");
    database.psql("CREATE TABLE t (k bigint)");
    let output = files.load(&database, &file, "t", &["--header", "none", "--no-ledger"]);
    assert_loaded(&output);
    for words in ["counted by client and server", "not counted in the table", "without a ledger"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}

#[test]
fn rows_deleted_from_a_staging_table_meanwhile_are_missed() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        for way in [&REPLACE, &ATOMIC, &PARTITIONS] {
            for change in ["TRUNCATE %s", "DELETE FROM %s WHERE k %% 2 = 0"] {
                way.make(&database);
                let mut gate = Gate::at(&database, Moment::PieceBegins(2));
                let child = files.start_load(database.url(), &file, way.name, &way.args());
                gate.wait();
                database.psql(&format!(
                    "DO $$ DECLARE t regclass; BEGIN
                        SELECT oid INTO STRICT t FROM pg_class
                         WHERE relname LIKE '%\\_fb\\_%' AND relkind = 'r' ORDER BY oid LIMIT 1;
                        EXECUTE format('{change}', t);
                     END $$"
                ));
                // Before 15 what a session did is known half a second after its end.
                std::thread::sleep(std::time::Duration::from_millis(600));
                gate.open(&database);
                let output = end_of(child);
                assert_eq!(output.code, FAILED, "{} {change}: {}", way.name, output.stderr);
                assert!(output.stderr.contains("were committed to it"), "{}", output.stderr);
                assert_eq!(database.psql(&format!("SELECT count(*) FROM {}", way.name)), "0");
                assert_no_leftovers(&database);
            }
        }
    }
}
