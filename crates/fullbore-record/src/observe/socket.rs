//! What stands in the way of a stream's bytes, from two looks at its TCP socket. Pure.
//!
//! The kernel counts how long it had data to send, and how long of that time the receiver's window or its
//! own buffer was the limit; the rest is due to the path: congestion window, pacing, recovery. It
//! undercounts full buffers, since a writer is woken long before the buffer is empty. So the bytes in the
//! buffer are checked too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A socket at one moment. Times and bytes are counted since it was first looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketNow {
    /// Tells it from the sockets that the stream had before.
    pub number: u64,
    pub busy_us: u64,
    pub receive_window_us: u64,
    pub send_buffer_us: u64,
    pub sent_bytes: u64,
    pub resent_bytes: u64,
    pub rtt_us: u64,
    pub rtt_min_us: u64,
    /// Sent and not confirmed; written and not sent yet.
    pub in_flight_bytes: u64,
    pub unsent_bytes: u64,
    /// What the receiver has room for; 0 where the kernel does not say.
    pub window_bytes: u64,
    pub segment_bytes: u64,
}

/// What holds the bytes of a socket.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Nothing is under way.
    Nothing,
    SendBuffer,
    ReceiveWindow,
    /// The path, which loses packets or lets them queue.
    Queue,
    /// The path, without either.
    Path,
}

/// A socket's counters as they are recorded: sums over all sockets that a stream has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketTimes {
    pub busy_ms: u64,
    pub receive_window_ms: u64,
    pub send_buffer_ms: u64,
    pub sent_bytes: u64,
    pub resent_bytes: u64,
    /// The round trip when last looked at, and the shortest one seen.
    pub rtt_us: u64,
    pub rtt_min_us: u64,
    /// Looks while bytes were under way, and the sum of the round trips then.
    #[serde(default)]
    pub looks: u64,
    #[serde(default)]
    pub rtt_sum_us: u64,
}

impl SocketTimes {
    /// What was added since an earlier look; round trips are the later look's.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms),
            receive_window_ms: self.receive_window_ms.saturating_sub(earlier.receive_window_ms),
            send_buffer_ms: self.send_buffer_ms.saturating_sub(earlier.send_buffer_ms),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            resent_bytes: self.resent_bytes.saturating_sub(earlier.resent_bytes),
            looks: self.looks.saturating_sub(earlier.looks),
            rtt_sum_us: self.rtt_sum_us.saturating_sub(earlier.rtt_sum_us),
            ..*self
        }
    }
}

/// The part of an interval from which on the kernel's own count decides.
const COUNTED_MIN: f64 = 0.5;
/// A buffer with less than this part of what is on its way still unsent was too small for the path.
const UNSENT_MAX: f64 = 0.125;
/// From this part of the window on it is the window that ends what is on its way.
const WINDOW_MIN: f64 = 0.9;
/// A path that loses more, or whose round trip is so much longer than its shortest, is full.
const RESENT_MIN: f64 = 0.001;
const QUEUEING_MIN: f64 = 1.5;
/// Below this a longer round trip is a host that was busy, not a queue in the network.
const QUEUE_MIN_US: f64 = 1_000.0;

/// Whether a path loses packets or lets them queue: by the part of the bytes that was sent again, and by
/// the round trip against the shortest one, as a ratio and by how much it is longer. A probe of the
/// network asks the same of its streams.
pub fn is_full(resent_share: f64, queueing: f64, queue_us: f64) -> bool {
    resent_share > RESENT_MIN || (queueing > QUEUEING_MIN && queue_us > QUEUE_MIN_US)
}

/// A socket that is looked at again and again.
#[derive(Debug, Default)]
pub struct SocketSeen {
    last: Option<SocketNow>,
    /// Of sockets that the stream had before.
    ended: SocketTimes,
    looks: u64,
    rtt_sum_us: u64,
}

impl SocketSeen {
    /// One that goes on counting from where another ended.
    pub fn after(ended: SocketTimes) -> Self {
        Self { last: None, looks: ended.looks, rtt_sum_us: ended.rtt_sum_us, ended }
    }

    /// Takes the next look; what holds the socket's bytes, judged by the time since the last one.
    pub fn look(&mut self, now: SocketNow) -> Hold {
        // Another connection counts from nothing.
        let is_another = self.last.is_some_and(|last| now.number != last.number);
        if is_another {
            self.ended = self.times();
            self.last = None;
        }
        let hold = hold(&self.last.unwrap_or_default(), &now);
        self.last = Some(now);
        if hold != Hold::Nothing {
            self.looks += 1;
            self.rtt_sum_us += now.rtt_us;
        }
        hold
    }

