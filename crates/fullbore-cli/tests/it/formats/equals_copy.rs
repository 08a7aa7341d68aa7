//! What Fullbore loads equals what plain COPY loads from the same file, by count and checksum.

use crate::common;
use crate::common::typed::{TYPED, make_types, typed_rows};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip, wanted};

/// Types that go as text.
const TEXT_ONLY: &str =
    "id bigint, span interval, range int4range, net inet, positive positive, pair pair, spot point";

fn loads_like_copy(
    database: &TestDatabase<'_>,
    columns: &str,
    file: &str,
    files: &Files,
    more: &[&str],
) {
    database.psql(&format!("CREATE TABLE ours ({columns}); CREATE TABLE plain ({columns}); COPY plain FROM '{file}' (FORMAT csv)"));
    let mut args = vec!["--format", "csv", "--header", "none"];
    args.extend(more);
    let output = files.load(database, file, "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same(database, "ours", "plain");
    assert_no_leftovers(database);
}

fn typed_on(server: TestServer, odd_every: usize, more: &[&str]) {
    let cluster = shared_or_skip!(server);
    let database = cluster.fresh_database();
    make_types(&database);
    let files = Files::new();
    let file = files.write("typed.csv", typed_rows(3000, odd_every));
    loads_like_copy(&database, TYPED, &file, &files, more);
}

#[test]
fn every_type_on_18() {
    typed_on(TestServer::Embedded18, 0, &[]);
}

#[test]
fn every_type_on_16() {
    typed_on(TestServer::Pg16, 0, &[]);
}

#[test]
fn every_type_on_15() {
    typed_on(TestServer::Debian15, 0, &[]);
}

#[test]
fn every_type_on_14() {
    typed_on(TestServer::Pg14, 0, &[]);
}

#[test]
fn odd_rows_are_judged_by_the_server_on_18() {
    typed_on(TestServer::Embedded18, 100, &[]);
    typed_on(TestServer::Embedded18, 5, &[]);
}

#[test]
fn odd_rows_are_judged_by_the_server_before_17() {
    typed_on(TestServer::Pg16, 100, &[]);
    typed_on(TestServer::Pg14, 5, &[]);
}

#[test]
fn atomic_append_equals_copy() {
    typed_on(TestServer::Embedded18, 50, &["--atomic"]);
    typed_on(TestServer::Pg14, 50, &["--atomic"]);
}

#[test]
fn replace_equals_copy() {
    typed_on(TestServer::Embedded18, 50, &["--publish", "replace"]);
    typed_on(TestServer::Pg14, 50, &["--publish", "replace"]);
}

#[test]
fn rows_sent_as_text_when_asked() {
    typed_on(TestServer::Embedded18, 50, &["--as-text"]);
    typed_on(TestServer::Pg14, 50, &["--as-text", "--publish", "replace"]);
    let files = Files::new();
    let file = files.write("x.csv", "a,b\n1,2\n");
    let database = shared_or_skip!(TestServer::Embedded18).fresh_database();
    let plan = files.fullbore(&["plan", &file, "--to", database.url(), "--create", "--as-text"]);
    assert!(plan.stdout.contains("rows are sent as COPY text: --as-text"), "{}", plan.stdout);
}

fn text_only_on(server: TestServer) {
    let cluster = shared_or_skip!(server);
    let database = cluster.fresh_database();
    make_types(&database);
    let files = Files::new();
    let mut text = String::new();
    for i in 1..2000 {
        text.push_str(&format!("{i},{i} days 0{}:00,\"[{i},{})\",10.{}.0.0/16,{i},\"({i},\"\"x y\"\")\",\"({i},-{i})\"\n", i % 10, i + 5, i % 255));
    }
    let file = files.write("text.csv", text);
    loads_like_copy(&database, TEXT_ONLY, &file, &files, &[]);
}

#[test]
fn types_without_an_encoder_go_as_text() {
    text_only_on(TestServer::Embedded18);
    text_only_on(TestServer::Pg16);
    text_only_on(TestServer::Pg14);
}

#[test]
fn partitions_equal_copy() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg16, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        // Large enough for several pieces; keys repeat, so that cuts must move.
        let text: String =
            (0..1_500_000).map(|i| format!("{},{},payload {i}\n", i / 7, i % 7)).collect();
        let file = files.write("keys.csv", &text);
        database.psql(&format!(
            "CREATE TABLE ours (k bigint, n integer, v text, PRIMARY KEY (k, n)) PARTITION BY RANGE (k);
             CREATE TABLE plain (k bigint, n integer, v text); COPY plain FROM '{file}' (FORMAT csv)"
        ));
        let args = ["--publish", "partitions", "--header", "none", "--streams", "3"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_same(&database, "ours", "plain");
        assert_no_leftovers(&database);
        let partitions: u32 = database
            .psql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'ours'::regclass")
            .parse()
            .expect("a number");
        assert!(partitions > 1, "{partitions} partitions");
        // The parent's primary key was built on each and adopted.
        let valid =
            database.psql("SELECT indisvalid FROM pg_index WHERE indrelid = 'ours'::regclass");
        assert_eq!(valid, "t");
        let checks = database
            .psql("SELECT count(*) FROM pg_constraint WHERE conname = 'fullbore_key_range'");
        assert_eq!(checks, "0");
    }
}

