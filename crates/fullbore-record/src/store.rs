//! Reads records back from the state folder.

use std::path::Path;

use fullbore_read::error::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::event::{Entry, Event, TableTotals};
use super::latest;

/// What became of a run, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    Loaded,
    Failed,
    /// It can be resumed.
    Stopped,
    #[serde(rename = "rolled back")]
    RolledBack,
    /// The record just ends.
    Unfinished,
}

impl RunState {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::RolledBack => "rolled back",
            Self::Unfinished => "unfinished",
        }
    }

    /// Of a run that failed, and may be kept.
    pub fn of_failure(is_kept: bool) -> Self {
        if is_kept { Self::Stopped } else { Self::Failed }
    }
}

/// A run as `runs list` shows it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunSummary {
    pub run_id: String,
    pub started_unix_ms: u64,
    pub tables: Vec<String>,
    /// How many files, the first of them, and where their rows went.
    pub files: usize,
    pub first_file: String,
    pub destination: String,
    pub state: RunState,
    /// Those of committed pieces, as long as it is not loaded.
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    /// Of all processes that had the run.
    pub seconds: f64,
    pub error: Option<String>,
}

/// The runs whose records lie in a folder, newest first. Broken records are passed over, and such as
/// lie in a folder of another name than their run's.
pub fn list_runs(runs_dir: &Path) -> Result<Vec<RunSummary>> {
    let entries = match std::fs::read_dir(runs_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Read { path: runs_dir.to_owned(), source }),
    };
    let mut runs: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let run = summarise(&read_events(&entry.path()).ok()?)?;
            // A record from elsewhere may call itself what it likes.
            (entry.file_name().to_str() == Some(run.run_id.as_str())).then_some(run)
        })
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.started_unix_ms));
    Ok(runs)
}

/// The run whose record lies in a folder.
pub fn summary_of(run_dir: &Path) -> Option<RunSummary> {
    summarise(&read_events(run_dir).ok()?)
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
        files: 0,
        first_file: String::new(),
        destination: String::new(),
        state: RunState::Unfinished,
        rows: 0,
        rejected: 0,
        bytes: 0,
        seconds: 0.0,
        error: None,
    };
    // Each process that has the run counts its seconds anew.
    let mut before = 0.0;
    for entry in entries {
        match &entry.event {
            Event::RunFinished { rows, rejected, bytes, seconds, .. } => {
                summary.state = RunState::Loaded;
                (summary.rows, summary.rejected) = (*rows, *rejected);
                (summary.bytes, summary.seconds) = (*bytes, before + *seconds);
                continue;
            }
            Event::Planned { plan } => {
                summary.files = plan.tables.iter().map(|table| table.files).sum();
                let first = plan.tables.first().map(|table| table.first_file.clone());
                summary.first_file = first.unwrap_or_default();
                summary.destination.clone_from(&plan.destination);
            }
            Event::RunResumed { .. } => {
                summary.state = RunState::Unfinished;
                summary.error = None;
                before = summary.seconds;
            }
            // It was done at another time, which the record does not count.
            Event::RunTakenBack { rows_kept } => {
                summary.state = RunState::RolledBack;
                summary.keep(*rows_kept);
                continue;
            }
            Event::RunFailed { error, rows_kept, is_kept, .. } => {
                summary.state = RunState::of_failure(*is_kept);
                summary.error = Some(error.clone());
                if *is_kept {
                    summary.rows = *rows_kept;
                } else {
                    summary.keep(*rows_kept);
                }
            }
            Event::Sample { tables, .. } => {
                let sum = |of: fn(&TableTotals) -> u64| tables.iter().map(of).sum();
                summary.rows = sum(|table| table.rows);
                summary.rejected = sum(|table| table.rejected);
                summary.bytes = sum(|table| table.bytes);
            }
            _ => {}
        }
        summary.seconds = summary.seconds.max(before + entry.at);
    }
    Some(summary)
}

impl RunSummary {
    /// Of what was committed no more is left than so many rows; of which bytes, nobody counts.
    fn keep(&mut self, rows: u64) {
        if rows < self.rows {
            (self.rejected, self.bytes) = (0, 0);
        }
        self.rows = rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, claim};

    #[test]
    fn the_folder_of_another_run_is_not_shared() {
        let folder = tempfile::tempdir().expect("a folder");
        let run_dir = folder.path().join("runs").join("run");
        claim(&run_dir).expect("made");
        let error = claim(&run_dir).expect_err("it is another run's");
        assert!(matches!(error, Error::Write { path, .. } if path == run_dir));
    }

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

    #[test]
    fn what_two_processes_did_is_added_up() {
        let at = |at: f64, event: Event| Entry { at, event };
        let sample = |rows: u64| Event::Sample {
            tables: vec![TableTotals {
                rows,
                bytes: rows * 10,
                rejected: rows / 5,
                ..TableTotals::default()
            }],
            streams_active: 1,
        };
        let started = Event::RunStarted {
            version: 1,
            run_id: "abc".into(),
            fullbore: "0.1.0".into(),
            started_unix_ms: 0,
            streams: 1,
            parsers: 1,
            pieces: 2,
            tables: vec!["t".into()],
            methods: Vec::new(),
        };
        let failed = |is_kept: bool, rows_kept: u64| Event::RunFailed {
            error: "gone".into(),
            is_kept,
            rows_kept,
            left_behind: Vec::new(),
        };
        let mut entries = vec![at(0.0, started), at(2.0, sample(50)), at(3.0, failed(true, 50))];
        let stopped = summarise(&entries).expect("a run");
        let figures = |run: &RunSummary| (run.rows, run.bytes, run.rejected, run.seconds);
        assert_eq!((stopped.state, figures(&stopped)), (RunState::Stopped, (50, 500, 10, 3.0)));
        let resumed = Event::RunResumed {
            started_unix_ms: 9,
            pieces_committed: 1,
            rows_committed: 50,
            fullbore: None,
            streams: Some(8),
            parsers: None,
        };
        entries.extend([at(0.0, resumed), at(1.0, sample(70))]);
        let unfinished = summarise(&entries).expect("a run");
        assert_eq!(
            (unfinished.state, figures(&unfinished)),
            (RunState::Unfinished, (70, 700, 14, 4.0))
        );
        entries.push(at(1.5, failed(false, 0)));
        let lost = summarise(&entries).expect("a run");
        assert_eq!((lost.state, figures(&lost)), (RunState::Failed, (0, 0, 0, 4.5)));
    }
}
