//! Files whose contents are in their table already: refused, left out or loaded once more.

use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};

use super::{REFUSED, STOPPED};
use crate::common::moments::assert_loaded;
use crate::common::{Files, assert_no_leftovers};

const ARGS: [&str; 3] = ["--header", "none", "--statistics=none"];

fn load(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) -> Output {
    files.load(database, file, "t", &[&ARGS[..], more].concat())
}

fn sum(database: &TestDatabase<'_>) -> String {
    database.psql("SELECT count(*), coalesce(sum(k), 0) FROM t")
}

#[test]
fn resume_with_one_more_file_loads_that_one_only() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for atomic in [&[][..], &["--atomic"]] {
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE t (k bigint)");
        let files = Files::new();
        let first = files.write("day.1.csv", "1\n2\n");
        let glob = first.replace("day.1", "day.*");
        let load = || load(&database, &files, &glob, &[&["--resume"], atomic].concat());
        assert_loaded(&load());
        files.write("day.2.csv", "10\n20\n");
        let more = load();
        assert_loaded(&more);
        for words in ["day.1.csv is skipped", "--if-loaded again"] {
            assert!(more.stderr.contains(words), "{} lacks {words}", more.stderr);
        }
        assert_eq!(sum(&database), "4|33");
        // And again: all of them, a touched one too, are known.
        std::fs::File::options()
            .append(true)
            .open(&first)
            .expect("opened")
            .set_modified(std::time::SystemTime::now())
            .expect("touched");
        let again = load();
        assert_loaded(&again);
        assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
        assert_eq!(sum(&database), "4|33");
        assert_no_leftovers(&database);
    }
}

#[test]
fn contents_that_were_appended_before_are_refused_by_default() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint)");
    let files = Files::new();
    let file = files.write("a.csv", "1\n2\n");
    assert_loaded(&load(&database, &files, &file, &[]));
    let run = database.psql("SELECT run FROM fullbore_ledger.runs");
    let copy = files.write("copy.csv", "1\n2\n");
    for (file, table) in [(&file, "t"), (&copy, "t"), (&copy, "public.t")] {
        let refused = files.load(&database, file, table, &ARGS);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        let year = database.psql("SELECT to_char(now(), 'YYYY-MM-DD')");
        for words in [&run, &year, "--if-loaded skip", "--if-loaded again", "\"public\".\"t\""] {
            assert!(refused.stderr.contains(words), "{} lacks {words}", refused.stderr);
        }
    }
    assert_eq!(sum(&database), "2|3");
    let planned = files.fullbore(&[
        "plan",
        &file,
        "--to",
        database.url(),
        "--table",
        "t",
        "--header",
        "none",
    ]);
    assert_eq!(planned.code, REFUSED, "{}", planned.stderr);
    // Other contents of the same size are other contents.
    let other = files.write("other.csv", "1\n3\n");
    assert_loaded(&load(&database, &files, &other, &[]));
    let skipped = load(&database, &files, &copy, &["--if-loaded", "skip"]);
    assert_loaded(&skipped);
    assert!(skipped.stderr.contains("nothing to do"), "{}", skipped.stderr);
    assert_eq!(sum(&database), "4|7");
    assert_loaded(&load(&database, &files, &copy, &["--if-loaded", "again"]));
    assert_eq!(sum(&database), "6|10");
    let failing = load(&database, &files, &copy, &["--resume", "--if-loaded", "fail"]);
    assert_eq!(failing.code, REFUSED, "{}", failing.stderr);
}

#[test]
fn only_rows_that_are_in_the_table_still_count_as_loaded() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint)");
    let files = Files::new();
    let file = files.write("a.csv", "1\n2\n");
    assert_loaded(&load(&database, &files, &file, &[]));
    for gone in ["TRUNCATE t", "DROP TABLE t; CREATE TABLE t (k bigint)"] {
        database.psql(gone);
        assert_loaded(&load(&database, &files, &file, &[]));
        assert_eq!(sum(&database), "2|3", "{gone}");
    }
    // A replacement is another table, with these contents or without.
    let other = files.write("other.csv", "7\n");
    assert_loaded(&load(&database, &files, &other, &["--publish", "replace"]));
    assert_loaded(&load(&database, &files, &file, &[]));
    assert_loaded(&load(&database, &files, &other, &["--publish", "replace"]));
    assert_eq!(sum(&database), "1|7");
    // Each partition counts for the whole table.
    database.psql(
        "DROP TABLE t; CREATE TABLE t (k bigint) PARTITION BY RANGE (k);
         CREATE TABLE t1 PARTITION OF t DEFAULT",
    );
    assert_loaded(&load(&database, &files, &file, &[]));
    assert_eq!(load(&database, &files, &file, &[]).code, REFUSED);
    database.psql("TRUNCATE t");
    assert_loaded(&load(&database, &files, &file, &[]));
    assert_eq!(sum(&database), "2|3");
}

#[test]
fn a_run_that_was_closed_or_failed_has_loaded_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint); CREATE TABLE u (k bigint)");
    let files = Files::new();
    let file = files.write("a.csv", "1\n2\n");
    assert_loaded(&files.load(&database, &file, "u", &ARGS));
    assert_loaded(&load(&database, &files, &file, &[]));
    database
        .psql("UPDATE fullbore_ledger.runs SET state = 'undone' WHERE targets::text LIKE '%t%'");
    assert_loaded(&load(&database, &files, &file, &[]));
    assert_eq!(sum(&database), "4|6");
    database.psql(
        "UPDATE fullbore_ledger.runs SET state = 'loading' WHERE state = 'finished' AND targets::text LIKE '%t%'",
    );
    let aborted = files.fullbore(&["runs", "abort", "last"]);
    assert_eq!(aborted.code, STOPPED, "{}", aborted.stderr);
    assert_loaded(&load(&database, &files, &file, &[]));
    let bad = files.write("bad.csv", "3\nx\n");
    for _ in 0..2 {
        let failed = load(&database, &files, &bad, &["--atomic"]);
        assert_eq!(failed.code, 1, "{}", failed.stderr);
    }
}

#[test]
fn the_option_is_refused_where_it_could_do_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint)");
    let files = Files::new();
    let file = files.write("a.csv", "1\n");
    let pipe = files.path("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("made").success());
    for (file, more) in [
        (&file, &["--publish", "replace", "--if-loaded", "skip"][..]),
        (&file, &["--no-ledger", "--if-loaded", "fail"]),
        (&pipe, &["--if-loaded", "skip"]),
    ] {
        let refused = load(&database, &files, file, more);
        assert_eq!(refused.code, REFUSED, "{more:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("--if-loaded"), "{}", refused.stderr);
    }
    assert_eq!(sum(&database), "0|0");
}

#[test]
fn a_run_that_has_finished_is_not_begun_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint)");
    let files = Files::new();
    let file = files.write("log.csv", "1\n2\n");
    assert_loaded(&load(&database, &files, &file, &[]));
    files.write("log.csv", "1\n2\n3\n");
    let output = files.fullbore(&["runs", "resume", "last"]);
    assert_loaded(&output);
    assert!(output.stderr.contains("there is nothing to do"), "{}", output.stderr);
    assert_eq!(sum(&database), "2|3");
}
