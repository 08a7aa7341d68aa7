//! What a load changes by itself while it runs: who loads what, and how many streams there are.

mod endpoints;
mod network;
mod rest;
mod streams;
mod volumes;

use serde_json::Value;

use crate::common::Files;

/// The events of a kind in the record of the last run.
fn events(files: &Files, kind: &str) -> Vec<Value> {
    let runs = std::fs::read_dir(files.path("state").join("runs")).expect("runs");
    let mut folders: Vec<_> = runs.map(|run| run.expect("a run").path()).collect();
    folders.sort_by_key(|folder| std::fs::metadata(folder).and_then(|it| it.modified()).ok());
    let last = folders.last().expect("a run").join("record.jsonl");
    let text = std::fs::read_to_string(last).expect("a record");
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries.filter(|entry| entry["event"] == kind).collect()
}
