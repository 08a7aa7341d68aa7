//! What a page shows, out of a record's entries, one after the other.
//!
//! A report takes all of them at once, a live page as they are written; the latter keeps a bounded
//! number of samples, of which any can be left out, since they are counters that only grow.

use std::collections::BTreeMap;

use fullbore_record::ceilings::{Achieved, Ceilings};
use fullbore_record::diagnose::{Circumstances, Limit, Verdict, verdict};
use fullbore_record::observe::{Observation, Settings};
use fullbore_record::{
    Entry, Event, Phase, PlanSummary, RejectSummary, RunState, TableMethod, TableTotals,
};

use crate::curves::Curves;
use crate::entries::{attempts, keep, recent};
use crate::words::{said, seconds};

/// How long after all that was seen before a process takes over: so that the two are told apart.
const MOMENT_S: f64 = 1e-6;

/// Events that are kept for the list of them.
const EVENTS_MAX: usize = 200;

/// Everything that a page shows.
#[derive(Debug)]
pub struct Page {
    pub run_id: String,
    pub fullbore: String,
    pub started_unix_ms: u64,
    pub state: RunState,
    pub error: Option<String>,
    pub left_behind: Vec<String>,
    pub streams: usize,
    pub parsers: usize,
    pub pieces: usize,
    pub plan: Option<PlanSummary>,
    pub methods: Vec<TableMethod>,
    pub tables: Vec<TableTotals>,
    pub rejects: Option<RejectSummary>,
    pub streams_active: usize,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub phases: Vec<Phase>,
    /// The one that the record holds; none before rows have ceased to move.
    pub verdict: Option<Verdict>,
    pub ceilings: Option<Ceilings>,
    pub achieved: Option<Achieved>,
    pub advice: Vec<String>,
    pub settings: Option<Settings>,
    /// Why it holds still, while it does.
    pub paused: Option<String>,
    /// A slow piece was split.
    is_halved: bool,
    /// Samples with their moments, in seconds.
    samples: Vec<(f64, Vec<TableTotals>)>,
    /// Observations with their moments, in seconds.
    pub observations: Vec<(f64, Observation)>,
    /// The first one since the run was begun, or gone on with.
    first: Option<Observation>,
    /// What went by each endpoint, where several were given.
    pub endpoints: BTreeMap<String, ByEndpoint>,
    /// What happened, beside pieces and samples.
    pub events: Vec<(f64, String)>,
    /// Of samples and of observations no more are kept.
    kept_max: usize,
    /// A process that goes on with the run counts its moments anew: they are shown after those before,
    /// each from one of these on.
    taken_over: Vec<f64>,
}

/// What went by an endpoint.
#[derive(Debug, Clone, Default)]
pub struct ByEndpoint {
    pub pieces: u64,
    pub rows: u64,
    /// Of source.
    pub bytes: u64,
    pub times_down: u64,
    pub seconds_down: f64,
}

impl Default for Page {
    fn default() -> Self {
        Self::keeping(usize::MAX)
    }
}

impl Page {
    /// The page of a whole record.
    pub fn of(entries: &[Entry]) -> Self {
        let mut page = Self::default();
        entries.iter().for_each(|entry| page.take(entry));
        page
    }

    /// A page that keeps so many samples at most, however many come.
    pub fn keeping(kept_max: usize) -> Self {
        Self {
            run_id: String::new(),
            fullbore: String::new(),
            started_unix_ms: 0,
            state: RunState::Unfinished,
            error: None,
            left_behind: Vec::new(),
            streams: 0,
            parsers: 0,
            pieces: 0,
            plan: None,
            methods: Vec::new(),
            tables: Vec::new(),
            rejects: None,
            streams_active: 0,
            rows: 0,
            rejected: 0,
            bytes: 0,
            seconds: 0.0,
            phases: Vec::new(),
            verdict: None,
            ceilings: None,
            achieved: None,
            advice: Vec::new(),
            settings: None,
            paused: None,
            is_halved: false,
            samples: Vec::new(),
            observations: Vec::new(),
            first: None,
            endpoints: BTreeMap::new(),
            events: Vec::new(),
            kept_max,
            taken_over: Vec::new(),
        }
    }

