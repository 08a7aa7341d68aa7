//! A place: a host, and as many streams as one part at a time has there.

use crate::observe::Observation;
use crate::summaries::HostSummary;

use super::part::Part;
use super::sum;

#[derive(Debug)]
pub struct Place {
    pub host: String,
    pub is_free: bool,
    streams: usize,
    parsers: usize,
    /// What parts that have ended here had seen.
    ended: Observation,
    bytes_ended: u64,
    /// Bytes of the part that is here: sent so far, and sent before it came.
    bytes: u64,
    bytes_first: Option<u64>,
    /// When the last part ended here, by the driver's clock.
    until: f64,
    /// Seconds in which rows of parts that have ended moved, and of the part that is here.
    busy_ended: f64,
    busy: f64,
}

impl Place {
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            is_free: true,
            streams: 0,
            parsers: 0,
            ended: Observation::default(),
            bytes_ended: 0,
            bytes: 0,
            bytes_first: None,
            until: 0.0,
            busy_ended: 0.0,
            busy: 0.0,
        }
    }

    pub fn begin(&mut self) {
        self.is_free = false;
        (self.bytes, self.bytes_first, self.busy) = (0, None, 0.0);
    }

    /// A part that is here has said more.
    pub fn look(&mut self, part: &Part) {
        self.streams = self.streams.max(part.streams);
        self.parsers = self.parsers.max(part.parsers);
        self.busy = part.moved;
        if !part.tables.is_empty() {
            self.bytes = part.bytes_sent();
            self.bytes_first.get_or_insert(match part.rows_before {
                0 if part.bytes_before == 0 => 0,
                _ => self.bytes,
            });
        }
    }

    pub fn end(&mut self, part: &Part, now: f64) {
        if let Some(seen) = part.seen() {
            self.ended = sum::after(&self.ended, seen);
        }
        self.bytes_ended += self.bytes_here();
        self.busy_ended += self.busy;
        (self.bytes, self.bytes_first, self.busy) = (0, None, 0.0);
        self.until = now;
        self.is_free = true;
    }

    fn bytes_here(&self) -> u64 {
        self.bytes.saturating_sub(self.bytes_first.unwrap_or(0))
    }

    pub fn streams(&self) -> usize {
        self.streams
    }

    pub fn parsers(&self) -> usize {
        self.parsers
    }

    /// What was seen here, with what the part that is here has seen.
    pub fn seen(&self, current: Option<Observation>) -> Observation {
        let mut seen = match current {
            Some(current) => sum::after(&self.ended, current),
            None => self.ended.clone(),
        };
        // So that each stream of the next place keeps its number.
        seen.streams.resize(self.streams.max(seen.streams.len()), Default::default());
        seen
    }

    /// Bytes that were sent from here, and the seconds which that took.
    pub fn pace(&self) -> (u64, f64) {
        (self.bytes_ended + self.bytes_here(), self.busy_ended + self.busy)
    }

    /// When the last part ended here.
    pub fn ended_at(&self, now: f64) -> f64 {
        if self.is_free { self.until } else { now }
    }

    pub fn summary(&self) -> HostSummary {
        HostSummary { host: self.host.clone(), streams: self.streams, parsers: self.parsers }
    }
}
