//! `--streams auto` finds the number of streams that a load needs, and the next load of the job knows it.

use fullbore_testing::{TestServer, shared_or_skip};
use serde_json::Value;

use super::events;
use crate::common::Files;

/// 90 MB.
const ROWS: u32 = 180_000;

#[test]
fn a_load_that_is_limited_needs_one_stream() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE sales (id bigint, note text)");
    let files = Files::new();
    let note = "x".repeat(490);
    let rows: String = (0..ROWS).map(|n| format!("{n}\t{note}\n")).collect();
    let file = files.write("sales.tsv", &rows);
    // About 45 seconds.
    let args = ["--header", "none", "--max-rate", "2MB/s", "--piece-size", "1MB", "--json"];
    let loaded = files.load_at(database.url(), &file, "sales", &args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let found = database.psql("SELECT count(*), count(DISTINCT id) FROM sales");
    assert_eq!(found, format!("{ROWS}|{ROWS}"));
    let settled = events(&files, "streams_settled");
    let settled = settled.last().expect("it has settled");
    assert_eq!(settled["streams"], 1, "{settled}");
    let summary: Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    assert_eq!(summary["streams"], 1, "{summary}");
    assert!(loaded.stderr.contains("1 stream: tried 1 at "), "{}", loaded.stderr);
}
