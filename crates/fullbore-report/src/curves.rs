//! The curves of a page: rates between one sample and the next.

use fullbore_core::observe::Observation;
use fullbore_core::record::TableTotals;
use serde::Serialize;

/// Seconds that should lie between two points: shorter stretches are mostly noise.
const APART_S: f64 = 0.9;

/// Points of a curve: a chart has no more pixels to show them.
const POINTS_MAX: usize = 1000;

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

impl Curves {
    pub fn of(samples: &[(f64, Vec<TableTotals>)], observations: &[(f64, Observation)]) -> Self {
        let mut curves = Self::default();
        curves.add_tables(samples);
        curves.add_server(observations);
        curves
    }

    fn add_tables(&mut self, samples: &[(f64, Vec<TableTotals>)]) {
        let tables = samples.first().map_or(0, |(_, tables)| tables.len());
        self.megabytes = vec![Vec::new(); tables];
        self.kilorows = vec![Vec::new(); tables];
        let samples: Vec<_> = samples.iter().map(|(at, tables)| (*at, tables)).collect();
        for ((before_at, before), (at, now)) in steps(&samples) {
            let seconds = at - before_at;
            // The first rate was there from the begin of its stretch on.
            let is_first = self.at.is_empty();
            self.at.extend(is_first.then(|| rounded(before_at)));
            self.at.push(rounded(at));
            for table in 0..tables {
                let rate = |count: fn(&TableTotals) -> u64, unit: f64| {
                    let (now, before) = (now.get(table).map(count)?, before.get(table).map(count)?);
                    Some(rounded(now.saturating_sub(before) as f64 / seconds / unit))
                };
                let megabytes = rate(|totals| totals.bytes_sent, 1e6);
                let kilorows = rate(|totals| totals.rows_sent, 1e3);
                let count = if is_first { 2 } else { 1 };
                self.megabytes[table].extend(std::iter::repeat_n(megabytes, count));
                self.kilorows[table].extend(std::iter::repeat_n(kilorows, count));
            }
        }
    }

    fn add_server(&mut self, observations: &[(f64, Observation)]) {
        let of_server: Vec<_> = observations
            .iter()
            .filter_map(|(at, seen)| Some((*at, seen.server.as_ref()?)))
            .collect();
        for ((before_at, before), (at, now)) in steps(&of_server) {
            let (seconds, added) = (at - before_at, now.since(before));
            let is_first = self.server_at.is_empty();
            self.server_at.extend(is_first.then(|| rounded(before_at)));
            self.server_at.push(rounded(at));
            let count = if is_first { 2 } else { 1 };
            for (line, bytes) in
                [(&mut self.wal, added.wal_bytes), (&mut self.written, added.written_bytes)]
            {
                let rate = rounded(bytes as f64 / seconds / 1e6);
                line.extend(std::iter::repeat_n(rate, count));
            }
            if added.checkpoints_timed + added.checkpoints_requested > 0 {
                self.checkpoints.push(rounded(at));
            }
        }
    }
}

/// Digits that nobody can see are bytes that a page has to carry.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Pairs that lie some time apart, in the order of time.
fn steps<T: Copy>(entries: &[(f64, T)]) -> Vec<((f64, T), (f64, T))> {
    let mut steps = Vec::new();
    let Some(mut last) = entries.first().copied() else { return steps };
    let end = entries.last().map_or(0.0, |(at, _)| *at);
    // A run of less than a second still has a rate.
    let length = end - last.0;
    let apart = APART_S.min(length / 4.0).max(length / POINTS_MAX as f64).max(1e-3);
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
