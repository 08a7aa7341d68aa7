//! Reads records back from the state folder.

use std::path::Path;

use serde::Serialize;

use super::{Entry, Event, latest};
use crate::error::{Error, Result};

/// A run as `runs list` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    pub run_id: String,
    pub started_unix_ms: u64,
    pub tables: Vec<String>,
    /// `loaded`, `failed`, `stopped` where it can be resumed, or `unfinished` where the record just
    /// ends; `taken back`.
    pub state: &'static str,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub error: Option<String>,
}

/// The runs whose records lie in a folder, newest first. Broken records are passed over.
pub fn list_runs(runs_dir: &Path) -> Result<Vec<RunSummary>> {
    let entries = match std::fs::read_dir(runs_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Read { path: runs_dir.to_owned(), source }),
    };
    let mut runs: Vec<_> = entries
        .flatten()
        .filter_map(|entry| summarise(&read_events(&entry.path()).ok()?))
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.started_unix_ms));
    Ok(runs)
}

/// The entries of the record in a run's folder; a last line that was cut off is left out.
pub fn read_events(run_dir: &Path) -> Result<Vec<Entry>> {
    let path = run_dir.join("record.jsonl");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| Error::Read { path: path.clone(), source })?;
    let mut entries: Vec<Entry> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.extend(latest::read(run_dir));
    Ok(entries)
}

fn summarise(entries: &[Entry]) -> Option<RunSummary> {
    let Event::RunStarted { run_id, started_unix_ms, tables, .. } = &entries.first()?.event else {
        return None;
    };
    let mut summary = RunSummary {
        run_id: run_id.clone(),
        started_unix_ms: *started_unix_ms,
        tables: tables.clone(),
        state: "unfinished",
        rows: 0,
        rejected: 0,
        bytes: 0,
        seconds: entries.last()?.at,
        error: None,
    };
    for entry in entries {
        match &entry.event {
            Event::RunFinished { rows, rejected, bytes, seconds, .. } => {
                summary.state = "loaded";
                (summary.rows, summary.rejected) = (*rows, *rejected);
                (summary.bytes, summary.seconds) = (*bytes, *seconds);
            }
            Event::RunResumed { .. } => {
                summary.state = "unfinished";
                summary.error = None;
            }
            Event::RunTakenBack => {
                summary.state = "taken back";
                summary.rows = 0;
            }
            Event::RunFailed { error, rows_kept, is_kept, .. } => {
                summary.state = if *is_kept { "stopped" } else { "failed" };
                summary.rows = *rows_kept;
                summary.error = Some(error.clone());
            }
            _ => {}
        }
    }
    Some(summary)
}
