//! Parquet values whose stored type is not the column's: as COPY has them, or refused.

use std::sync::Arc;

use crate::common::parquets::parquet;
use crate::common::{Files, assert_no_leftovers};
use arrow_array::{
    ArrayRef, BinaryArray, Float64Array, StringArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use fullbore_testing::{TestServer, shared_or_skip};

const REFUSED_OR_FAILED: [i32; 2] = [1, 2];
const REJECTS: i32 = 3;

#[test]
fn what_a_cast_would_cut_is_refused_or_rejected() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (n int)");
    let files = Files::new();
    let numbers = Float64Array::from(vec![Some(1.0), None, Some(3.0)]);
    let whole = parquet(&files, "whole.parquet", &[("n", Arc::new(numbers))]);
    let output = files.load(&database, &whole, "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), sum(n) FROM t"), "3|4");
    let numbers = Float64Array::from(vec![Some(1.0), None, Some(1.7)]);
    let broken = parquet(&files, "broken.parquet", &[("n", Arc::new(numbers))]);
    let output = files.load(&database, &broken, "t", &["--atomic", "--reject-dir", "first"]);
    assert!(REFUSED_OR_FAILED.contains(&output.code), "{} {}", output.code, output.stderr);
    for word in ["broken.parquet", "row 3", "column n", "1.7", "--max-rejects"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    // What would not help is not proposed: the server refuses 1.7 too.
    assert!(!output.stderr.contains("--as-text"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "3");
    assert_no_leftovers(&database);
    // As text the server judges each row; what is written as 1.0 is no integer to it.
    let output = files.load(&database, &broken, "t", &["--as-text", "--max-rejects", "2"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(files.reasons().len(), 2);
    assert_no_leftovers(&database);
}

#[test]
fn moments_are_those_that_copy_makes_of_them() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE t (nano timestamp, here timestamptz, there timestamptz, day date, b bytea)",
    );
    database.psql(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''America/New_York''', \
         current_database()); END $$",
    );
    let files = Files::new();
    // 2024-07-01 12:00:00 and some nanoseconds.
    let noon = 1_719_835_200_000_000_i64;
    let columns: [(&str, ArrayRef); 5] = [
        (
            "nano",
            Arc::new(TimestampNanosecondArray::from(vec![noon * 1000 + 1_501, noon * 1000 + 499])),
        ),
        ("here", Arc::new(TimestampMicrosecondArray::from(vec![noon, noon + 1]))),
        ("there", Arc::new(TimestampMicrosecondArray::from(vec![noon, noon]).with_timezone("UTC"))),
        ("day", Arc::new(StringArray::from(vec!["Jan 5, 2020", "2020-01-06"]))),
        ("b", Arc::new(BinaryArray::from(vec![&b"a\\\xff"[..], b""]))),
    ];
    let all = parquet(&files, "all.parquet", &columns);
    let output = files.load(&database, &all, "t", &["--verify", "full"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql(
        "SET timezone = 'UTC'; SET datestyle = 'ISO'; SELECT string_agg(t::text, ' ' ORDER BY day) FROM t",
    );
    assert_eq!(
        found,
        "(\"2024-07-01 12:00:00.000002\",\"2024-07-01 16:00:00+00\",\"2024-07-01 12:00:00+00\",\
         2020-01-05,\"\\\\x615cff\") \
         (\"2024-07-01 12:00:00\",\"2024-07-01 16:00:00.000001+00\",\"2024-07-01 12:00:00+00\",\
         2020-01-06,\"\\\\x\")"
    );
    // Nothing of it needs the server where neither text nor a missing zone is in the way.
    let plain = parquet(&files, "plain.parquet", &[columns[0].clone(), columns[2].clone()]);
    database.psql("CREATE TABLE u (nano timestamp, there timestamptz)");
    let planned = files.load(&database, &plain, "u", &["--dry-run"]);
    assert!(planned.stdout.contains("rows are sent as COPY binary"), "{}", planned.stdout);
    let planned = files.load(&database, &all, "t", &["--dry-run", "--if-loaded", "again"]);
    assert!(planned.stdout.contains("in the file"), "{}", planned.stdout);
    assert_no_leftovers(&database);
}

#[test]
fn moments_without_a_zone_are_those_of_a_session_in_utc() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE t (at timestamptz); CREATE TABLE p (at timestamptz) PARTITION BY RANGE (at)",
    );
    let files = Files::new();
    let noon = 1_719_835_200_000_000_i64;
    let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![noon, noon + 1]));
    let file = parquet(&files, "naive.parquet", &[("at", column)]);
    let in_zone = |zone: &str| format!("{}&options=-c%20TimeZone%3D{zone}", database.url());
    let load = |zone: &str, args: &[&str]| {
        let url = in_zone(zone);
        let mut all = vec!["load", file.as_str(), "--to", &url];
        all.extend(args);
        files.fullbore(&all)
    };
    let output = load("UTC", &["--table", "t"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let output = load("UTC", &["--table", "p", "--publish", "partitions"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SELECT string_agg(at::text, ' ' ORDER BY at) FROM ";
    for table in ["t", "p"] {
        assert_eq!(
            database.psql(&format!("{found}{table}")),
            "2024-07-01 12:00:00+00 2024-07-01 12:00:00.000001+00"
        );
    }
    // Elsewhere the server alone knows their order.
    let output = load("America/New_York", &["--table", "p", "--publish", "partitions"]);
    assert_eq!(output.code, 2, "{}", output.stdout);
    assert!(output.stderr.contains("only the server knows its order"), "{}", output.stderr);
}
