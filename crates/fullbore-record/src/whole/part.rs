//! One part of a load in parts: the latest that its record said.

use crate::diagnose::Verdict;
use crate::event::{Event, Phase, TableMethod, TableTotals, Verified};
use crate::observe::Observation;
use crate::summaries::{PlanSummary, RejectSummary};

#[derive(Debug, Default)]
pub struct Part {
    /// Where it is being run.
    pub place: Option<usize>,
    /// Bytes of its files by table, by the driver's list.
    expected: Vec<Option<u64>>,
    pub plan: Option<PlanSummary>,
    methods: Vec<TableMethod>,
    pub streams: usize,
    pub parsers: usize,
    pub pieces: usize,
    pub tables: Vec<TableTotals>,
    pub streams_active: usize,
    pub rows_before: u64,
    pub bytes_before: u64,
    /// What its current attempt has seen.
    first: Option<Observation>,
    last: Option<Observation>,
    pub verdict: Option<(Verdict, Vec<String>)>,
    pub rejects: Option<RejectSummary>,
    pub finished: Option<Finished>,
    is_resumed: bool,
    /// Seconds of its attempt until rows ceased to move, by its own clock.
    pub moved: f64,
}

/// What a part that is loaded came to.
#[derive(Debug)]
pub struct Finished {
    pub phases: Vec<Phase>,
    pub verified: Option<Verified>,
}

impl Part {
    pub fn new(expected: Vec<Option<u64>>) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Another attempt begins.
    pub fn begin(&mut self, place: usize) {
        (self.first, self.last, self.finished) = (None, None, None);
        self.place = Some(place);
        (self.is_resumed, self.verdict, self.moved) = (false, None, 0.0);
    }

    pub fn take(&mut self, at: f64, event: Event) {
        if self.verdict.is_none() {
            self.moved = self.moved.max(at);
        }
        match event {
            Event::RunStarted { streams, parsers, pieces, methods, .. } => {
                (self.streams, self.parsers, self.pieces) = (streams, parsers, pieces);
                self.methods = methods;
            }
            Event::RunResumed { streams, parsers, .. } => {
                self.streams = streams.unwrap_or(self.streams);
                self.parsers = parsers.unwrap_or(self.parsers);
                self.is_resumed = true;
            }
            Event::Sample { tables, streams_active } => {
                if self.is_resumed && self.tables.is_empty() {
                    // This driver has seen nothing of it before: it was begun by another.
                    self.rows_before = tables.iter().map(|table| table.rows).sum();
                    self.bytes_before = tables.iter().map(|table| table.bytes).sum();
                }
                (self.tables, self.streams_active) = (tables, streams_active);
            }
            Event::Observed { observation } => {
                self.first.get_or_insert_with(|| observation.as_ref().clone());
                self.last = Some(*observation);
            }
            Event::Verdict { verdict, advice } => {
                self.streams_active = 0;
                self.verdict = Some((verdict, advice));
            }
            Event::Rejected { rejects } => self.rejects = Some(rejects),
            Event::RunFinished { phases, tables, verified, .. } => {
                self.streams_active = 0;
                self.tables = tables;
                self.finished = Some(Finished { phases, verified });
            }
            _ => {}
        }
    }

    pub fn methods(&self) -> Option<Vec<TableMethod>> {
        (!self.methods.is_empty()).then(|| self.methods.clone())
    }

    /// What its attempt has seen; of the machine, since it began.
    pub fn seen(&self) -> Option<Observation> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        let host = last.host.since(&first.host);
        Some(Observation { host, ..last.clone() })
    }

    /// Bytes sent of all tables.
    pub fn bytes_sent(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes_sent).sum()
    }

    /// Adds a table's totals to those of other parts.
    pub fn add_to(&self, total: &mut TableTotals, table: usize) {
        let listed = self.expected.get(table).copied().flatten();
        let Some(own) = self.tables.get(table) else {
            total.bytes_expected = total.bytes_expected.zip(listed).map(|(sum, more)| sum + more);
            return;
        };
        let expected = own.bytes_expected.or(listed);
        total.bytes_expected = total.bytes_expected.zip(expected).map(|(sum, more)| sum + more);
        total.rows += own.rows;
        total.rejected += own.rejected;
        total.counts += own.counts;
        total.bytes += own.bytes;
        total.pieces += own.pieces;
        total.rounded += own.rounded;
        total.rows_sent += own.rows_sent;
        total.bytes_sent += own.bytes_sent;
    }
}
