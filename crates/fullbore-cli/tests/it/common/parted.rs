//! What the tests of partitions share: a table partitioned by `k`, its rows, and refusals.

use crate::common::assert_no_leftovers;
use fullbore_testing::{TestDatabase, TestServer};

pub const SERVERS: [TestServer; 2] = [TestServer::Embedded18, TestServer::Pg14];
pub const PARTITIONS: [&str; 6] =
    ["--format", "csv", "--header", "none", "--publish", "partitions"];

/// A table partitioned by `k`, empty.
pub fn partitioned(database: &TestDatabase<'_>) {
    database.psql("CREATE TABLE ours (k bigint, v text) PARTITION BY RANGE (k)");
}

/// The same rows as plain COPY loads them.
pub fn plain(database: &TestDatabase<'_>, files: &[&str]) {
    database.psql("CREATE TABLE plain (k bigint, v text)");
    for file in files {
        database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
    }
}

/// Rows with these keys, each three times.
pub fn rows(keys: std::ops::Range<i64>) -> String {
    keys.map(|k| (0..3).map(|n| format!("{k},row {n} of key {k}\n")).collect::<String>()).collect()
}

pub fn count_partitions(database: &TestDatabase<'_>) -> usize {
    let count =
        database.psql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'ours'::regclass");
    count.parse().expect("a number")
}

/// Refused: nothing is in the table and nothing could not be dropped.
pub fn assert_refused(
    database: &TestDatabase<'_>,
    output: &fullbore_testing::Output,
    code: i32,
    words: &[&str],
) {
    assert_eq!(output.code, code, "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{} lacks {word}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    assert_no_leftovers(database);
}
