//! Runs that ended, or lost their connection, before their first row: nothing of them is loaded, and who
//! takes them up begins anew, or finds that they are no longer there.

use std::process::Child;

use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

use super::STOPPED;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, kill};
use crate::common::ways::{APPEND, PARTITIONS, REPLACE, Way, prepared};
use crate::common::wire::Wire;
use crate::common::{Files, assert_no_leftovers, assert_same};

const RUNS: &str = "SELECT string_agg(state, ',') FROM fullbore_ledger.runs
                     WHERE targets[1] ~ '(append|replaced|parted)'";

#[test]
fn a_run_that_ended_while_it_prepared_is_resumed_from_the_beginning() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    // By its id, and by another spelling of its command.
    for by_id in [true, false] {
        APPEND.make(&database);
        let mut gate = Gate::at(&database, Moment::IsPrepared);
        let child = files.start_load(database.url(), &file, "append", &APPEND.args());
        gate.wait();
        kill(child);
        gate.terminate_waiting();
        gate.open(&database);
        assert_eq!(database.psql(RUNS), "preparing");
        assert_loaded(&match by_id {
            true => files.fullbore(&["runs", "resume", "last"]),
            false => files.load(&database, &file, "public.append", &APPEND.args()),
        });
        assert_eq!(database.psql(RUNS), "finished");
        assert_same(&database, "append", "plain");
        assert_no_leftovers(&database);
        database.psql("DROP TABLE append; DELETE FROM fullbore_ledger.runs");
    }
}

/// A load that loses its connection as it prepares, and gets no other one until the wire is mended.
fn lost_while_it_prepares(
    database: &TestDatabase<'_>,
    files: &Files,
    wire: &Wire,
    file: &str,
    way: &Way,
) -> (Child, Gate) {
    way.make(database);
    let mut gate = Gate::at(database, Moment::IsPrepared);
    let child = files.start_load(&wire.url(database), file, way.name, &way.args());
    gate.wait();
    wire.cut();
    gate.terminate_waiting();
    (child, gate)
}

/// The client loses its connection as it prepares, and sleeps; its run is aborted elsewhere. It must not
/// begin anew as it wakes.
#[test]
fn a_run_that_was_aborted_while_it_prepared_does_not_begin_anew() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let wire = Wire::to(&database, &files);
    for way in [&APPEND, &REPLACE, &PARTITIONS] {
        let (child, gate) = lost_while_it_prepares(&database, &files, &wire, &file, way);
        let run = database.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'preparing'");
        let aborted = files.fullbore(&["runs", "abort", &run, "--to", database.url()]);
        assert_eq!(aborted.code, 0, "{}", aborted.stderr);
        gate.open(&database);
        wire.mend();
        let output = end_of(child);
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        assert!(output.stderr.contains("was rolled back"), "{}", output.stderr);
        assert!(!output.stderr.contains("runs resume"), "{}", output.stderr);
        assert_eq!(database.psql(&format!("SELECT count(*) FROM {}", way.name)), "0");
        assert_eq!(database.psql(RUNS), "");
        assert_no_leftovers(&database);
    }
}

/// The same connection is lost, and nobody else does anything: the run is begun anew.
#[test]
fn a_run_that_only_lost_its_connection_while_it_prepared_begins_anew() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let wire = Wire::to(&database, &files);
    for way in [&APPEND, &REPLACE, &PARTITIONS] {
        let (child, gate) = lost_while_it_prepares(&database, &files, &wire, &file, way);
        gate.open(&database);
        wire.mend();
        assert_loaded(&end_of(child));
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        database.psql("DELETE FROM fullbore_ledger.runs");
    }
}
