//! Runs that stopped, and commands that mean the same, or nearly, and are spelled otherwise.

use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};

use super::{REFUSED, STOPPED};
use crate::common::moments::{Gate, Moment, assert_loaded, kill, ledger};
use crate::common::ways::{APPEND, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

/// A load that was killed with one piece of three committed.
fn killed(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) {
    files.kill_load_at(database, Moment::PieceBegins(1), file, "append", &args(more));
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = APPEND.args();
    args.extend(more);
    args
}

fn assert_refused(output: &Output, words: &[&str]) {
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    for words in words {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}

#[test]
fn a_job_that_means_the_same_is_resumed_however_it_is_spelled() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let folder = files.folder().display().to_string();
    let other = files.path("other");
    std::os::unix::fs::symlink(files.folder(), &other).expect("linked");
    let linked = format!("{}/big.csv", other.display());
    let glob = format!("{folder}/bi*.csv");
    for (file_then, table, more) in [
        (linked.as_str(), "append", &[][..]),
        (&glob, "append", &[]),
        (&file, "public.append", &[]),
        (&file, "\"public\".\"append\"", &["--delimiter", ","]),
    ] {
        APPEND.make(&database);
        killed(&database, &files, &file, &[]);
        let mut more = args(more);
        more.push("--resume");
        let output = files.load(&database, file_then, table, &more);
        assert_loaded(&output);
        assert_same(&database, "append", "plain");
        assert!(ledger(&database, "append").starts_with("finished|3"), "{table} {more:?}");
        assert_no_leftovers(&database);
    }
}

#[test]
fn files_in_another_order_are_the_same_files() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    prepared(&database, &files);
    database.psql("CREATE TABLE t (k bigint, v text)");
    let filler = "x".repeat(1900);
    let rows = |range: std::ops::Range<u32>| -> String {
        range.map(|k| format!("{k},{filler}\n")).collect()
    };
    let (one, two) =
        (files.write("one.csv", rows(0..12_000)), files.write("two.csv", rows(12_000..24_000)));
    let load = |order: [&str; 2], more: &[&str]| {
        let mut args = vec!["load", order[0], order[1], "--to", database.url(), "--table", "t"];
        args.extend(["--header", "none", "--streams", "1", "--statistics=none"]);
        args.extend(more);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let command = load([&one, &two], &[]);
    let child = files.start(&command.iter().map(String::as_str).collect::<Vec<_>>());
    gate.wait();
    kill(child);
    gate.open(&database);
    let command = load([&two, &one], &["--resume"]);
    assert_loaded(&files.fullbore(&command.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(
        database.psql("SELECT count(*), count(DISTINCT k), min(k), max(k) FROM t"),
        "24000|24000|0|23999"
    );
    assert_eq!(
        database.psql("SELECT count(*) FROM fullbore_ledger.runs WHERE state <> 'finished'"),
        "0"
    );
}

#[test]
fn a_job_that_differs_from_an_unfinished_run_is_refused_with_what_differs() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    killed(&database, &files, &file, &[]);
    let rows = database.psql("SELECT count(*) FROM append");
    let glob = file.replace("big.csv", "big*.csv");
    files.write("big2.csv", "30000,1,x\n");
    let refused = |file: &str, more: &[&str], words: &[&str]| {
        let mut more = args(more);
        more.push("--resume");
        assert_refused(&files.load(&database, file, "append", &more), words);
        assert_eq!(database.psql("SELECT count(*) FROM append"), rows, "{more:?}");
    };
    let ways = ["hint:", "fullbore runs resume", "fullbore runs abort"];
    refused(&glob, &[], &[&ways[..], &["big2.csv was not among the files"]].concat());
    refused(&file, &["--null", "x"], &[&ways[..], &["null was \"\", is \"x\""]].concat());
    refused(&file, &["--atomic"], &[&ways[..], &["--atomic was not given, is given"]].concat());
    refused(&file, &["--lineage", "run=v"], &["--lineage was not given"]);
    refused(&file, &["--where", "1 = 1"], &["--where was not given, is 1 = 1"]);
    refused(&file, &["--check", "c=1 = 1"], &["--check was not given"]);
    refused(&file, &["--publish", "replace"], &["--publish was append, is replace"]);
    let planned = files.fullbore(&[
        "plan",
        &glob,
        "--to",
        database.url(),
        "--table",
        "append",
        "--header",
        "none",
        "--resume",
    ]);
    assert_refused(&planned, &["big2.csv was not among the files"]);
    // The first way out, although there is a file more by now; then what is left.
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_same(&database, "append", "plain");
    let mut more = args(&[]);
    more.push("--resume");
    let output = files.load(&database, &glob, "append", &more);
    assert_loaded(&output);
    assert!(output.stderr.contains("is skipped"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), count(DISTINCT k) FROM append"), "25001|25001");
}

#[test]
fn other_files_for_the_same_table_are_loaded_and_the_unfinished_run_is_told() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    killed(&database, &files, &file, &[]);
    for (name, key, resume) in [("a.csv", 40_000, false), ("b.csv", 50_000, true)] {
        let other = files.write(name, format!("{key},1,x\n"));
        let more: &[&str] = if resume { &["--resume"] } else { &[] };
        let output = files.load(&database, &other, "append", &args(more));
        assert_loaded(&output);
        assert!(output.stderr.contains("has not finished"), "{}", output.stderr);
        assert!(output.stderr.contains("fullbore runs abort"), "{}", output.stderr);
    }
}

#[test]
fn without_resume_the_same_contents_are_not_appended_beside_an_unfinished_run() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    database.psql("CREATE TABLE append (k bigint, n int, v text)");
    killed(&database, &files, &file, &[]);
    let rows: u32 = database.psql("SELECT count(*) FROM append").parse().expect("a number");
    let copy = files.write("copy.csv", std::fs::read(&file).expect("read"));
    for file in [&file, &copy] {
        for table in ["append", "public.append"] {
            let output = files.load(&database, file, table, &args(&[]));
            assert_refused(&output, &["has not finished", "already", "--if-loaded again"]);
        }
    }
    assert_eq!(database.psql("SELECT count(*) FROM append"), rows.to_string());
    assert_loaded(&files.load(&database, &copy, "append", &args(&["--if-loaded", "again"])));
    assert_eq!(database.psql("SELECT count(*) FROM append"), (rows + 25_000).to_string());
    // What was loaded meanwhile is not loaded by the first run, too.
    let resumed = files.fullbore(&["runs", "list"]).stdout;
    let first = resumed.lines().rev().find(|line| line.contains("append")).expect("the first run");
    let first = first.split_whitespace().next().expect("its id");
    let output = files.fullbore(&["runs", "resume", first]);
    assert_refused(&output, &["has been loaded into", "fullbore runs abort"]);
    assert_eq!(files.fullbore(&["runs", "abort", first]).code, STOPPED);
}
