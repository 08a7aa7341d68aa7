//! Rows that are merged with those of a table by a key.

mod equality;
mod interrupted;
mod refused;
mod table;

use crate::common::Files;
use fullbore_testing::{Output, TestDatabase};

/// Merges files into table `ours`.
fn upsert(files: &Files, database: &TestDatabase<'_>, sources: &[&str], more: &[&str]) -> Output {
    let mut args = vec!["load"];
    args.extend(sources);
    args.extend(["--to", database.url(), "--table", "ours", "--publish", "upsert"]);
    args.extend(["--statistics", "none"]);
    args.extend(more);
    files.fullbore(&args)
}

/// The counts that a summary tells.
fn merged(output: &Output) -> &str {
    let line = output.stderr.lines().find(|line| line.starts_with("merged"));
    line.unwrap_or_else(|| panic!("{}", output.stderr)).split_once("ours: ").expect("its table").1
}
