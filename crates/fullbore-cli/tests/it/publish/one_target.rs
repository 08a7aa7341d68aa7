//! A `replace` and an `append` of ours on one target exclude each other; two appends don't.

use crate::common::codes::REFUSED;
use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::held::{end_of, session, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{APPEND, ATOMIC, REPLACE, Way, prepared};
use crate::common::{Files, assert_same, checksum};

/// The way of another job into the same table.
fn args(way: &Way, more: &[&'static str]) -> Vec<&'static str> {
    let mut args = way.args();
    args.extend(more);
    args
}

#[test]
fn a_replace_and_an_append_of_one_table_exclude_each_other() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (first, second, doing) in [
        (&APPEND, &REPLACE, "is being loaded into by run "),
        (&ATOMIC, &REPLACE, "is being loaded into by run "),
        (&REPLACE, &APPEND, "is being replaced by run "),
        (&REPLACE, &ATOMIC, "is being replaced by run "),
        (&REPLACE, &REPLACE, "is being replaced by run "),
    ] {
        APPEND.make(&database);
        let mut gate = Gate::at(&database, Moment::PieceBegins(1));
        let child = files.start_load(database.url(), &file, "append", &args(first, &[]));
        gate.wait();
        // Another job: one job alone is refused for another reason.
        let output = files.load(&database, &file, "append", &args(second, &["--null", "N"]));
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains(doing), "{}", output.stderr);
        let run = database.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'loading'");
        assert!(output.stderr.contains(&run), "{} does not name {run}", output.stderr);
        gate.open(&database);
        assert_loaded(&end_of(child));
        assert_same(&database, "append", "plain");
    }
}

#[test]
fn a_replace_that_an_append_waited_for_is_not_missed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let mut gate = Gate::at(&database, Moment::Publishes);
    let first = files.start_load(database.url(), &file, "append", &REPLACE.args());
    gate.wait();
    let second =
        files.start_load(database.url(), &file, "append", &args(&APPEND, &["--no-ledger"]));
    let mut watcher = session(database.url());
    wait_for("append that waits for the replacement", || {
        let rows = watcher.query(
            "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND mode = 'ExclusiveLock'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        );
        !rows.expect("asked").is_empty()
    });
    gate.open(&database);
    assert_loaded(&end_of(first));
    let output = end_of(second);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("another table has its name"), "{}", output.stderr);
    assert_same(&database, "append", "plain");
}

#[test]
fn two_appends_run_side_by_side() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    database.psql("CREATE TABLE append (k bigint, n int, v text)");
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child = files.start_load(database.url(), &file, "append", &APPEND.args());
    gate.wait();
    assert_loaded(&files.load(&database, &file, "append", &args(&APPEND, &["--no-ledger"])));
    gate.open(&database);
    assert_loaded(&end_of(child));
    database.psql("INSERT INTO plain SELECT * FROM plain");
    assert_eq!(checksum(&database, "append"), checksum(&database, "plain"));
}
