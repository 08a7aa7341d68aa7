//! What a load was not told of, or was not asked about, is in the ledger, which is what counts.

use crate::common;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, ledger, signal};
use crate::common::ways::{APPEND, prepared};
use crate::common::wire::Wire;
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip};

/// Loads until the first piece is committed and nobody heard of it, and the run was interrupted.
fn interrupted_in_a_commit(
    database: &TestDatabase<'_>,
    files: &Files,
    file: &str,
    more: &[&str],
) -> fullbore_testing::Output {
    APPEND.make(database);
    let wire = Wire::to(database, files);
    let mut gate = Gate::at(database, Moment::PieceCommits(0));
    let mut args = APPEND.args();
    args.extend(more);
    let child = files.start_load(&wire.url(database), file, "append", &args);
    gate.wait();
    signal(&child, "-INT");
    wire.cut();
    gate.open(database);
    let is_there = || database.psql("SELECT count(*) > 0 FROM append") == "t";
    common::held::wait_for("committed piece", is_there);
    wire.mend();
    end_of(child)
}

#[test]
fn a_commit_that_was_not_heard_of_is_not_forgotten_with_the_run() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let output = interrupted_in_a_commit(&database, &files, &file, &[]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("fullbore runs resume"), "{}", output.stderr);
    assert!(!output.stderr.contains("load again"), "{}", output.stderr);
    assert_eq!(ledger(&database, "append"), "loading|1");
    assert_loaded(&files.load(&database, &file, "append", &APPEND.resume_args()));
    assert_same(&database, "append", "plain");
    assert_no_leftovers(&database);
}

#[test]
fn a_target_that_was_set_unlogged_or_logged_is_another_one() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (change, back) in [("UNLOGGED", "LOGGED"), ("LOGGED", "UNLOGGED")] {
        APPEND.make(&database);
        database.psql(&format!("ALTER TABLE append SET {back}"));
        files.kill_load_at(&database, Moment::PieceBegins(1), &file, "append", &APPEND.args());
        database.psql(&format!("ALTER TABLE append SET {change}"));
        let refused = files.load(&database, &file, "append", &APPEND.resume_args());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("was set {change}")), "{}", refused.stderr);
        database.psql(&format!("ALTER TABLE append SET {back}"));
        assert_loaded(&files.load(&database, &file, "append", &APPEND.resume_args()));
        assert_same(&database, "append", "plain");
    }
}