#[test]
fn compressed_sources_and_pipes_equal_copy() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let files = Files::new();
    let text: String = (0..400_000).map(|i| format!("{i}\tvalue {i} of many\n")).collect();
    let file = files.write("plain.tsv", &text);
    for (packer, content) in common::packed(text.as_bytes()) {
        // The content tells how it is packed; the name says nothing.
        let packed = files.write("packed", content);
        let database = cluster.fresh_database();
        database.psql(&format!("CREATE TABLE ours (a bigint, b text); CREATE TABLE plain (a bigint, b text); COPY plain FROM '{file}'"));
        let output =
            files.load(&database, &packed, "ours", &["--format", "text", "--streams", "3"]);
        assert_eq!(output.code, 0, "{packer}: {}", output.stderr);
        assert_same(&database, "ours", "plain");
    }
    let database = cluster.fresh_database();
    database.psql(&format!("CREATE TABLE ours (a bigint, b text); CREATE TABLE plain (a bigint, b text); COPY plain FROM '{file}'"));
    let args = ["load", "-", "--to", database.url(), "--table", "ours", "--format", "text"];
    let output = files.fullbore_with_input(&args, text.as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same(&database, "ours", "plain");
}

#[test]
fn one_quoted_file_is_split_safely() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    // Quoted fields that look like records, so that a guess about quotes would go wrong.
    let text: String = (0..1_000_000)
        .map(|i| match i % 5 {
            0 => format!("{i},\"1,\"\"x\"\"\n{i},\"\"y\"\"\n\",\n"),
            1 => format!("{i},,\"\"\n"),
            2 => format!("{i},\"\n\n\n\",plain\n"),
            _ => format!("{i},some plain text,\"a \"\"quoted\"\" word\"\n"),
        })
        .collect();
    assert!(text.len() > 17 << 20, "too small to be split: {}", text.len());
    let file = files.write("quoted.csv", &text);
    database.psql(&format!("CREATE TABLE ours (a bigint, b text, c text); CREATE TABLE plain (a bigint, b text, c text); COPY plain FROM '{file}' (FORMAT csv)"));
    let output = files.load(
        &database,
        &file,
        "ours",
        &["--header", "none", "--streams", "4", "--parsers", "3"],
    );
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same(&database, "ours", "plain");
}

/// Pieces don't wait for the log: the run's end does, for all of them.
#[test]
fn what_is_loaded_survives_a_crash() {
    // The server writes its log in the background as late as it can.
    let settings = [("wal_writer_delay", "10s"), ("wal_writer_flush_after", "0")];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file =
        files.write("rows.csv", (0..20_000).map(|k| format!("{k},row {k}\n")).collect::<String>());
    let columns = "k bigint, v text";
    database.psql(&format!("CREATE TABLE ours ({columns}); CREATE TABLE plain ({columns}); COPY plain FROM '{file}' (FORMAT csv)"));
    let output = files.load(&database, &file, "ours", &["--header", "none", "--statistics=none"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    cluster.crash_and_restart();
    assert_same(&database, "ours", "plain");
}
