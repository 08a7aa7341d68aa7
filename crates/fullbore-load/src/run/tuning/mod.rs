//! `--streams auto`: finds the number of streams that a run needs while it loads.
//!
//! A thread measures the rate in slices of half a second, hears from the bottleneck whether more streams could
//! bring anything, and has [`climb`] decide. A number counts from the moment at which its streams are at work, and
//! only while rows move.

mod climb;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fullbore_record::diagnose::{Limit, Sureness};
use fullbore_record::observe::{Clocks, Observation};
use fullbore_record::{Event, Recorder, Tried};

use super::limit_now::since;
use super::schedule::Schedule;
use crate::constants::PARSERS_MAX;
use crate::plan::{Plan, Tuning};
use climb::{Climb, Cue, Step};

/// How long a slice is.
const SLICE: Duration = Duration::from_millis(500);

/// What a new number of streams is given before it is measured: sessions are opened, windows grow.
const RAMP: Duration = Duration::from_secs(1);
const RAMP_ROUND_TRIPS: u32 = 8;

/// Nothing is tried any more where the rest of the run would take less than this, in seconds: it could not pay.
const TRIED_BEFORE_S: f64 = 10.0;

/// From this round trip on a stream is taken to wait for its window, until the bottleneck is known.
const FAR: Duration = Duration::from_millis(50);

/// What the bottleneck is judged by, at least.
const JUDGED_FOR: Duration = Duration::from_secs(2);

/// The number of streams that a run settled on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    pub streams: usize,
    pub parsers: usize,
    /// The run was long enough to settle.
    pub is_settled: bool,
}

impl Tuned {
    /// The streams and the parsers that a run of a plan has used.
    pub fn or_planned(tuned: Option<Self>, plan: &Plan) -> (usize, usize) {
        tuned.map_or((plan.begins_with(), plan.parsers), |tuned| (tuned.streams, tuned.parsers))
    }
}

/// Finds the number of streams, over all rounds of a run.
pub struct Tuner {
    tuning: Tuning,
    /// Parsers of a run whose sources are not waited for.
    parsers: usize,
    state: Mutex<State>,
}

struct State {
    climb: Climb,
    parsers: usize,
}

/// What the threads of a round share.
pub struct Round<'a> {
    pub plan: &'a Arc<Plan>,
    pub schedule: &'a Schedule<'a>,
    pub clocks: &'a Clocks,
    pub recorder: &'a Recorder,
    /// Starts streams and parsers until there are so many; false where the machine has no thread to give.
    pub grow: &'a dyn Fn(usize, usize) -> bool,
}

