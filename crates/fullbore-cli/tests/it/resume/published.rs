//! Runs whose rows are shown and which have something left to do.

use std::time::Duration;

use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

use super::{REFUSED, STOPPED};
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, ledger};
use crate::common::ways::{APPEND, ATOMIC, REPLACE, UPSERT, Way, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

/// Loads until all rows are shown, with a server that lets nobody write that down; what was said.
fn stopped_at_the_end(database: &TestDatabase<'_>, files: &Files, file: &str, way: &Way) -> String {
    way.make(database);
    let mut gate = Gate::at(database, Moment::Finishes);
    let args = [&way.args()[..], &["--retry-for", "0"]].concat();
    let mut child = files.start_load(database.url(), file, way.name, &args);
    gate.wait();
    while child.try_wait().expect("asked").is_none() {
        gate.terminate_waiting();
        std::thread::sleep(Duration::from_millis(20));
    }
    gate.open(database);
    let output = end_of(child);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    assert!(ledger(database, way.name).starts_with("published|"), "{}", ledger(database, way.name));
    output.stderr
}

#[test]
fn a_failure_after_the_rows_were_shown_says_so_and_resume_does_the_rest() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&APPEND, &ATOMIC, &REPLACE, &UPSERT] {
        let said = stopped_at_the_end(&database, &files, &file, way);
        assert!(said.contains("its 25,000 rows were published"), "{said}");
        assert!(said.contains("fullbore runs resume"), "{said}");
        for words in ["runs abort", "committed and kept"] {
            assert!(!said.contains(words), "{said} has {words}");
        }
        assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        assert!(ledger(&database, way.name).starts_with("finished|"));
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        database.psql(&format!("DROP TABLE {}", way.name));
    }
}

#[test]
fn a_command_that_is_spelled_otherwise_names_the_run_that_is_to_be_ended() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let run = || database.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'published'");
    files.write("big2.csv", "30000,1,x\n");
    let both = file.replace("big.csv", "big*.csv");
    stopped_at_the_end(&database, &files, &file, &REPLACE);
    let ends = format!("fullbore runs resume {}", run());
    let refused = files.load(&database, &both, "replaced", &REPLACE.resume_args());
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
    for words in ["published its rows", "big2.csv was not among the files", &ends] {
        assert!(refused.stderr.contains(words), "{} lacks {words}", refused.stderr);
    }
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_same(&database, "replaced", "plain");
    // What is appended has the new file alone as what is left.
    stopped_at_the_end(&database, &files, &file, &ATOMIC);
    let ends = format!("fullbore runs resume {}", run());
    let output = files.load(&database, &both, "atomic", &ATOMIC.resume_args());
    assert_loaded(&output);
    for words in ["big.csv is skipped", &ends] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    // What means the same is ended.
    assert_loaded(&files.load(&database, &file, "public.atomic", &ATOMIC.resume_args()));
    let left = "SELECT count(*) FROM fullbore_ledger.runs WHERE state <> 'finished'";
    assert_eq!(database.psql(left), "0");
    assert_eq!(database.psql("SELECT count(*), count(DISTINCT k) FROM atomic"), "25001|25001");
}

#[test]
fn a_run_whose_table_was_dropped_after_it_was_shown_is_closed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for again in ["", "CREATE TABLE atomic (k bigint, n int, v text)"] {
        stopped_at_the_end(&database, &files, &file, &ATOMIC);
        database.psql(&format!("DROP TABLE atomic; {again}"));
        let output = files.fullbore(&["runs", "resume", "last"]);
        assert_loaded(&output);
        for words in ["25,000", "dropped afterwards", "is closed"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert!(ledger(&database, "atomic").starts_with("finished|"));
        database.psql("DROP TABLE IF EXISTS atomic; DELETE FROM fullbore_ledger.runs");
    }
}
