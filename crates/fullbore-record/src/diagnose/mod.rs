//! Diagnosis: from what was seen of a run to what limited it. Pure functions; words and advice are made
//! elsewhere, with the settings in use.

mod advice;
mod attribution;
mod hosts;
mod limit;
mod phases;
mod processors;
mod stragglers;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observe::clock::Activity;
use crate::observe::socket::SocketTimes;
use crate::observe::{Observation, Settings, ThreadTimes};
pub use advice::{InUse, advise};
use attribution::{Pie, Upstream};
pub use hosts::{HostShare, name_slow};
pub use limit::Limit;
pub use phases::{PhaseShare, weigh};
use processors::refine;
pub use stragglers::{Straggler, stragglers};

/// A leader that leads by less is called `mixed`.
const LEAD_MIN: f64 = 0.10;

/// Less was seen too shortly for a verdict.
const STREAM_MS_MIN: f64 = 300.0;

/// What a verdict must know beside what was seen.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// The server shares this machine's processors, and there is no network in between.
    pub server_is_here: bool,
    pub tables: usize,
    /// All rows go by one session, which alone can fill a new table.
    pub has_one_session: bool,
}

impl Circumstances {
    /// By what was seen of the server, of a run with so many tables.
    pub fn of(settings: Option<&Settings>, tables: usize) -> Self {
        Self {
            server_is_here: settings.is_some_and(|settings| settings.is_here),
            has_one_session: settings.is_some_and(|settings| settings.has_one_session),
            tables,
        }
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    Low,
    Medium,
    High,
}

/// A cause and the share of stream time attributed to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub limit: Limit,
    pub share: f64,
}

/// What limited a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The bottleneck.
    pub limit: Limit,
    /// Its share of stream time, from 0 to 1; with `mixed`, that of the largest cause. Of what is done once rows are
    /// loaded, the share of the run's time.
    pub share: f64,
    /// The second largest cause; of what is done once rows are loaded, the bottleneck before.
    pub runner_up: Option<Limit>,
    /// How certain the verdict is.
    pub sure: Sureness,
    /// All causes, the largest first.
    pub shares: Vec<Share>,
    /// The parts of the run's time, the largest first; null before the run ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseShare>,
    /// The most that removing the bottleneck could bring: 2.3 means 2.3 times as fast.
    pub at_most_times: Option<f64>,
    /// The largest cause of each stream; null for a stream without work.
    #[serde(default)]
    pub streams: Vec<Option<Share>>,
    /// The largest cause of each table.
    #[serde(default)]
    pub tables: Vec<Option<Share>>,
    /// Pieces that took far longer than their peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stragglers: Vec<Straggler>,
    /// Each host of a load on several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// What the load did to the network; null without TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSeen>,
}

/// What a load did to the network that it went over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSeen {
    /// The mean round trip while rows were sent.
    pub rtt_ms: f64,
    /// The shortest one: without queues.
    pub rtt_min_ms: f64,
    /// The share of bytes that was sent again.
    pub resent: f64,
}

impl NetworkSeen {
    fn of(streams: &[ThreadTimes]) -> Option<Self> {
        let sockets = || streams.iter().filter_map(|stream| stream.socket);
        let sum =
            |of: fn(&SocketTimes) -> u64| sockets().map(|socket| of(&socket)).sum::<u64>() as f64;
        let looks = sum(|socket| socket.looks);
        let shortest = sockets().map(|socket| socket.rtt_min_us).filter(|trip| *trip > 0).min()?;
        (looks > 0.0).then(|| Self {
            rtt_ms: sum(|socket| socket.rtt_sum_us) / looks / 1e3,
            rtt_min_ms: shortest as f64 / 1e3,
            resent: sum(|socket| socket.resent_bytes) / sum(|socket| socket.sent_bytes).max(1.0),
        })
    }
}

/// What limited the run in a window of what was seen: a difference of two observations.
pub fn verdict(window: &Observation, about: &Circumstances) -> Verdict {
    let upstream = Upstream::of(&window.parsers);
    let worked: Vec<&ThreadTimes> =
        window.streams.iter().filter(|stream| work_ms(stream) > 0).collect();
    let mut pie = Pie::default();
    let held_ms = processors::held_ms(window);
    for stream in &worked {
        pie.add_all(&attribution::of_stream(stream, upstream, about));
        // It had nothing left while others still worked, and were not held.
        let held_idle_ms = held_ms.saturating_sub(stream.times.of(Activity::Held).ms);
        let idle_ms = stream.times.of(Activity::Idle).ms.saturating_sub(held_idle_ms);
        pie.add(Limit::LongTail, idle_ms as f64);
    }
    refine(&mut pie, window, about);
    let top = |pie: &Pie| {
        let first = pie.shares().first().copied();
        first.map(|(limit, share)| Share { limit, share })
    };
    let refined = |mut pie: Pie| {
        refine(&mut pie, window, about);
        top(&pie)
    };
    let streams = window
        .streams
        .iter()
        .map(|stream| refined(attribution::of_stream(stream, upstream, about)))
        .collect();
    let tables = (0..about.tables)
        .map(|table| refined(attribution::of_table(window, table, upstream, about)))
        .collect();
    let moments: u64 = worked.iter().flat_map(|s| &s.moments).map(|moment| moment.count).sum();
    let network = NetworkSeen::of(&window.streams);
    Verdict { streams, tables, network, ..judge(&pie, moments, is_asked(&worked)) }
}

/// Time in which a stream had a piece, and was let.
fn work_ms(stream: &ThreadTimes) -> u64 {
    let idle = stream.times.of(Activity::Idle).ms + stream.times.of(Activity::Held).ms;
    stream.times.total_ms().saturating_sub(idle)
}

fn is_asked(streams: &[&ThreadTimes]) -> bool {
    streams.iter().flat_map(|stream| &stream.moments).any(|moment| moment.wait.is_some())
}

/// Names the largest slice, or says that none leads.
fn judge(pie: &Pie, moments: u64, is_asked: bool) -> Verdict {
    let shares = pie.shares();
    let at = |n: usize| shares.get(n).copied();
    let (first, second) = (at(0), at(1));
    let lead = first.map_or(0.0, |(_, share)| share - second.map_or(0.0, |(_, share)| share));
    let limit = match first {
        _ if pie.total() < STREAM_MS_MIN => Limit::None,
        Some((limit, _)) if lead >= LEAD_MIN => limit,
        Some(_) => Limit::Mixed,
        None => Limit::None,
    };
    let share = first.map_or(0.0, |(_, share)| share);
    let sure = match limit {
        Limit::None | Limit::Mixed => Sureness::Low,
        _ if !is_asked => Sureness::Low,
        _ if lead >= 0.3 && moments >= 50 => Sureness::High,
        _ if moments >= 20 => Sureness::Medium,
        _ => Sureness::Low,
    };
    Verdict {
        limit,
        share,
        runner_up: match limit {
            // The two that share the lead.
            Limit::Mixed => first.map(|(limit, _)| limit),
            _ => second.map(|(limit, _)| limit),
        },
        sure,
        shares: shares
            .iter()
            .map(|(limit, share)| Share { limit: *limit, share: *share })
            .collect(),
        phases: Vec::new(),
        at_most_times: (limit != Limit::None && share < 1.0).then(|| 1.0 / (1.0 - share)),
        streams: Vec::new(),
        tables: Vec::new(),
        stragglers: Vec::new(),
        hosts: Vec::new(),
        network: None,
    }
}
