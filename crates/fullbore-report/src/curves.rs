//! The curves of a page: rates between one sample and the next of the same process.

use fullbore_record::TableTotals;
use fullbore_record::observe::Observation;
use serde::Serialize;

use crate::entries::attempts;

/// Seconds that should lie between two points: shorter stretches are mostly noise.
const APART_S: f64 = 0.9;

/// Points of a curve: a chart has no more pixels to show them.
const POINTS_MAX: usize = 1000;

/// The curves: one value for each moment of `at`, and none where a process took over.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Curves {
    /// Seconds since the run began.
    pub at: Vec<f64>,
    /// Of each table, million bytes of source and thousand rows a second.
    pub megabytes: Vec<Vec<Option<f64>>>,
    pub kilorows: Vec<Vec<Option<f64>>>,
    /// Of the server, million bytes a second: write-ahead log made, data files written.
    pub server_at: Vec<f64>,
    pub wal: Vec<Option<f64>>,
    pub written: Vec<Option<f64>>,
    /// When checkpoints were counted.
    pub checkpoints: Vec<f64>,
}

impl Curves {
    /// Of samples and observations with their moments, and when one process took over from another.
    pub fn of(
        samples: &[(f64, Vec<TableTotals>)],
        observations: &[(f64, Observation)],
        taken_over: &[f64],
    ) -> Self {
        let tables = samples.first().map_or(0, |(_, tables)| tables.len());
        let mut curves = Self {
            megabytes: vec![Vec::new(); tables],
            kilorows: vec![Vec::new(); tables],
            ..Self::default()
        };
        for part in attempts(samples, taken_over) {
            curves.add_tables(part);
        }
        for part in attempts(observations, taken_over) {
            curves.add_server(part);
        }
        curves
    }

    fn add_tables(&mut self, samples: &[(f64, Vec<TableTotals>)]) {
        let samples: Vec<_> = samples.iter().map(|(at, tables)| (*at, tables)).collect();
        for (n, ((before_at, before), (at, now))) in steps(&samples).into_iter().enumerate() {
            let seconds = at - before_at;
            let moments = Moments::of(n, before_at, at, &self.at);
            for table in 0..self.kilorows.len() {
                let rate = |count: fn(&TableTotals) -> u64, unit: f64| {
                    let (now, before) = (now.get(table).map(count)?, before.get(table).map(count)?);
                    Some(rounded(now.saturating_sub(before) as f64 / seconds / unit))
                };
                moments.put(&mut self.megabytes[table], rate(|totals| totals.bytes_sent, 1e6));
                moments.put(&mut self.kilorows[table], rate(|totals| totals.rows_sent, 1e3));
            }
            self.at.extend(moments.at);
        }
    }

    fn add_server(&mut self, observations: &[(f64, Observation)]) {
        let of_server: Vec<_> = observations
            .iter()
            .filter_map(|(at, seen)| Some((*at, seen.server.as_ref()?)))
            .collect();
        for (n, ((before_at, before), (at, now))) in steps(&of_server).into_iter().enumerate() {
            let (seconds, added) = (at - before_at, now.since(before));
            let moments = Moments::of(n, before_at, at, &self.server_at);
            let rate = |bytes: u64| Some(rounded(bytes as f64 / seconds / 1e6));
            moments.put(&mut self.wal, rate(added.wal_bytes));
            moments.put(&mut self.written, rate(added.written_bytes));
            self.server_at.extend(moments.at);
            if added.checkpoints_timed + added.checkpoints_requested > 0 {
                self.checkpoints.push(rounded(at));
            }
        }
    }
}

/// The moments that a rate gives to a curve.
struct Moments {
    at: Vec<f64>,
    /// A line that others were drawn of breaks off before it.
    has_gap: bool,
}

impl Moments {
    /// Of a process's nth rate: its first one was there from the begin of its stretch on.
    fn of(n: usize, from: f64, to: f64, drawn: &[f64]) -> Self {
        let has_gap = n == 0 && !drawn.is_empty();
        let mut at = vec![rounded(from); usize::from(n == 0) + usize::from(has_gap)];
        at.push(rounded(to));
        Self { at, has_gap }
    }

    fn put(&self, line: &mut Vec<Option<f64>>, rate: Option<f64>) {
        let gap = usize::from(self.has_gap);
        line.extend(std::iter::repeat_n(None, gap));
        line.extend(std::iter::repeat_n(rate, self.at.len() - gap));
    }
}

/// Digits that nobody can see are bytes that a page has to carry.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Pairs that lie some time apart, in the order of time. The last of them goes on to the end, since
/// what was counted in a short rest counts too.
fn steps<T: Copy>(entries: &[(f64, T)]) -> Vec<((f64, T), (f64, T))> {
    let (Some(&first), Some(&end)) = (entries.first(), entries.last()) else { return Vec::new() };
    // A run of less than a second still has a rate.
    let length = end.0 - first.0;
    let apart = APART_S.min(length / 4.0).max(length / POINTS_MAX as f64).max(1e-3);
    let (mut steps, mut last) = (Vec::new(), first);
    for entry in entries {
        if entry.0 - last.0 >= apart {
            steps.push((last, *entry));
            last = *entry;
        }
    }
    if let Some((_, to)) = steps.last_mut() {
        *to = end;
    }
    steps
}
