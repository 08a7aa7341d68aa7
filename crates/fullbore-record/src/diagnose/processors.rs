//! CPU use: saturated, idle, used by others, or limited by a quota.

use super::attribution::Pie;
use super::{Circumstances, Limit};
use crate::observe::clock::{Activity, Spent};
use crate::observe::{Observation, WaitClass};

/// Processors that idle for more of the time could have done more.
const IDLE_MIN: f64 = 0.20;

/// Others take part in the verdict from this share of all processors on.
const OTHERS_MIN: f64 = 0.20;

/// Work that gets a processor for less of its time is kept from it, however many idle: more streams
/// would not help it.
const ON_CPU_MIN: f64 = 0.75;

/// Quotas count from this share of the time on.
const WITHHELD_MIN: f64 = 0.05;

/// Tells these four from each other.
pub fn refine(pie: &mut Pie, window: &Observation, about: &Circumstances) {
    if window.host.all_ms == 0 {
        return;
    }
    free_or_taken(pie, window, about);
    // While a quota holds this process back its streams wait for nothing else, and its observer sees
    // nothing: what it does see are the moments after.
    let withheld = withheld(window);
    if withheld > WITHHELD_MIN {
        let causes: Vec<Limit> = pie.0.keys().copied().collect();
        for cause in causes {
            if !matches!(cause, Limit::ClientCpu | Limit::LongTail) {
                pie.shift(cause, Limit::ClientCpu, withheld);
            }
        }
    }
}

/// The part of the time for which a quota held this process back, and of the CPU that it wanted, the
/// smaller one: it is no matter where little was wanted.
fn withheld(window: &Observation) -> f64 {
    let throttled = window.host.throttled_ms as f64;
    let wall = window.streams.iter().map(|stream| stream.times.total_ms()).max().unwrap_or(0);
    let wanted = throttled + window.host.own_cpu_ms as f64;
    (throttled / (wall as f64).max(1.0)).min(throttled / wanted.max(1.0))
}

/// Processors that nobody uses make it too few streams, those that others use a neighbour.
fn free_or_taken(pie: &mut Pie, window: &Observation, about: &Circumstances) {
    let host = &window.host;
    // While the run was held, it was no wonder that processors were idle.
    let held = held(window);
    let all = (host.all_ms as f64 * (1.0 - held)).max(1.0);
    let idle_ms = (host.idle_ms as f64 - held * host.all_ms as f64).max(0.0);
    let (client, database) = (Limit::ClientCpu, Limit::DatabaseCpu);
    let idle = idle_ms / all;
    // Processors that this process may not use are not free for it.
    let own_idle = match host.granted_ms as f64 * (1.0 - held) {
        ..1.0 => idle,
        granted => idle.min(1.0 - host.own_cpu_ms as f64 / granted),
    };
    // One limit here is often another's free processor there: only where both share it, or it is ours.
    if idle > IDLE_MIN {
        if own_idle > IDLE_MIN && client_on_cpu(window).is_none_or(|part| part > ON_CPU_MIN) {
            pie.shift(client, Limit::TooFewStreams, 1.0);
        }
        if about.server_is_here && database_on_cpu(window).is_none_or(|part| part > ON_CPU_MIN) {
            // No other one could help it.
            let lacking = match about.has_one_session {
                true => Limit::OneSession,
                false => Limit::TooFewStreams,
            };
            pie.shift(database, lacking, 1.0);
        }
        return;
    }
    let server = match &window.server {
        Some(server) if about.server_is_here => {
            let backends = window.streams.iter().filter_map(|stream| stream.backend_cpu_ms);
            (server.cpu_ms + server.watch_cpu_ms + backends.sum::<u64>()) as f64
        }
        _ => 0.0,
    };
    let busy = all - idle_ms;
    let others = (busy - host.own_cpu_ms as f64 - server).max(0.0);
    if others / all > OTHERS_MIN {
        let share = others / busy.max(1.0);
        pie.shift(client, Limit::Neighbour, share);
        if about.server_is_here {
            pie.shift(database, Limit::Neighbour, share);
        }
    }
}

/// How long the run was held: a pause holds all of it, but a stream without a piece has nothing that could
/// be held, and counts itself idle meanwhile.
pub fn held_ms(window: &Observation) -> u64 {
    window.streams.iter().map(|stream| stream.times.of(Activity::Held).ms).max().unwrap_or(0)
}

/// The part of the time for which the run was held.
fn held(window: &Observation) -> f64 {
    let wall = window.streams.iter().map(|stream| stream.times.total_ms()).max().unwrap_or(0);
    (held_ms(window) as f64 / (wall as f64).max(1.0)).min(1.0)
}

/// How much of their time for parsing the parsers had a processor.
fn client_on_cpu(window: &Observation) -> Option<f64> {
    let parsing = window.parsers.iter().fold(Spent::default(), |sum, parser| {
        let spent = parser.times.of(Activity::Parsing);
        Spent { ms: sum.ms + spent.ms, cpu_ms: sum.cpu_ms + spent.cpu_ms }
    });
    (parsing.ms > 0).then(|| parsing.cpu_ms as f64 / parsing.ms as f64)
}

/// How much of the time in which they waited for nothing the streams' backends had a processor.
fn database_on_cpu(window: &Observation) -> Option<f64> {
    let mut cpu: Option<f64> = None;
    let mut worked = 0.0;
    for stream in &window.streams {
        let Some(backend) = stream.backend_cpu_ms else { continue };
        cpu = Some(cpu.unwrap_or_default() + backend as f64);
        for (activity, spent) in &stream.times.0 {
            let asked: Vec<_> = stream
                .moments
                .iter()
                .filter(|moment| moment.activity == *activity && moment.wait.is_some())
                .collect();
            let all: u64 = asked.iter().map(|moment| moment.count).sum();
            let at_work: u64 = asked
                .iter()
                .filter(|moment| moment.wait == Some(WaitClass::Cpu))
                .map(|moment| moment.count)
                .sum();
            worked += spent.ms as f64 * at_work as f64 / all.max(1) as f64;
        }
    }
    cpu.filter(|_| worked > 0.0).map(|cpu| cpu / worked)
}
