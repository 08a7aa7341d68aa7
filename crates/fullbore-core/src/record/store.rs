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

/// The entries of the record in a run's folder; a line that was cut off, be it within a character, is
/// left out.
pub fn read_events(run_dir: &Path) -> Result<Vec<Entry>> {
    let path = run_dir.join("record.jsonl");
    let text = std::fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let mut entries: Vec<Entry> = entries_of(&text).collect();
    entries.extend(latest::read(run_dir));
    Ok(entries)
}

/// The entries of whole lines.
pub(super) fn entries_of(text: &[u8]) -> impl Iterator<Item = Entry> {
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
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
            Event::RunTakenBack { rows_kept } => {
                summary.state = "taken back";
                summary.rows = *rows_kept;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Recorder;

    #[test]
    fn a_line_that_was_cut_off_is_left_out_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let run_dir = folder.path().join("run");
        let paused = |reason: &str| Event::RunPaused { reason: reason.into() };
        Recorder::create(&run_dir, None).expect("made").record(paused("first"));
        let path = run_dir.join("record.jsonl");
        let mut text = std::fs::read(&path).expect("read");
        // Within a character of two bytes.
        text.extend_from_slice(b"{\"at\":1,\"event\":\"run_paused\",\"reason\":\"M\xc3");
        std::fs::write(&path, text).expect("written");
        assert_eq!(read_events(&run_dir).expect("read").len(), 1);
        Recorder::append(&run_dir, None).expect("opened").record(paused("second"));
        let events = read_events(&run_dir).expect("read");
        let reasons: Vec<_> = events
            .iter()
            .map(|entry| match &entry.event {
                Event::RunPaused { reason } => reason.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(reasons, ["first", "second"]);
    }
}