    pub fn times(&self) -> SocketTimes {
        let now = self.last.unwrap_or_default();
        let ended = &self.ended;
        SocketTimes {
            busy_ms: ended.busy_ms + now.busy_us / 1000,
            receive_window_ms: ended.receive_window_ms + now.receive_window_us / 1000,
            send_buffer_ms: ended.send_buffer_ms + now.send_buffer_us / 1000,
            sent_bytes: ended.sent_bytes + now.sent_bytes,
            resent_bytes: ended.resent_bytes + now.resent_bytes,
            rtt_us: now.rtt_us,
            rtt_min_us: now.rtt_min_us,
            looks: self.looks,
            rtt_sum_us: self.rtt_sum_us,
        }
    }
}

/// What holds the bytes of a socket, of which there was an earlier look.
pub fn hold(earlier: &SocketNow, now: &SocketNow) -> Hold {
    let added = |of: fn(&SocketNow) -> u64| of(now).saturating_sub(of(earlier)) as f64;
    if now.in_flight_bytes + now.unsent_bytes == 0 {
        return Hold::Nothing;
    }
    let busy = added(|s| s.busy_us).max(1.0);
    let is_counted = |us: f64| us > busy * COUNTED_MIN;
    let window = now.window_bytes as f64;
    let is_window_full = now.unsent_bytes > 0
        && window > 0.0
        && (now.in_flight_bytes + now.segment_bytes) as f64 >= window * WINDOW_MIN;
    if is_counted(added(|s| s.receive_window_us)) || is_window_full {
        return Hold::ReceiveWindow;
    }
    // 0 bytes of 0 are no number, and above no threshold.
    let resent_share = added(|s| s.resent_bytes) / added(|s| s.sent_bytes);
    let queueing = now.rtt_us as f64 / now.rtt_min_us as f64;
    if is_full(resent_share, queueing, now.rtt_us.saturating_sub(now.rtt_min_us) as f64) {
        return Hold::Queue;
    }
    let all_is_sent = (now.unsent_bytes as f64) < now.in_flight_bytes as f64 * UNSENT_MAX;
    if is_counted(added(|s| s.send_buffer_us)) || all_is_sent {
        return Hold::SendBuffer;
    }
    Hold::Path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of a second over 90 ms, the congestion window in the way.
    const PATH: SocketNow = SocketNow {
        number: 1,
        busy_us: 100_000,
        receive_window_us: 0,
        send_buffer_us: 0,
        sent_bytes: 1_000_000,
        resent_bytes: 0,
        rtt_us: 91_000,
        rtt_min_us: 90_000,
        in_flight_bytes: 900_000,
        unsent_bytes: 900_000,
        window_bytes: 6_000_000,
        segment_bytes: 1448,
    };

    #[test]
    fn each_sign_has_its_name() {
        let cases = [
            (PATH, Hold::Path),
            (SocketNow { in_flight_bytes: 0, unsent_bytes: 0, ..PATH }, Hold::Nothing),
            (SocketNow { receive_window_us: 80_000, ..PATH }, Hold::ReceiveWindow),
            (SocketNow { window_bytes: 901_000, ..PATH }, Hold::ReceiveWindow),
            (SocketNow { send_buffer_us: 80_000, ..PATH }, Hold::SendBuffer),
            (SocketNow { unsent_bytes: 10_000, ..PATH }, Hold::SendBuffer),
            (SocketNow { resent_bytes: 3_000, ..PATH }, Hold::Queue),
            (SocketNow { rtt_us: 180_000, ..PATH }, Hold::Queue),
            // A full link is full, whatever its queue makes of the buffer.
            (SocketNow { rtt_us: 180_000, unsent_bytes: 0, ..PATH }, Hold::Queue),
            // Microseconds on a local network.
            (SocketNow { rtt_us: 900, rtt_min_us: 50, ..PATH }, Hold::Path),
        ];
        for (now, expected) in cases {
            assert_eq!(hold(&SocketNow::default(), &now), expected, "{now:?}");
        }
    }

    #[test]
    fn only_the_time_since_the_last_look_counts_and_sockets_add_up() {
        let mut seen = SocketSeen::default();
        assert_eq!(seen.look(SocketNow { resent_bytes: 50_000, ..PATH }), Hold::Queue);
        let later = SocketNow { busy_us: 200_000, sent_bytes: 2_000_000, ..PATH };
        assert_eq!(seen.look(SocketNow { resent_bytes: 50_000, ..later }), Hold::Path);
        let before = seen.times();
        // The connection was lost, and another one took its place.
        assert_eq!(seen.look(SocketNow { number: 2, busy_us: 50_000, ..PATH }), Hold::Path);
        let times = seen.times();
        assert_eq!((times.busy_ms, times.sent_bytes, times.resent_bytes), (250, 3_000_000, 50_000));
        let added = times.since(&before);
        assert_eq!((added.busy_ms, added.sent_bytes, added.rtt_us), (50, 1_000_000, 91_000));
    }
}
