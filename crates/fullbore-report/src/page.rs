//! What a page shows, out of a record's entries.

use fullbore_core::ceilings::{Achieved, Ceilings};
use fullbore_core::destination::Phase;
use fullbore_core::diagnose::Verdict;
use fullbore_core::observe::{Observation, Settings};
use fullbore_core::record::{Entry, Event, TableMethod, TableTotals};
use serde::Serialize;

/// The curves: one value for each moment of `at`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curves {
    /// Seconds since the run began.
    pub at: Vec<f64>,
    /// Of each table, million bytes of source and thousand rows a second.
    pub megabytes: Vec<Vec<Option<f64>>>,
    pub kilorows: Vec<Vec<Option<f64>>>,
    /// Of the server, million bytes a second: write-ahead log made, data files written.
    pub server_at: Vec<f64>,
    pub wal: Vec<f64>,
    pub written: Vec<f64>,
    /// When checkpoints were counted.
    pub checkpoints: Vec<f64>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Loaded,
    /// It stopped and can be resumed.
    Stopped,
    Failed,
    TakenBack,
    /// The record just ends.
    Unfinished,
}

/// Everything that a page shows.
#[derive(Debug, Default)]
pub struct Page {
    pub run_id: String,
    pub fullbore: String,
    pub started_unix_ms: u64,
    pub state: Option<State>,
    pub error: Option<String>,
    pub streams: usize,
    pub parsers: usize,
    pub pieces: usize,
    pub methods: Vec<TableMethod>,
    pub tables: Vec<TableTotals>,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub phases: Vec<Phase>,
    pub verdict: Option<Verdict>,
    pub ceilings: Option<Ceilings>,
    pub achieved: Option<Achieved>,
    pub advice: Vec<String>,
    pub settings: Option<Settings>,
    pub curves: Curves,
    /// Observations with their moments, in seconds.
    pub observations: Vec<(f64, Observation)>,
    /// What happened, beside pieces and samples.
    pub events: Vec<(f64, String)>,
}

impl Page {
    pub fn of(entries: &[Entry]) -> Self {
        let mut page = Self::default();
        let mut samples = Vec::new();
        for Entry { at, event } in entries {
            page.take(*at, event);
            if let Event::Sample { tables, .. } = event {
                samples.push((*at, tables));
                page.tables.clone_from(tables);
            }
        }
        if page.state.is_none() {
            page.state = Some(State::Unfinished);
            page.seconds = entries.last().map_or(0.0, |entry| entry.at);
            page.add_up();
        }
        page.curves = curves_of(&samples, &page.observations);
        page
    }

    fn add_up(&mut self) {
        self.rows = self.tables.iter().map(|table| table.rows).sum();
        self.rejected = self.tables.iter().map(|table| table.rejected).sum();
        self.bytes = self.tables.iter().map(|table| table.bytes).sum();
    }

    fn take(&mut self, at: f64, event: &Event) {
        match event {
            Event::RunStarted {
                run_id,
                fullbore,
                started_unix_ms,
                streams,
                parsers,
                pieces,
                methods,
                ..
            } => {
                self.run_id.clone_from(run_id);
                self.fullbore.clone_from(fullbore);
                self.started_unix_ms = *started_unix_ms;
                (self.streams, self.parsers, self.pieces) = (*streams, *parsers, *pieces);
                self.methods.clone_from(methods);
            }
            Event::ServerSettings { settings } => self.settings = Some(settings.clone()),
            Event::Observed { observation } => {
                self.observations.push((at, observation.as_ref().clone()));
            }
            Event::Verdict { verdict, advice } => {
                self.verdict = Some(verdict.clone());
                self.advice.clone_from(advice);
            }
            Event::PhaseFinished { phase } => {
                self.events.push((at, format!("{} took {:.2} s", phase.name, phase.seconds)));
            }
            Event::RunFinished { rows, rejected, bytes, seconds, phases, tables, .. } => {
                // The last sample may be older.
                self.tables.clone_from(tables);
                self.state = Some(State::Loaded);
                (self.rows, self.rejected, self.bytes) = (*rows, *rejected, *bytes);
                self.seconds = *seconds;
                self.phases.clone_from(phases);
            }
            Event::RunResumed { rows_committed, .. } => {
                self.state = None;
                self.error = None;
                let committed = format!("resumed, {rows_committed} rows being committed");
                self.events.push((at, committed));
            }
            Event::RoundStarted { reason, .. } => {
                self.events.push((at, format!("begun anew after a lost connection: {reason}")));
            }
            Event::RunPaused { reason } => self.events.push((at, format!("held still: {reason}"))),
            Event::RunContinued { .. } => self.events.push((at, "went on".into())),
            Event::Ceilings { ceilings } => self.ceilings = Some(ceilings.as_ref().clone()),
            Event::Achieved { achieved } => self.achieved = Some(*achieved),
            Event::RunTakenBack => self.state = Some(State::TakenBack),
            Event::RunFailed { error, is_kept, .. } => {
                self.state = Some(if *is_kept { State::Stopped } else { State::Failed });
                self.error = Some(error.clone());
                self.seconds = at;
                self.add_up();
            }
            Event::Sample { .. } | Event::PieceCommitted { .. } => {}
        }
    }

