//! The delay line itself: packets in, packets out when their time has come. It knows no clock and no
//! device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct LineOptions {
    /// One way.
    pub delay: Duration,
    pub bytes_per_second: Option<f64>,
    pub queue_bytes: u64,
    pub loss: f64,
    pub seed: u64,
}

/// What a line has counted so far; another thread may look.
#[derive(Debug, Default)]
pub struct Counted {
    pub taken: AtomicU64,
    pub delivered: AtomicU64,
    /// No room in the queue before the link.
    pub dropped: AtomicU64,
    /// Lost on the way, as asked for.
    pub lost: AtomicU64,
    /// The path was cut.
    pub cut: AtomicU64,
    /// The other end's device did not take it: this must not happen.
    pub refused: AtomicU64,
    pub wire_bytes: AtomicU64,
    /// Time that its thread worked, and in all.
    pub busy_us: AtomicU64,
    pub wall_us: AtomicU64,
}

impl Counted {
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

/// What befalls a line while it stands.
#[derive(Debug, Default)]
pub struct Faults {
    /// All is lost.
    pub is_cut: AtomicBool,
    /// So many of the next packets with data are lost.
    pub to_lose: AtomicU64,
}

/// Shorter packets are acknowledgements, whose loss nobody notices.
const DATA_BYTES_MIN: u64 = 500;

impl Faults {
    fn takes_one(&self, wire_bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(1);
        wire_bytes >= DATA_BYTES_MIN
            && self.to_lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// One direction.
pub struct Line {
    options: LineOptions,
    counted: Arc<Counted>,
    faults: Arc<Faults>,
    /// When the link has sent all that it was given. All times are since one beginning.
    link_free: Duration,
    /// Sent or waiting to be sent: when it arrives, and what it is.
    under_way: VecDeque<(Duration, Vec<u8>)>,
    /// Waiting for the link: until when, and how long.
    queue: VecDeque<(Duration, u64)>,
    queued_bytes: u64,
    random: u64,
}

impl Line {
    pub fn new(options: LineOptions) -> Self {
        Self::with_faults(options, Arc::default())
    }

    /// A line with faults that come and go.
    pub fn with_faults(options: LineOptions, faults: Arc<Faults>) -> Self {
        Self {
            options,
            counted: Arc::default(),
            faults,
            link_free: Duration::ZERO,
            under_way: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            random: options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub fn counted(&self) -> Arc<Counted> {
        Arc::clone(&self.counted)
    }

    /// Whether large packets must come apart first, since each of their parts may be lost.
    pub fn wants_single_packets(&self) -> bool {
        self.options.loss > 0.0
    }

    /// Takes a packet, which is so long on the wire, or drops it.
    pub fn take(&mut self, now: Duration, packet: &[u8], wire_bytes: u64) {
        Counted::add(&self.counted.taken, 1);
        if self.faults.is_cut.load(Ordering::Relaxed) {
            // What was under way is lost, too.
            self.under_way.clear();
            return Counted::add(&self.counted.cut, 1);
        }
        while self.queue.front().is_some_and(|(until, _)| *until <= now) {
            self.queued_bytes -= self.queue.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        if self.queued_bytes + wire_bytes > self.options.queue_bytes {
            return Counted::add(&self.counted.dropped, 1);
        }
        if self.is_lost() || self.faults.takes_one(wire_bytes) {
            return Counted::add(&self.counted.lost, 1);
        }
        Counted::add(&self.counted.wire_bytes, wire_bytes);
        let begins = self.link_free.max(now);
        self.link_free = match self.options.bytes_per_second {
            Some(rate) => begins + Duration::from_secs_f64(wire_bytes as f64 / rate),
            None => begins,
        };
        if self.link_free > now {
            self.queue.push_back((self.link_free, wire_bytes));
            self.queued_bytes += wire_bytes;
        }
        self.under_way.push_back((self.link_free + self.options.delay, packet.to_vec()));
    }

    /// The next packet whose time has come.
    pub fn due(&mut self, now: Duration) -> Option<Vec<u8>> {
        let (at, _) = self.under_way.front()?;
        if *at <= now { self.under_way.pop_front().map(|(_, packet)| packet) } else { None }
    }

    /// When the next one will be due.
    pub fn next_due(&self) -> Option<Duration> {
        self.under_way.front().map(|(at, _)| *at)
    }

    fn is_lost(&mut self) -> bool {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let number = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (number as f64) < self.options.loss * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn line(rate: Option<f64>, queue_bytes: u64, loss: f64) -> Line {
        let options =
            LineOptions { delay: 45 * MS, bytes_per_second: rate, queue_bytes, loss, seed: 7 };
        Line::new(options)
    }

    #[test]
    fn a_packet_comes_after_the_delay() {
        let mut line = line(None, 1500, 0.0);
        line.take(MS, b"one", 1000);
        line.take(2 * MS, b"two", 1000);
        assert_eq!(line.due(45 * MS), None);
        assert_eq!(line.due(46 * MS), Some(b"one".to_vec()));
        assert_eq!(line.due(46 * MS), None);
        assert_eq!(line.next_due(), Some(47 * MS));
    }

    #[test]
    fn the_link_sends_one_after_the_other_and_its_queue_is_bounded() {
        // A packet of 1000 bytes takes a millisecond.
        let mut line = line(Some(1e6), 2500, 0.0);
        for name in [b"a", b"b", b"c"] {
            line.take(Duration::ZERO, name, 1000);
        }
        assert_eq!(Counted::get(&line.counted.dropped), 1, "a third does not fit");
        assert_eq!(line.next_due(), Some(46 * MS));
        // Once the first is sent there is room for another.
        line.take(MS, b"d", 1000);
        assert_eq!(Counted::get(&line.counted.dropped), 1);
        assert_eq!(line.due(100 * MS), Some(b"a".to_vec()));
        assert_eq!(line.due(100 * MS), Some(b"b".to_vec()));
        assert_eq!(line.next_due(), Some(48 * MS), "behind the second");
    }

    #[test]
    fn a_packet_is_lost_on_demand_and_all_of_a_line_that_is_cut() {
        let mut line = line(None, u64::MAX, 0.0);
        line.faults.to_lose.store(1, Ordering::Relaxed);
        for (name, bytes) in [(b"ack", 52), (b"one", 1500), (b"two", 1500)] {
            line.take(Duration::ZERO, name, bytes);
        }
        assert_eq!(line.due(50 * MS), Some(b"ack".to_vec()));
        assert_eq!(line.due(50 * MS), Some(b"two".to_vec()));
        line.take(60 * MS, b"three", 1500);
        line.faults.is_cut.store(true, Ordering::Relaxed);
        line.take(61 * MS, b"four", 1500);
        assert_eq!(line.due(200 * MS), None, "what was under way is lost, too");
        line.faults.is_cut.store(false, Ordering::Relaxed);
        line.take(200 * MS, b"five", 1500);
        assert_eq!(line.due(250 * MS), Some(b"five".to_vec()));
    }

    #[test]
    fn so_many_are_lost() {
        let mut line = line(None, u64::MAX, 0.01);
        for _ in 0..100_000 {
            line.take(Duration::ZERO, b"", 1);
        }
        let lost = Counted::get(&line.counted.lost);
        assert!((900..1100).contains(&lost), "{lost} of 100,000, seed 7");
    }
}
