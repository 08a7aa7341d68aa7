//! `--polite`: leaves the network to others, and takes what they leave.
//!
//! A queue in front of the slowest link shows in the round trip: what is more than the shortest one seen is waited in
//! it. As in LEDBAT (RFC 6817), the rate of all streams together grows while the queue is short and shrinks while it
//! is long; loss counts as a long queue. Flows that fill the queue, as cubic's and reno's do, therefore take the link.
//! An eighth of the highest rate is kept, so that the load ends some day; how much that is shows in its first two
//! seconds, which are not limited. The kernel paces the sockets, so that no block makes a queue by itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fullbore_record::observe::socket::SocketNow;

use crate::sink::Paced;

/// How often it looks, at least; on a longer way, once a round trip.
const LOOK: Duration = Duration::from_millis(100);
/// The queue that is aimed at: so much time, and so much of the round trip.
const QUEUE_US: f64 = 3_000.0;
const QUEUE_OF_TRIP: f64 = 0.05;
/// What the rate grows by at most in a look, and shrinks by.
const GROWS: f64 = 0.15;
const SHRINKS: f64 = 0.3;
/// A share of bytes sent again that is taken for a full queue.
const LOSS: f64 = 0.005;
/// Bytes a second not to go below.
const LEAST: f64 = 50e3;
/// How long the rate is not limited at first, and what stands for that.
const LEARNS: Duration = Duration::from_secs(2);
const UNLIMITED: f64 = 1e12;
/// What is kept of the highest rate.
const KEPT: f64 = 0.125;
/// A rate that is not used grows no further than so many times what is.
const UNUSED: f64 = 1.5;

/// Keeps the sockets' rate where their queue says until the round has ended.
pub fn watch(paced: &dyn Paced, has_ended: &dyn Fn() -> bool) {
    let mut manners = Manners::default();
    let mut last = Instant::now();
    while !has_ended() {
        let sockets: Vec<SocketNow> = paced.sockets().into_iter().map(|(_, now)| now).collect();
        // A thread that wakes late has more to count.
        let passed = last.elapsed();
        last = Instant::now();
        if let Some(rate) = manners.look(&sockets, passed) {
            paced.pace(Some((rate / sockets.len() as f64) as u64));
        }
        std::thread::park_timeout(LOOK.max(manners.trip()));
    }
    paced.pace(None);
}

/// The rate, out of what sockets say.
#[derive(Debug)]
struct Manners {
    rate: f64,
    highest: f64,
    /// The round trip without queues, in microseconds, the middle one of the sockets.
    shortest: f64,
    /// What each socket had sent, and sent again, by its number.
    before: BTreeMap<u64, (u64, u64)>,
    /// For how long it has looked.
    age: Duration,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            rate: UNLIMITED,
            highest: 0.0,
            shortest: f64::INFINITY,
            before: BTreeMap::new(),
            age: Duration::ZERO,
        }
    }
}

impl Manners {
    /// The round trip without queues.
    fn trip(&self) -> Duration {
        match self.shortest.is_finite() {
            true => Duration::from_secs_f64(self.shortest.min(1e6) / 1e6),
            false => Duration::ZERO,
        }
    }

