//! How often it is noted what streams do: as often as wanted, unless that costs too much of what the
//! load itself costs. A load that waits all day is not looked at ten times a second.

use std::time::Duration;

use super::Observation;
use crate::constants::{
    CLOSELY_OBSERVED_MS, MOMENT_INTERVAL_MS, MOMENT_INTERVAL_MS_MAX, OBSERVING_PART_MAX,
};

#[derive(Debug)]
pub struct Pace {
    interval_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { interval_ms: MOMENT_INTERVAL_MS }
    }
}

impl Pace {
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// How many moments one of them stands for.
    pub fn weight(&self) -> u64 {
        self.interval_ms / MOMENT_INTERVAL_MS
    }

    /// Takes what was seen of the run so far.
    pub fn adapt(&mut self, run: &Observation) {
        let age_ms = run.streams.iter().map(|stream| stream.times.total_ms()).max().unwrap_or(0);
        if age_ms < CLOSELY_OBSERVED_MS {
            return;
        }
        let watch_ms = run.server.as_ref().map_or(0, |server| server.watch_cpu_ms);
        let allowed = load_ms(run) as f64 * OBSERVING_PART_MAX;
        let taken = (run.observing_ms + watch_ms) as f64;
        if taken > allowed * 0.9 {
            self.interval_ms = (self.interval_ms * 2).min(MOMENT_INTERVAL_MS_MAX);
        } else if taken < allowed * 0.5 {
            self.interval_ms = (self.interval_ms / 2).max(MOMENT_INTERVAL_MS);
        }
    }
}

/// CPU time of the load, here and of the server where that is here too.
fn load_ms(run: &Observation) -> u64 {
    let backends = run.streams.iter().filter_map(|stream| stream.backend_cpu_ms).sum::<u64>();
    let server = run.server.as_ref().map_or(0, |server| server.cpu_ms);
    run.host.own_cpu_ms.saturating_sub(run.observing_ms) + backends + server
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::clock::{Activity, Spent, Times};
    use crate::observe::{ServerTimes, ThreadTimes};

    /// So many seconds of a load that took so much CPU, and its observation.
    fn run(seconds: u64, own_cpu_ms: u64, observing_ms: u64, watch_cpu_ms: u64) -> Observation {
        let spent = Spent { ms: seconds * 1000, cpu_ms: 0 };
        let times = Times([(Activity::Sending, spent)].into());
        let mut run = Observation {
            streams: vec![ThreadTimes { times, ..ThreadTimes::default() }],
            server: Some(ServerTimes { watch_cpu_ms, ..ServerTimes::default() }),
            observing_ms,
            ..Observation::default()
        };
        run.host.own_cpu_ms = own_cpu_ms + observing_ms;
        run
    }

    #[test]
    fn a_load_that_costs_little_is_looked_at_less_often() {
        let mut pace = Pace::default();
        pace.adapt(&run(10, 500, 50, 50));
        assert_eq!(pace.interval_ms, MOMENT_INTERVAL_MS, "not at first");
        for seconds in 31..40 {
            pace.adapt(&run(seconds, 1_500, 150, 150));
        }
        assert_eq!(pace.interval_ms, MOMENT_INTERVAL_MS_MAX);
        for seconds in 40..60 {
            pace.adapt(&run(seconds, 100_000, 160, 160));
        }
        assert_eq!(pace.interval_ms, MOMENT_INTERVAL_MS);
        pace.adapt(&run(60, 100_000, 350, 350));
        assert_eq!(pace.interval_ms, MOMENT_INTERVAL_MS, "within what is allowed");
    }
}