    /// Names of what backends were seen waiting for, the most frequent first, with their shares.
    pub fn waits(&self) -> Vec<(String, f64)> {
        let Some((_, last)) = self.observations.last() else { return Vec::new() };
        let all: u64 = last.streams.iter().flat_map(|s| &s.moments).map(|m| m.count).sum();
        let mut waits: Vec<_> = last
            .waits
            .iter()
            .map(|(name, count)| (name.clone(), *count as f64 / all.max(1) as f64))
            .collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        waits
    }
}

/// Rates between one sample and the next. A resumed run begins to count time again: what goes back in
/// time is left out.
fn curves_of(samples: &[(f64, &Vec<TableTotals>)], observations: &[(f64, Observation)]) -> Curves {
    let mut curves = Curves::default();
    let tables = samples.first().map_or(0, |(_, tables)| tables.len());
    curves.megabytes = vec![Vec::new(); tables];
    curves.kilorows = vec![Vec::new(); tables];
    for ((before_at, before), (at, now)) in steps(samples, 0.9) {
        let seconds = at - before_at;
        curves.at.push(at);
        for table in 0..tables {
            let rate = |count: fn(&TableTotals) -> u64, unit: f64| {
                let (now, before) = (now.get(table).map(count)?, before.get(table).map(count)?);
                Some(now.saturating_sub(before) as f64 / seconds / unit)
            };
            curves.megabytes[table].push(rate(|totals| totals.bytes_sent, 1e6));
            curves.kilorows[table].push(rate(|totals| totals.rows_sent, 1e3));
        }
    }
    let of_server: Vec<(f64, &Observation)> = observations
        .iter()
        .filter(|(_, seen)| seen.server.is_some())
        .map(|(at, seen)| (*at, seen))
        .collect();
    for ((before_at, before), (at, now)) in steps(&of_server, 0.9) {
        let (Some(before), Some(now)) = (&before.server, &now.server) else { continue };
        let (seconds, added) = (at - before_at, now.since(before));
        curves.server_at.push(at);
        curves.wal.push(added.wal_bytes as f64 / seconds / 1e6);
        curves.written.push(added.written_bytes as f64 / seconds / 1e6);
        if added.checkpoints_timed + added.checkpoints_requested > 0 {
            curves.checkpoints.push(at);
        }
    }
    curves
}

/// Pairs that lie at least so many seconds apart, in the order of time.
fn steps<T: Copy>(entries: &[(f64, T)], apart: f64) -> Vec<((f64, T), (f64, T))> {
    let mut steps = Vec::new();
    let Some(mut last) = entries.first().copied() else { return steps };
    // A run of less than a second still has a rate.
    let end = entries.last().map_or(0.0, |(at, _)| *at);
    let apart = apart.min((end - last.0) / 4.0).max(1e-3);
    for entry in entries {
        if entry.0 < last.0 {
            last = *entry;
        } else if entry.0 - last.0 >= apart {
            steps.push((last, *entry));
            last = *entry;
        }
    }
    steps
}