    /// The rate of all sockets together from now on; none where there is none of the network.
    fn look(&mut self, sockets: &[SocketNow], passed: Duration) -> Option<f64> {
        let known = |socket: &&SocketNow| socket.rtt_us > 0 && socket.rtt_min_us > 0;
        // Each by itself: several paths are of different lengths.
        let queues = sockets.iter().filter(known).map(|s| s.rtt_us.saturating_sub(s.rtt_min_us));
        let queue = middle(queues)? as f64;
        self.shortest = middle(sockets.iter().filter(known).map(|s| s.rtt_min_us))? as f64;
        let (mut added, mut again) = (0, 0);
        for socket in sockets {
            let now = (socket.sent_bytes, socket.resent_bytes);
            let (sent, resent) = self.before.insert(socket.number, now).unwrap_or_default();
            added += now.0.saturating_sub(sent);
            again += now.1.saturating_sub(resent);
        }
        self.before.retain(|number, _| sockets.iter().any(|socket| socket.number == *number));
        let lost = again as f64 > added as f64 * LOSS;
        let used = added as f64 / passed.as_secs_f64().max(LOOK.as_secs_f64() / 2.0);
        self.highest = self.highest.max(used);
        self.age += passed;
        if self.age < LEARNS {
            return Some(self.rate);
        }

        let target = QUEUE_US + self.shortest * QUEUE_OF_TRIP;
        let off = (target - queue) / target;
        if lost || off < 0.0 {
            let too_long = if lost { 1.0 } else { (-off).min(1.0) };
            self.rate = self.rate.min(used.max(LEAST) * UNUSED) * (1.0 - SHRINKS * too_long);
        } else if self.rate < used * UNUSED {
            self.rate *= 1.0 + GROWS * off;
        }
        self.rate = self.rate.min(self.highest * UNUSED).max(self.highest * KEPT).max(LEAST);
        Some(self.rate)
    }
}

/// The middle one of some figures.
fn middle(figures: impl Iterator<Item = u64>) -> Option<u64> {
    let mut figures: Vec<u64> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link with a queue, and another flow that keeps the queue so long as it has a say.
    struct Link {
        capacity: f64,
        trip_us: f64,
        queued: f64,
        sent: f64,
    }

    impl Link {
        /// A tenth of a second: what we send at this rate beside others, and what sockets say then.
        fn pass(&mut self, rate: f64, others: f64) -> Vec<SocketNow> {
            let seconds = 0.1;
            let wanted = rate + others;
            self.queued =
                (self.queued + (wanted - self.capacity) * seconds).clamp(0.0, 0.05 * self.capacity);
            let share = if wanted > self.capacity { self.capacity / wanted } else { 1.0 };
            self.sent += rate * share * seconds;
            let queue_us = self.queued / self.capacity * 1e6;
            let socket = SocketNow {
                rtt_us: (self.trip_us + queue_us) as u64,
                rtt_min_us: self.trip_us as u64,
                sent_bytes: (self.sent / 4.0) as u64,
                ..SocketNow::default()
            };
            (1..=4).map(|number| SocketNow { number, ..socket }).collect()
        }
    }

    /// The mean rate of the second half of a minute.
    fn mean(trip_us: f64, others: impl Fn(&Link) -> f64) -> f64 {
        let mut link = Link { capacity: 12.5e6, trip_us, queued: 0.0, sent: 0.0 };
        let mut manners = Manners::default();
        let mut rate = UNLIMITED;
        let mut before = 0.0;
        for tick in 0..600 {
            if tick == 300 {
                before = link.sent;
            }
            let beside = others(&link);
            let sockets = link.pass(rate, beside);
            rate = manners.look(&sockets, LOOK).expect("sockets");
        }
        (link.sent - before) / 30.0
    }

    #[test]
    fn alone_it_takes_nearly_all() {
        for trip_us in [2_000.0, 40_000.0] {
            let rate = mean(trip_us, |_| 0.0);
            assert!(rate > 0.85 * 12.5e6, "{rate} at {trip_us} us");
        }
    }

    #[test]
    fn a_flow_that_fills_the_queue_has_the_link_and_some_is_kept() {
        // It sends whatever the queue takes.
        let rate =
            mean(2_000.0, |link| 12.5e6 + if link.queued < 0.04 * 12.5e6 { 2e6 } else { -2e6 });
        assert!(rate < 0.3 * 12.5e6, "{rate}");
        assert!(rate > 0.1 * 12.5e6, "{rate}");
    }

    #[test]
    fn without_a_network_there_are_no_manners() {
        assert_eq!(Manners::default().look(&[], LOOK), None);
        assert_eq!(Manners::default().look(&[SocketNow::default()], LOOK), None);
    }
}
