//! Sums of what parts say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::event::{Phase, Verified};
use crate::observe::clock::Times;
use crate::observe::host::HostTimes;
use crate::observe::socket::SocketTimes;
use crate::observe::{Observation, ServerTimes, ThreadTimes};
use crate::summaries::{PlanSummary, RejectKind, RejectSummary};

/// Whom backends waited for is named, not listed without end.
const BLOCKERS_MAX: usize = 8;

/// Counters of the same place, earlier and later ones.
pub fn after(earlier: &Observation, later: Observation) -> Observation {
    let threads = |earlier: &[ThreadTimes], mut later: Vec<ThreadTimes>| {
        later.resize(later.len().max(earlier.len()), ThreadTimes::default());
        later.iter_mut().zip(earlier).for_each(|(now, before)| add_thread(now, before));
        later
    };
    let mut sum = Observation {
        streams: threads(&earlier.streams, later.streams),
        parsers: threads(&earlier.parsers, later.parsers),
        ..later
    };
    add_shared(&mut sum, earlier);
    sum
}

/// Adds another place to a whole: its threads are others.
pub fn join(whole: &mut Observation, mut place: Observation) {
    whole.streams.append(&mut place.streams);
    whole.parsers.append(&mut place.parsers);
    add_shared(whole, &place);
}

/// All but the threads.
fn add_shared(sum: &mut Observation, more: &Observation) {
    add_host(&mut sum.host, &more.host);
    // All look at the same server, whose counters only grow.
    sum.server = match (sum.server.take(), &more.server) {
        (Some(one), Some(other)) => Some(later_of(&one, other)),
        (one, other) => one.or_else(|| other.clone()),
    };
    for (name, count) in &more.waits {
        *sum.waits.entry(name.clone()).or_default() += count;
    }
    for blocker in &more.blockers {
        if !sum.blockers.contains(blocker) && sum.blockers.len() < BLOCKERS_MAX {
            sum.blockers.push(blocker.clone());
        }
    }
    sum.observing_ms += more.observing_ms;
}

fn add_thread(sum: &mut ThreadTimes, more: &ThreadTimes) {
    add_times(&mut sum.times, &more.times);
    sum.run_queue_ms += more.run_queue_ms;
    more.moments.iter().for_each(|moment| sum.note(moment.clone()));
    sum.backend_cpu_ms = match (sum.backend_cpu_ms, more.backend_cpu_ms) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    sum.socket = match (sum.socket, more.socket) {
        (Some(now), Some(before)) => Some(SocketTimes {
            busy_ms: now.busy_ms + before.busy_ms,
            receive_window_ms: now.receive_window_ms + before.receive_window_ms,
            send_buffer_ms: now.send_buffer_ms + before.send_buffer_ms,
            sent_bytes: now.sent_bytes + before.sent_bytes,
            resent_bytes: now.resent_bytes + before.resent_bytes,
            looks: now.looks + before.looks,
            rtt_sum_us: now.rtt_sum_us + before.rtt_sum_us,
            ..now
        }),
        (now, before) => now.or(before),
    };
}

fn add_times(sum: &mut Times, more: &Times) {
    for (activity, spent) in &more.0 {
        let own = sum.0.entry(*activity).or_default();
        own.ms += spent.ms;
        own.cpu_ms += spent.cpu_ms;
    }
}

fn add_host(sum: &mut HostTimes, more: &HostTimes) {
    sum.own_cpu_ms += more.own_cpu_ms;
    sum.idle_ms += more.idle_ms;
    sum.steal_ms += more.steal_ms;
    sum.all_ms += more.all_ms;
    sum.cpu_stall_us += more.cpu_stall_us;
    sum.io_stall_us += more.io_stall_us;
    sum.read_bytes += more.read_bytes;
    sum.throttled_ms += more.throttled_ms;
    sum.granted_ms += more.granted_ms;
}

fn later_of(one: &ServerTimes, other: &ServerTimes) -> ServerTimes {
    ServerTimes {
        wal_bytes: one.wal_bytes.max(other.wal_bytes),
        checkpoints_timed: one.checkpoints_timed.max(other.checkpoints_timed),
        checkpoints_requested: one.checkpoints_requested.max(other.checkpoints_requested),
        written_bytes: one.written_bytes.max(other.written_bytes),
        new_log_bytes: one.new_log_bytes.max(other.new_log_bytes),
        cpu_ms: one.cpu_ms.max(other.cpu_ms),
        watch_cpu_ms: one.watch_cpu_ms.max(other.watch_cpu_ms),
    }
}

/// One plan of several.
pub fn plan(plans: &[&PlanSummary]) -> Option<PlanSummary> {
    let mut sum = (*plans.first()?).clone();
    for more in &plans[1..] {
        for (table, other) in sum.tables.iter_mut().zip(&more.tables) {
            table.files += other.files;
            table.bytes = table.bytes.zip(other.bytes).map(|(one, other)| one + other);
            for note in &other.notes {
                if !table.notes.contains(note) {
                    table.notes.push(note.clone());
                }
            }
        }
        sum.cores += more.cores;
        sum.is_resumable &= more.is_resumable;
    }
    Some(sum)
}

pub fn rejects<'a>(
    parts: impl Iterator<Item = &'a RejectSummary>,
    files: Vec<PathBuf>,
) -> Option<RejectSummary> {
    let mut sum = RejectSummary { files, ..RejectSummary::default() };
    let mut has_any = false;
    for part in parts {
        has_any = true;
        sum.is_part |= part.is_part;
        for kind in &part.kinds {
            let alike = |known: &&mut RejectKind| {
                (&known.table, &known.column, &known.constraint, &known.code)
                    == (&kind.table, &kind.column, &kind.constraint, &kind.code)
            };
            match sum.kinds.iter_mut().find(alike) {
                Some(known) => known.count += kind.count,
                None => sum.kinds.push(kind.clone()),
            }
        }
    }
    sum.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    has_any.then_some(sum)
}

/// What was verified of all parts; of a part that was not, nothing is claimed.
pub fn verified<'a>(parts: impl Iterator<Item = Option<&'a Verified>>) -> Option<Verified> {
    let mut sum: Option<Verified> = None;
    for part in parts {
        let part = part?;
        let Some(sum) = &mut sum else {
            sum = Some(part.clone());
            continue;
        };
        sum.rows += part.rows;
        sum.pieces += part.pieces;
        sum.columns = sum.columns.min(part.columns);
        sum.sums = sum.sums.min(part.sums);
        sum.rows_kept_out += part.rows_kept_out;
        sum.violations += part.violations;
        sum.rows_counted += part.rows_counted;
        sum.rows_unchanged += part.rows_unchanged;
        let add = |all: &mut Vec<String>, more: &[String]| {
            more.iter().for_each(|words| {
                if !all.contains(words) {
                    all.push(words.clone());
                }
            });
        };
        add(&mut sum.not_covered, &part.not_covered);
        add(&mut sum.not_counted, &part.not_counted);
    }
    sum
}

/// Phases by name, each as long as in the part in which it took longest: they ran side by side.
pub fn phases<'a>(parts: impl Iterator<Item = &'a [Phase]>) -> Vec<Phase> {
    let (mut names, mut longest) = (Vec::new(), BTreeMap::<&str, f64>::new());
    for phase in parts.flatten() {
        if !longest.contains_key(phase.name.as_str()) {
            names.push(phase.name.as_str());
        }
        let known = longest.entry(&phase.name).or_default();
        *known = known.max(phase.seconds);
    }
    let phase = |name: &str| Phase { name: name.to_owned(), seconds: longest[name] };
    names.into_iter().map(phase).collect()
}
