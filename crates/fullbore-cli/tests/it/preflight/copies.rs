//! What `fullbore preflight` measures with: copies of the job's tables that take what the tables take,
//! reach nobody else, and are gone afterwards.

use crate::common::Files;
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip, wanted};
use serde_json::Value;

fn measure(files: &Files, database: &TestDatabase<'_>, args: &[&str]) -> (Value, Output) {
    let file = files.write("t.csv", (0..2_000).map(|n| format!("{n},x\n")).collect::<String>());
    let short = ["--header", "none", "--time", "0.3", "--bytes", "8M", "--json"];
    let job = ["preflight", "all", &file, "--to", database.url()];
    let output = files.fullbore(&[&job, args, &short].concat());
    let report = serde_json::from_str(&output.stdout).expect("one JSON object");
    (report, output)
}

fn assert_works(report: &Value, output: &Output) {
    assert_eq!(output.code, 0, "{report:#}\n{}", output.stderr);
    for stage in ["database", "trial"] {
        assert!(report["ceilings"][stage]["bytes_per_second"].as_f64() > Some(0.0), "{report:#}");
    }
}

#[test]
fn tables_with_partitions_and_numbers_of_their_own_are_measured() {
    for server in wanted([TestServer::Pg14, TestServer::Embedded18]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE TABLE ranges (k int, t text, id bigserial) PARTITION BY RANGE (k);
             CREATE TABLE ranges_1 PARTITION OF ranges FOR VALUES FROM (0) TO (10000);
             CREATE TABLE hashes (k int, t text) PARTITION BY HASH (k);
             CREATE TABLE hashes_1 PARTITION OF hashes FOR VALUES WITH (MODULUS 1, REMAINDER 0);
             CREATE SEQUENCE s;
             CREATE TABLE orders (k int, t text, no text NOT NULL DEFAULT 'A' || nextval('s'))",
        );
        for table in ["ranges", "hashes", "orders"] {
            let (report, output) =
                measure(&files, &database, &["--table", table, "--columns", "k,t"]);
            assert_works(&report, &output);
            assert_eq!(database.psql(&format!("SELECT count(*) FROM {table}")), "0");
        }
        let used = "SELECT (SELECT is_called FROM s), (SELECT is_called FROM ranges_id_seq)";
        assert_eq!(database.psql(used), "f|f", "the tables' own numbers are left alone");
    }
}

/// Why the server was not measured.
fn unmeasured(report: &serde_json::Value) -> &str {
    report["unmeasured"].as_str().unwrap_or_default()
}

#[test]
fn a_schema_file_that_makes_more_leaves_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let schema =
        files.write("t.sql", "CREATE TYPE mood AS ENUM ('x'); CREATE TABLE t (k int, t mood);");
    let job = ["--table", "t", "--create", "--schema", &schema];
    let (report, _) = measure(&files, &database, &job);
    assert!(unmeasured(&report).contains("several statements"), "{report:#}");
    assert_eq!(database.psql("SELECT count(*) FROM pg_type WHERE typname = 'mood'"), "0");
}

#[test]
fn what_is_measured_is_published_to_nobody() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE t (k int, t text); CREATE PUBLICATION everything FOR ALL TABLES");
    let (report, _) = measure(&files, &database, &["--table", "t", "--allow-publication"]);
    assert!(unmeasured(&report).contains("everything covers all tables"), "{report:#}");
    assert!(report["ceilings"]["database"].is_null(), "{report:#}");
    let probe = files.fullbore(&["preflight", "db", database.url(), "--table", "t"]);
    assert_eq!(probe.code, 2, "{}", probe.stderr);
    assert!(probe.stderr.contains("everything covers all tables"), "{}", probe.stderr);
}