    /// Takes the next entry of the record.
    pub fn take(&mut self, entry: &Entry) {
        if let Event::RunResumed { rows_committed, fullbore, streams, parsers, .. } = &entry.event {
            self.resume(*rows_committed);
            self.streams = streams.unwrap_or(self.streams);
            self.parsers = parsers.unwrap_or(self.parsers);
            if let Some(fullbore) = fullbore {
                self.fullbore.clone_from(fullbore);
            }
        }
        let at = self.offset() + entry.at;
        // What was left out of the record comes late.
        let last = self.seconds;
        self.seconds = self.seconds.max(at);
        if let Some(words) = said(&entry.event) {
            self.note(at, words);
        }
        match &entry.event {
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
            Event::Planned { plan } => {
                if !plan.hosts.is_empty() {
                    // Of several hosts, each comes when it begins.
                    self.streams = plan.hosts.iter().map(|host| host.streams).sum();
                    self.parsers = plan.hosts.iter().map(|host| host.parsers).sum();
                }
                self.plan = Some(plan.as_ref().clone());
            }
            Event::ServerSettings { settings } => self.settings = Some(settings.clone()),
            Event::Sample { tables, streams_active } => {
                self.tables.clone_from(tables);
                self.streams_active = *streams_active;
                keep(&mut self.samples, (at, tables.clone()), self.kept_max);
                self.add_up();
            }
            Event::Observed { observation } => {
                self.first.get_or_insert_with(|| observation.as_ref().clone());
                let observation = (at, observation.as_ref().clone());
                keep(&mut self.observations, observation, self.kept_max);
            }
            Event::Verdict { verdict, advice } => {
                self.verdict = Some(verdict.clone());
                self.advice.clone_from(advice);
            }
            Event::PhaseFinished { phase } => {
                self.note(at, format!("{} took {:.2} s", phase.name, phase.seconds));
            }
            Event::Rejected { rejects } => self.rejects = Some(rejects.clone()),
            Event::RunFinished { rows, rejected, bytes, seconds, phases, tables, .. } => {
                // The last sample may be older.
                self.tables.clone_from(tables);
                self.state = RunState::Loaded;
                (self.rows, self.rejected, self.bytes) = (*rows, *rejected, *bytes);
                self.seconds = self.offset() + *seconds;
                self.phases.clone_from(phases);
                self.note(at, "finished".into());
            }
            Event::RoundStarted { reason, .. } => {
                self.note(at, format!("restarted after a lost connection: {reason}"));
            }
            Event::RunPaused { reason } => {
                self.paused = Some(reason.clone());
                self.note(at, format!("paused: {reason}"));
            }
            Event::RunContinued { seconds } => {
                self.paused = None;
                self.note(at, format!("continued after {seconds:.1} s"));
            }
            Event::StreamsTried { streams, parsers }
            | Event::StreamsSettled { streams, parsers, .. } => {
                (self.streams, self.parsers) = (*streams, *parsers);
            }
            Event::Ceilings { ceilings } => self.ceilings = Some(ceilings.as_ref().clone()),
            Event::Achieved { achieved } => self.achieved = Some(*achieved),
            Event::RunTakenBack { .. } => {
                self.state = RunState::RolledBack;
                // It was done at another time, which the record does not count.
                self.seconds = last;
                self.note(last, "rolled back".into());
            }
            Event::RunFailed { error, is_kept, left_behind, .. } => {
                self.state = RunState::of_failure(*is_kept);
                (self.error, self.paused) = (Some(error.clone()), None);
                // What is kept will be gone on with.
                self.left_behind = if *is_kept { Vec::new() } else { left_behind.clone() };
                self.note(at, self.state.name().into());
            }
            Event::PieceHalved { piece, seconds_left, .. } => {
                // One tells it; a slow disk may have hundreds.
                if !std::mem::replace(&mut self.is_halved, true) {
                    let left = seconds_left
                        .map_or_else(String::new, |left| format!(" ({} left)", seconds(left)));
                    self.note(at, format!("piece {piece} slow{left}, split among idle streams"));
                }
            }
            Event::EndpointDown { endpoint, .. } => {
                self.endpoints.entry(endpoint.clone()).or_default().times_down += 1;
            }
            Event::EndpointUp { endpoint, seconds } => {
                self.endpoints.entry(endpoint.clone()).or_default().seconds_down += seconds;
            }
            Event::PieceCommitted { endpoint: Some(endpoint), rows, bytes, .. } => {
                let by = self.endpoints.entry(endpoint.clone()).or_default();
                by.pieces += 1;
                by.rows += rows;
                by.bytes += bytes;
            }
            Event::Notice { .. }
            | Event::RateChanged { .. }
            | Event::FormChanged { .. }
            | Event::RunResumed { .. }
            | Event::PieceCommitted { .. } => {}
        }
    }