impl Tuner {
    /// A tuner for a run whose number of streams may change.
    pub fn of(plan: &Plan) -> Option<Self> {
        let tuning = plan.tuning?;
        let climb = Climb::new(tuning.first, tuning.most, tuning.is_known);
        let state = State { climb, parsers: tuning.first_parsers };
        Some(Self { tuning, parsers: plan.parsers, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Streams and parsers that there may be at most.
    pub fn most(&self) -> (usize, usize) {
        let parsers = if self.tuning.parsers { PARSERS_MAX } else { 0 };
        (
            self.tuning.most.max(self.tuning.first),
            parsers.max(self.parsers).max(self.tuning.first_parsers),
        )
    }

    /// Streams and parsers that are wanted now.
    pub fn wanted(&self) -> (usize, usize) {
        let state = self.lock();
        (state.climb.streams(), state.parsers)
    }

    /// What was settled on, or was best until then.
    pub fn tuned(&self) -> Option<Tuned> {
        let state = self.lock();
        let (is_settled, parsers) = (state.climb.is_settled(), state.parsers);
        let streams = match is_settled {
            true => Some(state.climb.streams()),
            false => state.climb.best_known(),
        };
        Some(Tuned { streams: streams?, parsers, is_settled })
    }

    /// Measures and decides until the round has ended.
    pub fn watch(&self, round: &Round<'_>, has_ended: &dyn Fn() -> bool) {
        let mut measured = Measured::new(round);
        let mut forms = round.schedule.forms_changed();
        while !has_ended() {
            std::thread::park_timeout(SLICE);
            let changed = round.schedule.forms_changed();
            if std::mem::replace(&mut forms, changed) != changed {
                self.lock().climb.begin_again();
                measured.begin(round);
            }
            let Some(rate) = measured.slice(round) else { continue };
            if !self.can_pay(round, measured.mean()) {
                continue;
            }
            let (limit, cue) = measured.cue(round);
            let step = self.lock().climb.slice(rate, cue);
            match step {
                Some(Step::Try(streams)) => {
                    self.go(round, streams, limit);
                    let (streams, parsers) = self.wanted();
                    round.recorder.record(Event::StreamsTried { streams, parsers });
                    measured.begin(round);
                }
                Some(Step::Settle(streams)) => {
                    self.go(round, streams, limit);
                    self.settle(round, limit);
                    measured.begin(round);
                }
                None => {}
            }
        }
    }

    /// Whether enough is left for a trial to pay, and for other streams to work on. `rate` is that of the whole
    /// round: by the rate of a slice, of a load that comes in bursts only slow ones would be counted.
    fn can_pay(&self, round: &Round<'_>, rate: f64) -> bool {
        let (sent, expected) = round.schedule.bytes_sent();
        let left = expected.filter(|bytes| *bytes > 0).map(|bytes| bytes.saturating_sub(sent));
        let is_long = left.is_none_or(|left| left as f64 > TRIED_BEFORE_S * rate);
        is_long && round.schedule.has_more()
    }

    /// Wants so many streams from now on; parsers with them where sources are what is waited for.
    fn go(&self, round: &Round<'_>, streams: usize, limit: Limit) {
        let is_source = matches!(limit, Limit::SourceDisk | Limit::ReadDepth);
        let parsers = match is_source && self.tuning.parsers {
            true => streams.clamp(self.parsers, PARSERS_MAX),
            false => self.lock().parsers,
        };
        self.lock().parsers = parsers;
        tracing::debug!(streams, parsers, limit = limit.name(), "streams change");
        if !(round.grow)(streams, parsers) {
            let (_, at_work) = round.schedule.streams_wanted_and_at_work();
            self.lock().climb.limit(at_work);
        }
        let (streams, parsers) = self.wanted();
        round.schedule.want(streams, parsers);
    }

    fn settle(&self, round: &Round<'_>, limit: Limit) {
        let state = self.lock();
        let (streams, parsers) = (state.climb.streams(), state.parsers);
        let tried = state.climb.known();
        let tried =
            tried.map(|(streams, rate)| Tried { streams, bytes_per_second: rate }).collect();
        drop(state);
        round.recorder.record(Event::StreamsSettled { streams, parsers, tried, limit });
    }
}

/// What is measured of a number of streams.
struct Measured {
    /// It is measured from then on.
    from: Instant,
    last: Instant,
    sent: u64,
    /// When the round began, and what had been sent by then.
    began: (Instant, u64),
    /// What had been seen when it began to be measured.
    seen: Option<(Instant, Observation)>,
}

impl Measured {
    fn new(round: &Round<'_>) -> Self {
        let (now, sent) = (Instant::now(), round.schedule.bytes_sent().0);
        let mut measured = Self { from: now, last: now, sent, began: (now, sent), seen: None };
        measured.begin(round);
        measured
    }

    /// The rate of the round until now.
    fn mean(&self) -> f64 {
        let (began, before) = self.began;
        self.sent.saturating_sub(before) as f64 / began.elapsed().as_secs_f64().max(1e-3)
    }

    /// Begins with another number.
    fn begin(&mut self, round: &Round<'_>) {
        let trip = round.clocks.latest().map(|latest| round_trip(&latest.seen)).unwrap_or_default();
        self.from = Instant::now() + RAMP.max(trip * RAMP_ROUND_TRIPS);
        self.seen = None;
    }

    /// The rate since the last slice; none as long as the streams are not those that are wanted, or rows can't move.
    fn slice(&mut self, round: &Round<'_>) -> Option<f64> {
        let (now, sent) = (Instant::now(), round.schedule.bytes_sent().0);
        let seconds = (now - self.last).as_secs_f64();
        let before = std::mem::replace(&mut self.sent, sent);
        self.last = now;
        let (wanted, at_work) = round.schedule.streams_wanted_and_at_work();
        let is_ramp = now < self.from || at_work > wanted;
        if is_ramp || round.schedule.is_held() || sent < before {
            if at_work > wanted {
                // What they still send is not that of fewer.
                self.from = self.from.max(now + SLICE);
            }
            return None;
        }
        if self.seen.is_none() {
            self.seen = round.clocks.latest().map(|latest| (now, latest.seen));
        }
        Some((sent - before) as f64 / seconds.max(1e-3))
    }

    /// What limits the run since then, and what that says of more streams.
    fn cue(&self, round: &Round<'_>) -> (Limit, Cue) {
        let (Some((began, first)), Some(latest)) = (&self.seen, round.clocks.latest()) else {
            return (Limit::None, Cue::Unclear);
        };
        if began.elapsed() < JUDGED_FOR {
            let is_far = round_trip(&latest.seen) >= FAR;
            return (Limit::None, if is_far { Cue::More } else { Cue::Unclear });
        }
        let found = since(round.plan, first, &latest);
        let cue = match found.limit {
            Limit::TooFewStreams
            | Limit::ReadDepth
            | Limit::SendWindow
            | Limit::ReceiveCap
            | Limit::FlowCap => Cue::More,
            Limit::SourceDisk | Limit::LongTail | Limit::Mixed | Limit::None => Cue::Unclear,
            _ if found.sure == Sureness::Low => Cue::Unclear,
            _ => Cue::Enough,
        };
        (found.limit, cue)
    }
}

/// The round trip to the server without the queues of the load itself, as the streams' sockets have it.
fn round_trip(seen: &Observation) -> Duration {
    let sockets = seen.streams.iter().filter_map(|stream| stream.socket);
    let shortest = sockets.map(|socket| socket.rtt_min_us).filter(|trip| *trip > 0).min();
    Duration::from_micros(shortest.unwrap_or(0)).min(Duration::from_secs(1))
}
