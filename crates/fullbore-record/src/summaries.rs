//! A plan and its rejects in short, for those who look back on a run.
//!
//! Not what a resume needs (that is in the ledger), but what people ask: which files, how they were
//! published, which rows were refused and why.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::terms::{Publish, Verify};

/// Kinds of rejects that are listed, the most frequent first.
const KINDS_MAX: usize = 20;

/// Rejects of a table that are looked at for their kinds: a run must not wait for more.
const REJECTS_READ_MAX: u64 = 100_000;

/// Bytes of one reject's line that are read: its value may be as long as a field.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A plan in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanSummary {
    pub tables: Vec<TableSummary>,
    pub verify: Verify,
    /// Limit of rejected rows.
    pub max_rejects: String,
    pub is_resumable: bool,
    /// Processors of the client.
    pub cores: usize,
    /// Destination, without a password; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// What it is a part of, when several hosts load together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartSummary>,
    /// Where the parts of a load on several hosts run, in the order of their streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSummary>,
}

/// A part of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartSummary {
    /// Such as `2/5`.
    pub part: String,
    /// Id of the load that all parts make together.
    pub whole: String,
}

/// A host and its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    pub host: String,
    pub streams: usize,
    pub parsers: usize,
}

/// One table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableSummary {
    /// Number of source files.
    pub files: usize,
    pub first_file: String,
    /// Size of the sources, if known.
    pub bytes: Option<u64>,
    pub format: String,
    pub publish: Publish,
    pub is_atomic: bool,
    /// Why rows are sent as text.
    pub lane_reason: Option<String>,
    pub notes: Vec<String>,
}

/// One line of the reason file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub table: String,
    pub file: String,
    /// Line of the file, from 1; none for sources without lines.
    pub line: Option<u64>,
    /// None for sources without lines.
    pub byte_offset: Option<u64>,
    /// Row of a Parquet file, from 1.
    pub row: Option<u64>,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub code: Option<String>,
    pub reason: String,
    /// How many lines it takes, where it is no row and takes several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

/// The rejects of a run in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectSummary {
    /// Where the rows are; the reasons stand beside them.
    pub files: Vec<PathBuf>,
    /// The most frequent kinds.
    pub kinds: Vec<RejectKind>,
    /// There were more than were looked at.
    pub is_part: bool,
}

/// Rejects that have everything in common but their rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectKind {
    pub table: String,
    pub column: Option<String>,
    pub constraint: Option<String>,
    pub code: Option<String>,
    pub count: u64,
    /// The first of them: where it stands, and why it was refused.
    pub first: String,
}

impl RejectSummary {
    /// Of the files of rejects that a run has written.
    pub fn of(files: &[PathBuf]) -> Self {
        let mut told = Self { files: files.to_vec(), ..Self::default() };
        let mut kinds = BTreeMap::new();
        for file in files {
            told.is_part |= count(&file.with_extension("rejected.jsonl"), &mut kinds);
        }
        told.kinds = kinds.into_values().collect();
        told.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        told.kinds.truncate(KINDS_MAX);
        told
    }
}

/// What rejects of one kind have in common.
type Alike = (String, Option<String>, Option<String>, Option<String>);

/// Counts the rejects of a file of reasons by their kinds; whether there were too many of them.
fn count(path: &Path, kinds: &mut BTreeMap<Alike, RejectKind>) -> bool {
    // What can't be read was told when it was written.
    let Ok(file) = File::open(path) else { return true };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for _ in 0..REJECTS_READ_MAX {
        line.clear();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
        let Ok(reason) = serde_json::from_slice::<Reason>(&line) else { continue };
        let place = match (reason.line, reason.row) {
            (Some(line), _) => format!("{}, line {line}", reason.file),
            (None, Some(row)) => format!("{}, row {row}", reason.file),
            (None, None) => reason.file,
        };
        let first = format!("{place}: {}", reason.reason);
        let (table, column) = (reason.table, reason.column);
        let (constraint, code) = (reason.constraint, reason.code);
        let alike = (table.clone(), column.clone(), constraint.clone(), code.clone());
        kinds
            .entry(alike)
            .or_insert(RejectKind { table, column, constraint, code, count: 0, first })
            .count += 1;
    }
    true
}
