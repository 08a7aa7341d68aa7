//! Which samples of a long run are written down.
//!
//! Samples are counters that only grow, so any of them can be omitted. The first minutes are kept in full,
//! later ever fewer, at least one a minute: ten hours give about 3,000 entries, more than a chart has
//! pixels. Long samples (many streams and tables) are written less often, so the run's duration bounds the
//! size of the record. Viewers of a run still see every second ([`super::latest`]).

use super::event::Event;

/// Until then all are written, in seconds.
const FULL_S: f64 = 60.0;

/// The longest time between two that are written, in seconds.
const GAP_MAX_S: f64 = 60.0;

/// Of a run's age so far, the part that may lie between two.
const GAP_PART: f64 = 1.0 / 150.0;

/// A line of so many bytes is not held to be long.
const LINE_BYTES: f64 = 8192.0;

/// Entries that come often, by kind.
#[derive(Debug, Default)]
pub struct Thinning {
    samples: Kind,
    observations: Kind,
}

/// One kind of them.
#[derive(Debug, Default)]
struct Kind {
    written_at: Option<f64>,
    /// The last one, where it was left out.
    left_out: Option<Vec<u8>>,
}

impl Thinning {
    /// The lines to write for an event, in their order.
    pub fn take(&mut self, at: f64, event: &Event, line: Vec<u8>) -> Vec<Vec<u8>> {
        let kind = match event {
            Event::Sample { .. } => &mut self.samples,
            Event::Observed { .. } => &mut self.observations,
            // What ends a stretch of the run is seen together with how it stood then.
            Event::Verdict { .. }
            | Event::RoundStarted { .. }
            | Event::RunFinished { .. }
            | Event::RunFailed { .. } => {
                let kinds = [&mut self.samples, &mut self.observations];
                let mut lines: Vec<_> =
                    kinds.into_iter().filter_map(|kind| kind.left_out.take()).collect();
                lines.push(line);
                return lines;
            }
            _ => return vec![line],
        };
        let times_longer = (line.len() as f64 / LINE_BYTES).max(1.0);
        let gap = if at < FULL_S { 0.0 } else { (at * GAP_PART).min(GAP_MAX_S) * times_longer };
        if kind.written_at.is_some_and(|last| at - last < gap) {
            kind.left_out = Some(line);
            return Vec::new();
        }
        kind.written_at = Some(at);
        kind.left_out = None;
        vec![line]
    }

    /// The newest lines that are not written.
    pub fn left_out(&self) -> Vec<&[u8]> {
        [&self.samples, &self.observations]
            .into_iter()
            .filter_map(|kind| kind.left_out.as_deref())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_hours_are_some_thousand_samples_and_the_last_is_kept() {
        let mut thinning = Thinning::default();
        let sample = Event::Sample { tables: Vec::new(), streams_active: 1 };
        let (mut written, mut first_minute) = (0, 0);
        for tick in 0..10 * 3600 * 5 {
            let at = f64::from(tick) * 0.2;
            let lines = thinning.take(at, &sample, tick.to_string().into_bytes()).len();
            written += lines;
            first_minute += if at < 60.0 { lines } else { 0 };
        }
        assert_eq!(first_minute, 300, "nothing is left out in the first minute");
        assert!((1_000..2_000).contains(&written), "{written}");
        let end = Event::RunTakenBack { rows_kept: 0 };
        assert_eq!(thinning.take(36_000.0, &end, Vec::new()).len(), 1);
        let end = Event::RoundStarted { reason: String::new(), pieces_committed: 0 };
        let lines = thinning.take(36_000.0, &end, b"end".to_vec());
        assert_eq!(lines, [b"179999".to_vec(), b"end".to_vec()]);
    }

    #[test]
    fn long_lines_take_no_more_room_than_short_ones() {
        let written = |length: usize| {
            let mut thinning = Thinning::default();
            let event = Event::Sample { tables: Vec::new(), streams_active: 1 };
            let lines = (0..10 * 3600)
                .map(|at| thinning.take(f64::from(at), &event, vec![b' '; length]).concat().len());
            lines.sum::<usize>()
        };
        let (short, long) = (written(8 << 10), written(80 << 10));
        assert!(short < 12 << 20, "{short}");
        // The first minute is longer.
        assert!(long < short + 70 * (80 << 10), "{long} for {short}");
    }
}
