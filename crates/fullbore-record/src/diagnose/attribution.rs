//! Attribution: divides the streams' time among its causes.
//!
//! Causes are searched downstream first, since a slow step makes everything before it wait. A stream
//! blocked in send waits for what its backend waits for; if the backend waits for the client, the bytes
//! are in transit. A stream without rows waits for the parsers, unless its backend is still busy.

use std::collections::BTreeMap;

use super::{Circumstances, Limit};
use crate::observe::clock::{Activity, Spent};
use crate::observe::socket::Hold;
use crate::observe::{Moment, Observation, ThreadTimes, WaitClass};

/// Time by what it was lost to, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pie(pub BTreeMap<Limit, f64>);

impl Pie {
    pub fn add(&mut self, limit: Limit, ms: f64) {
        if ms > 0.0 {
            *self.0.entry(limit).or_default() += ms;
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        for (limit, ms) in &other.0 {
            self.add(*limit, *ms);
        }
    }

    /// Moves a share of one slice to another.
    pub fn shift(&mut self, from: Limit, to: Limit, share: f64) {
        let moved = self.0.get(&from).copied().unwrap_or_default() * share;
        if moved > 0.0 {
            self.add(from, 0.0);
            self.0.entry(from).and_modify(|ms| *ms -= moved);
            self.add(to, moved);
        }
    }

    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// Shares of the whole, the largest first.
    pub fn shares(&self) -> Vec<(Limit, f64)> {
        let total = self.total().max(1.0);
        let mut shares: Vec<_> = self
            .0
            .iter()
            .filter(|(_, ms)| **ms > 0.0)
            .map(|(limit, ms)| (*limit, ms / total))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// What the parsers do while streams wait for them, as shares of one.
#[derive(Debug, Clone, Copy)]
pub struct Upstream {
    source: f64,
    client: f64,
}

impl Upstream {
    pub fn of(parsers: &[ThreadTimes]) -> Self {
        let sum = |activity| {
            parsers.iter().fold(Spent::default(), |sum, parser| {
                let spent = parser.times.of(activity);
                Spent { ms: sum.ms + spent.ms, cpu_ms: sum.cpu_ms + spent.cpu_ms }
            })
        };
        let waited = |spent: Spent| spent.ms.saturating_sub(spent.cpu_ms) as f64;
        let (reading, parsing) = (sum(Activity::Reading), sum(Activity::Parsing));
        // Waiting for a processor is no waiting for a disk. Parsing waits for nothing else.
        let run_queue: u64 = parsers.iter().map(|parser| parser.run_queue_ms).sum();
        let beyond_parsing = (run_queue as f64 - waited(parsing)).max(0.0);
        let source = (waited(reading) - beyond_parsing).max(0.0);
        let reading_work = (reading.ms as f64 - source).max(0.0);
        // Who queues for a source waits for the one who reads it.
        let queueing = sum(Activity::Queueing).ms as f64;
        let read_share = source / (source + reading_work).max(1.0);
        let source = source + queueing * read_share;
        let client = reading_work + parsing.ms as f64 + queueing * (1.0 - read_share);
        let all = source + client;
        if all < 1.0 {
            // Nobody even began: the source is not there yet.
            return Self { source: 1.0, client: 0.0 };
        }
        Self { source: source / all, client: client / all }
    }
}

/// The time of one stream while it had work.
pub fn of_stream(stream: &ThreadTimes, upstream: Upstream, about: &Circumstances) -> Pie {
    let mut pie = Pie::default();
    let around = Around { upstream, about, loses_packets: loses_packets(stream) };
    for (activity, spent) in &stream.times.0 {
        if is_time_of_work(*activity) {
            let moments: Vec<&Moment> =
                stream.moments.iter().filter(|moment| moment.activity == *activity).collect();
            share_out(&mut pie, *activity, *spent, &moments, &around);
        }
    }
    pie
}

/// The time that streams spent on one table, as far as moments tell.
pub fn of_table(
    seen: &Observation,
    table: usize,
    upstream: Upstream,
    about: &Circumstances,
) -> Pie {
    let mut pie = Pie::default();
    for stream in &seen.streams {
        let around = Around { upstream, about, loses_packets: loses_packets(stream) };
        for (activity, spent) in &stream.times.0 {
            let of_activity = |moment: &&Moment| moment.activity == *activity;
            let all: u64 = stream.moments.iter().filter(of_activity).map(|m| m.count).sum();
            let moments: Vec<&Moment> =
                stream.moments.iter().filter(of_activity).filter(|m| m.table == table).collect();
            let share = moments.iter().map(|m| m.count).sum::<u64>() as f64 / all.max(1) as f64;
            let part = |ms: u64| (ms as f64 * share) as u64;
            let spent = Spent { ms: part(spent.ms), cpu_ms: part(spent.cpu_ms) };
            if is_time_of_work(*activity) {
                share_out(&mut pie, *activity, spent, &moments, &around);
            }
        }
    }
    pie
}

/// A stream that has nothing to do, or is told to hold still, loses no time to anything.
fn is_time_of_work(activity: Activity) -> bool {
    !matches!(activity, Activity::Idle | Activity::Held)
}

/// What decides where time goes beside the stream's own moments.
struct Around<'a> {
    upstream: Upstream,
    about: &'a Circumstances,
    loses_packets: bool,
}

/// Paths that lose more of their bytes are full, or bad. After a loss a connection is slow for many
/// round trips, so the whole window counts.
const RESENT_MIN: f64 = 0.001;

fn loses_packets(stream: &ThreadTimes) -> bool {
    stream.socket.is_some_and(|socket| {
        // A buffer that was too small most of the time would be too small without the losses as well.
        let has_room = socket.send_buffer_ms * 2 < socket.busy_ms;
        has_room && socket.resent_bytes as f64 > socket.sent_bytes as f64 * RESENT_MIN
    })
}

fn share_out(
    pie: &mut Pie,
    activity: Activity,
    spent: Spent,
    moments: &[&Moment],
    around: &Around<'_>,
) {
    let Around { upstream, about, loses_packets } = *around;
    let whole = match activity {
        Activity::Limited => Some(Limit::MaxRate),
        Activity::Indexing => Some(Limit::Indexes),
        _ => None,
    };
    if let Some(limit) = whole {
        pie.add(limit, spent.ms as f64);
        return;
    }
    // What it did itself, and what it was held up.
    pie.add(Limit::ClientCpu, spent.cpu_ms as f64);
    let held_up = spent.ms.saturating_sub(spent.cpu_ms) as f64;
    let asked = || moments.iter().filter_map(|m| Some((m.wait?, m.held, m.count)));
    let all: u64 = asked().map(|(_, _, count)| count).sum();
    let is_starved = activity == Activity::Starved;
    if all == 0 && !is_starved {
        // The server could not be asked: all that is known is that it is waited for.
        pie.add(Limit::DatabaseCpu, held_up);
        return;
    }
    let starve = |pie: &mut Pie, ms: f64| {
        pie.add(Limit::SourceDisk, ms * upstream.source);
        pie.add(Limit::ClientCpu, ms * upstream.client);
    };
    if all == 0 {
        starve(pie, held_up);
    }
    for (wait, held, count) in asked() {
        let ms = held_up * count as f64 / all as f64;
        let limit = match wait {
            // The backend has nothing to do either.
            WaitClass::Client if is_starved => {
                starve(pie, ms);
                continue;
            }
            WaitClass::Cpu | WaitClass::Other => Limit::DatabaseCpu,
            WaitClass::Wal => Limit::Wal,
            WaitClass::DataFile => Limit::DatabaseDisk,
            WaitClass::Extension => Limit::ExtensionLock,
            WaitClass::Lock => Limit::LockWait,
            // Without a network in between it is only a moment until somebody is woken.
            WaitClass::Client if about.server_is_here => Limit::ClientCpu,
            WaitClass::Client => on_the_way(activity, held, loses_packets),
        };
        pie.add(limit, ms);
    }
}

/// What holds a stream up whose backend waits for it, over a network.
fn on_the_way(activity: Activity, held: Option<Hold>, loses_packets: bool) -> Limit {
    match held {
        Some(Hold::SendBuffer | Hold::Path) if loses_packets => Limit::Congestion,
        Some(Hold::SendBuffer) => Limit::SendWindow,
        Some(Hold::ReceiveWindow) => Limit::ReceiveCap,
        Some(Hold::Path) => Limit::FlowCap,
        Some(Hold::Queue) | None => Limit::Congestion,
        // A question and its answer take a round trip, however little they are.
        Some(Hold::Nothing) if activity == Activity::Answering => Limit::FlowCap,
        // All has arrived: it is only a moment until somebody is woken.
        Some(Hold::Nothing) => Limit::ClientCpu,
    }
}
