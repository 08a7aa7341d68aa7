//! Observation: what every thread, the server and this machine do while a run goes on.
//!
//! All of it are counters that only grow, so that any two observations make a window, and a record
//! can leave observations out. What a stream waits for is known by *moments*: about ten times a second
//! what the stream does is noted together with what its backend at the server does.

pub mod clock;
pub mod host;
mod moments;
mod server;
mod watcher;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use clock::{Activity, Clock, Times};
use host::HostTimes;
pub use server::{ServerTimes, Settings, Wait, WaitClass, Watch};
pub use watcher::observe;

/// The clocks of a run's threads.
#[derive(Debug)]
pub struct Clocks {
    pub streams: Vec<Arc<Clock>>,
    pub parsers: Vec<Arc<Clock>>,
}

impl Clocks {
    pub fn new(streams: usize, parsers: usize) -> Self {
        let clocks = |count| (0..count).map(|_| Arc::default()).collect();
        Self { streams: clocks(streams), parsers: clocks(parsers) }
    }
}

/// What a stream and its backend did, so many of the moments looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub table: usize,
    pub activity: Activity,
    /// None where the server could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitClass>,
    pub count: u64,
}

/// One thread until now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    pub times: Times,
    /// Time in which it could have run, and had no processor.
    pub run_queue_ms: u64,
    /// Of a stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "moments")]
    pub moments: Vec<Moment>,
    /// CPU time of its backend, where the server is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_cpu_ms: Option<u64>,
}

impl ThreadTimes {
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |moment: &Moment| {
            let alike = |m: &&Moment| {
                (m.table, m.activity, m.wait) == (moment.table, moment.activity, moment.wait)
            };
            earlier.moments.iter().find(alike).map_or(0, |m| m.count)
        };
        let moments = self.moments.iter().map(|moment| Moment {
            count: moment.count.saturating_sub(before(moment)),
            ..moment.clone()
        });
        let backend = |t: &Self| t.backend_cpu_ms.unwrap_or_default();
        Self {
            times: self.times.since(&earlier.times),
            run_queue_ms: self.run_queue_ms.saturating_sub(earlier.run_queue_ms),
            moments: moments.filter(|moment| moment.count > 0).collect(),
            backend_cpu_ms: self
                .backend_cpu_ms
                .map(|_| backend(self).saturating_sub(backend(earlier))),
        }
    }

    fn note(&mut self, table: usize, activity: Activity, wait: Option<WaitClass>) {
        let alike = |m: &&mut Moment| (m.table, m.activity, m.wait) == (table, activity, wait);
        match self.moments.iter_mut().find(alike) {
            Some(moment) => moment.count += 1,
            None => self.moments.push(Moment { table, activity, wait, count: 1 }),
        }
    }
}

/// What was seen of a run, and under which settings of the server.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub at_first: Option<Observation>,
    pub until_now: Observation,
    /// None where there is no server to be asked.
    pub settings: Option<Settings>,
}

impl Seen {
    /// All of it that is the run's.
    pub fn whole(&self) -> Observation {
        match &self.at_first {
            Some(first) => self.until_now.since(first),
            None => self.until_now.clone(),
        }
    }
}

/// Everything that was seen until now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub streams: Vec<ThreadTimes>,
    pub parsers: Vec<ThreadTimes>,
    pub host: HostTimes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerTimes>,
    /// Names of the server's waits, and how often our backends were seen in them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, u64>,
    /// Whom our backends were seen waiting for, as the server describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<String>,
}

impl Observation {
    /// What was added since an earlier one of the same run.
    pub fn since(&self, earlier: &Self) -> Self {
        let threads = |now: &[ThreadTimes], before: &[ThreadTimes]| -> Vec<ThreadTimes> {
            let none = ThreadTimes::default();
            let pairs = now.iter().enumerate();
            pairs.map(|(at, thread)| thread.since(before.get(at).unwrap_or(&none))).collect()
        };
        let waits = self.waits.iter().filter_map(|(name, count)| {
            let added = count - earlier.waits.get(name).copied().unwrap_or_default().min(*count);
            (added > 0).then(|| (name.clone(), added))
        });
        Self {
            streams: threads(&self.streams, &earlier.streams),
            parsers: threads(&self.parsers, &earlier.parsers),
            host: self.host.since(&earlier.host),
            server: match (&self.server, &earlier.server) {
                (Some(now), Some(before)) => Some(now.since(before)),
                (now, _) => now.clone(),
            },
            waits: waits.collect(),
            blockers: self.blockers.clone(),
        }
    }
}
