//! All rows are as they were at one moment, which ends with the process.

use super::table;
use crate::common::codes::REFUSED;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, kill};
use crate::common::{Files, checksum};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

const ARGS: [&str; 6] = ["--streams", "1", "--piece-size", "500kB", "--statistics", "none"];

/// A table of several pieces, an empty one to load it into, and a ledger.
fn prepare(from: &TestDatabase<'_>, to: &TestDatabase<'_>, files: &Files) {
    let make = "CREATE TABLE t (k int, v text)";
    from.psql(&format!(
        "{make}; INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g"
    ));
    to.psql(&format!("{make}; CREATE TABLE first (a int)"));
    assert_loaded(&files.load(to, &files.write("f.csv", "1\n"), "first", &["--header", "none"]));
}

#[test]
fn rows_that_change_meanwhile_are_as_they_were() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    prepare(&from, &to, &files);
    let before = checksum(&from, "t");
    let mut gate = Gate::at(&to, Moment::PieceBegins(1));
    let child = files.start_load(to.url(), &table(&from, "t"), "t", &ARGS);
    gate.wait();
    from.psql(
        "DELETE FROM t WHERE k % 3 = 0; UPDATE t SET v = 'changed' WHERE k % 3 = 1;
         INSERT INTO t SELECT g, 'late' FROM generate_series(1, 1000) g",
    );
    // What would take rows out of a snapshot waits.
    let truncated = from.try_psql("SET lock_timeout = '100ms'; TRUNCATE t");
    assert!(truncated.is_err_and(|error| error.contains("lock timeout")));
    gate.open(&to);
    assert_loaded(&end_of(child));
    assert_eq!(checksum(&to, "t"), before);
    assert_eq!(
        from.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"),
        "1"
    );
}

#[test]
fn a_run_is_not_resumed_under_another_snapshot() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    prepare(&from, &to, &files);
    let mut gate = Gate::at(&to, Moment::PieceBegins(1));
    let child = files.start_load(to.url(), &table(&from, "t"), "t", &ARGS);
    gate.wait();
    kill(child);
    gate.open(&to);
    let run = to.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'loading'");
    let output = files.fullbore(&["runs", "resume", &run]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("which ended with its process"), "{}", output.stderr);
    assert_eq!(files.fullbore(&["runs", "abort", &run, "--delete-rows"]).code, 0);
    assert_loaded(&files.load(&to, &table(&from, "t"), "t", &ARGS));
    assert_eq!(checksum(&to, "t"), checksum(&from, "t"));
}
