//! Observation: what every thread, the server and this machine do during a run.
//!
//! All of it are counters that only grow, so that any two observations make a window, and a record
//! can leave observations out. What a stream waits for is known by *moments*: about ten times a second
//! what the stream does is noted together with what its backend at the server does.

pub mod clock;
pub mod host;
mod moments;
pub(crate) mod pace;
pub mod pieces;
mod quota;
pub(crate) mod server;
pub mod socket;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use clock::{Activity, Clock, Times};
use host::HostTimes;
use pieces::PieceTime;
pub use server::{Observed, ServerTimes, Settings, Volumes, Wait, WaitClass, Watch};
use socket::{Hold, SocketTimes};

/// The clocks of a run's threads.
#[derive(Debug, Default)]
pub struct Clocks {
    streams: Vec<Arc<Clock>>,
    parsers: Vec<Arc<Clock>>,
    /// Of these, how many threads there have been: others may be started later, or never.
    started: [AtomicUsize; 2],
    made: Option<Instant>,
    /// What the observer saw last.
    latest: Mutex<Option<Latest>>,
    /// The pieces that were loaded.
    pieces: Mutex<Vec<PieceTime>>,
    /// The threads that observe, and the microseconds of CPU that they took when last looked at.
    observing: Mutex<BTreeMap<u64, u64>>,
}

/// What was seen until a moment, and under which settings of the server.
#[derive(Debug, Clone)]
pub struct Latest {
    pub at: Instant,
    pub seen: Observation,
    pub settings: Option<Settings>,
}

impl Clocks {
    /// Clocks for so many threads at most.
    pub fn new(streams: usize, parsers: usize) -> Self {
        let clocks = |count| (0..count).map(|_| Arc::default()).collect();
        Self {
            streams: clocks(streams),
            parsers: clocks(parsers),
            made: Some(Instant::now()),
            ..Self::default()
        }
    }

    /// Those of the streams that there have been.
    pub fn streams(&self) -> &[Arc<Clock>] {
        &self.streams[..self.started[0].load(Ordering::Relaxed)]
    }

    /// Those of the parsers that there have been.
    pub fn parsers(&self) -> &[Arc<Clock>] {
        &self.parsers[..self.started[1].load(Ordering::Relaxed)]
    }

    /// The clock of a stream that begins; none where there are not so many.
    pub fn begin_stream(&self, number: usize) -> Option<&Arc<Clock>> {
        let clock = self.streams.get(number)?;
        self.started[0].fetch_max(number + 1, Ordering::Relaxed);
        Some(clock)
    }

    /// The clock of a parser that begins; none where there are not so many.
    pub fn begin_parser(&self, number: usize) -> Option<&Arc<Clock>> {
        let clock = self.parsers.get(number)?;
        self.started[1].fetch_max(number + 1, Ordering::Relaxed);
        Some(clock)
    }

    /// What the observer saw last; none before it has looked.
    pub fn latest(&self) -> Option<Latest> {
        self.latest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn set_latest(&self, seen: &Observation, settings: Option<&Settings>) {
        let latest = Latest { at: Instant::now(), seen: seen.clone(), settings: settings.cloned() };
        *self.latest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(latest);
    }

    /// The run's age.
    pub fn seconds(&self) -> f64 {
        self.made.map_or(0.0, |made| made.elapsed().as_secs_f64())
    }

    /// How long a stream was held, in seconds.
    pub fn held_seconds(&self, stream: usize) -> f64 {
        self.streams[stream].times().of(Activity::Held).ms as f64 / 1e3
    }

    /// A piece was loaded. One that came to nothing has no pace.
    pub fn note_piece(&self, piece: PieceTime) {
        if piece.bytes == 0 {
            return;
        }
        self.pieces.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(piece);
    }

    /// The pieces that were loaded, in the order of their ends.
    pub fn pieces(&self) -> Vec<PieceTime> {
        self.pieces.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The calling thread observes.
    pub fn count_as_observing(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        self.observing.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(thread, 0);
    }

    pub(crate) fn observing_ms(&self) -> u64 {
        let mut threads = self.observing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (thread, us) in threads.iter_mut() {
            // One that has ended can't be asked any more.
            *us = host::thread_cpu_us(*thread).max(*us);
        }
        threads.values().sum::<u64>() / 1000
    }
}

/// What a stream and its backend did, so many of the moments looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    pub table: usize,
    pub activity: Activity,
    /// None where the server could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitClass>,
    /// What held the bytes of its connection; None where that is not TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    pub count: u64,
}

impl Moment {
    /// All of it but how often.
    fn kind(&self) -> (usize, Activity, Option<WaitClass>, Option<Hold>) {
        (self.table, self.activity, self.wait, self.held)
    }
}

/// One thread until now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTimes {
    pub times: Times,
    /// Time in which it could have run, and had no processor.
    pub run_queue_ms: u64,
    /// Of a stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "moments")]
    #[schemars(with = "moments::Nested")]
    pub moments: Vec<Moment>,
    /// CPU time of its backend, where the server is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_cpu_ms: Option<u64>,
    /// Its connection, where that is TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketTimes>,
}

impl ThreadTimes {
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |moment: &Moment| {
            let alike = |m: &&Moment| m.kind() == moment.kind();
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
            socket: self.socket.map(|now| now.since(&earlier.socket.unwrap_or_default())),
        }
    }

    pub(crate) fn note(&mut self, seen: Moment) {
        match self.moments.iter_mut().find(|moment| moment.kind() == seen.kind()) {
            Some(moment) => moment.count += seen.count,
            None => self.moments.push(seen),
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// CPU time of the threads that look at all this and record it.
    #[serde(default)]
    pub observing_ms: u64,
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
                // A server counts from its own start: without a first look nothing is known.
                _ => None,
            },
            waits: waits.collect(),
            blockers: self.blockers.clone(),
            observing_ms: self.observing_ms.saturating_sub(earlier.observing_ms),
        }
    }
}