    fn resume(&mut self, rows_committed: u64) {
        self.taken_over.push(self.seconds + MOMENT_S);
        self.state = RunState::Unfinished;
        (self.error, self.first, self.verdict, self.paused) = (None, None, None, None);
        self.advice.clear();
        self.note(self.seconds, format!("resumed with {rows_committed} committed rows"));
    }

    /// When the process began that has the run now.
    fn offset(&self) -> f64 {
        self.taken_over.last().copied().unwrap_or(0.0)
    }

    fn note(&mut self, at: f64, event: String) {
        if self.events.len() >= EVENTS_MAX {
            self.events.remove(0);
        }
        self.events.push((at, event));
    }

    fn add_up(&mut self) {
        self.rows = self.tables.iter().map(|table| table.rows).sum();
        self.rejected = self.tables.iter().map(|table| table.rejected).sum();
        self.bytes = self.tables.iter().map(|table| table.bytes).sum();
    }

    /// Those entries that the process made which has the run now.
    fn of_now<'a, T>(&self, entries: &'a [(f64, T)]) -> &'a [(f64, T)] {
        attempts(entries, &self.taken_over).pop().unwrap_or_default()
    }

    /// The observations of each process that had the run.
    pub fn observed(&self) -> Vec<&[(f64, Observation)]> {
        attempts(&self.observations, &self.taken_over)
    }

    pub fn is_over(&self) -> bool {
        self.state != RunState::Unfinished
    }

    pub fn curves(&self) -> Curves {
        Curves::of(&self.samples, &self.observations, &self.taken_over)
    }

    pub fn names(&self) -> Vec<&str> {
        self.tables.iter().map(|table| table.name.as_str()).collect()
    }

    fn circumstances(&self) -> Circumstances {
        Circumstances::of(self.settings.as_ref(), self.tables.len())
    }

    /// The first and the last that the process saw which has the run now.
    pub fn seen_now(&self) -> Option<(&Observation, &Observation)> {
        let (_, last) = self.observations.last()?;
        Some((self.first.as_ref()?, last))
    }

    /// The record's verdict, or that on what was seen until now.
    pub fn verdict_so_far(&self) -> Option<Verdict> {
        if self.verdict.is_some() {
            return self.verdict.clone();
        }
        let (first, last) = self.seen_now()?;
        Some(verdict(&last.since(first), &self.circumstances()))
    }

    /// What holds the run back now, while rows move.
    pub fn limit_now(&self) -> Option<(Limit, f64)> {
        if self.is_over() || self.verdict.is_some() {
            return None;
        }
        let (_, last) = self.observations.last()?;
        let verdict =
            verdict(&last.since(recent(self.of_now(&self.observations))?), &self.circumstances());
        (verdict.limit != Limit::None).then_some((verdict.limit, verdict.share))
    }

    /// Bytes of source that were sent, and those that there are, where that is known.
    pub fn sent(&self) -> (u64, Option<u64>) {
        let sent = self.tables.iter().map(|table| table.bytes_sent).sum();
        (sent, self.tables.iter().map(|table| table.bytes_expected).sum())
    }

    /// Bytes of source a second, now.
    pub fn rate_now(&self) -> Option<f64> {
        let samples = self.of_now(&self.samples);
        let before = recent(samples)?;
        let (at, now) = samples.last()?;
        let from = samples.iter().find(|(_, tables)| std::ptr::eq(tables, before))?.0;
        let sum = |tables: &[TableTotals]| tables.iter().map(|t| t.bytes_sent).sum::<u64>();
        (*at > from).then(|| sum(now).saturating_sub(sum(before)) as f64 / (at - from))
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
