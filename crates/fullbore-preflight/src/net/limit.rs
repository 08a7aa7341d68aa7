//! The bottleneck of a stream, from the kernel counters of both ends. A pure function.

use fullbore_record::observe::socket::is_full;
use serde::Serialize;

/// Named as a run's verdict names it, but for the two that point on to another machine or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The sender's buffer is too small for the path.
    SendWindow,
    /// The receiver's window is too small for the path.
    ReceiveCap,
    /// The receiver does not read as fast as it could come.
    SlowReceiver,
    /// The link is full, or loses packets.
    Congestion,
    /// The path takes no more of one stream, without loss or queues: more streams may.
    FlowCap,
    /// The sending thread has no more of its core.
    ClientCpu,
    /// Nothing of all this for most of the time.
    None,
}

/// What was counted of one stream in its steady part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Signals {
    /// Shares of the time in which there was something to send.
    pub path_share: f64,
    pub receive_window_share: f64,
    pub send_buffer_share: f64,
    /// What was on its way at the most, against the send buffer: kernels don't count all of the time
    /// for which a full one was in the way.
    pub send_buffer_used: f64,
    /// Share of bytes that were sent again.
    pub retransmitted_share: f64,
    /// Round trip now against the smallest one seen, and by how much it is longer.
    pub queueing: f64,
    pub queue_us: f64,
    /// How full the receiver's queue was.
    pub receive_queue_share: f64,
    /// Cores' worth of CPU of the two threads.
    pub send_cpu: f64,
    pub receive_cpu: f64,
}

const LIMITED: f64 = 0.2;
const PATH: f64 = 0.6;
const CPU: f64 = 0.8;
const QUEUE_FULL: f64 = 0.2;
const BUFFER_FULL: f64 = 0.9;

/// Downstream first: what stands in the way there makes all before it look slow.
pub fn limit(signals: &Signals) -> Limit {
    let Signals { path_share, receive_window_share, send_buffer_share, .. } = *signals;
    if signals.receive_cpu > CPU {
        return Limit::SlowReceiver;
    }
    if receive_window_share > LIMITED {
        let full = signals.receive_queue_share > QUEUE_FULL;
        return if full { Limit::SlowReceiver } else { Limit::ReceiveCap };
    }
    if signals.send_cpu > CPU {
        return Limit::ClientCpu;
    }
    // A queue on the path grows until something stops it, be it loss or the send buffer.
    if is_full(signals.retransmitted_share, signals.queueing, signals.queue_us) {
        return Limit::Congestion;
    }
    if send_buffer_share > LIMITED || signals.send_buffer_used > BUFFER_FULL {
        return Limit::SendWindow;
    }
    if path_share > PATH { Limit::FlowCap } else { Limit::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_has_its_name() {
        let quiet = Signals { path_share: 0.5, queueing: 1.0, ..Signals::default() };
        let queued = Signals { queueing: 3.0, queue_us: 20e3, ..quiet };
        let cases = [
            (quiet, Limit::None),
            (Signals { path_share: 0.9, ..quiet }, Limit::FlowCap),
            (Signals { path_share: 0.9, retransmitted_share: 0.01, ..quiet }, Limit::Congestion),
            (Signals { path_share: 0.9, ..queued }, Limit::Congestion),
            // Microseconds on a loopback device.
            (Signals { path_share: 0.9, queueing: 30.0, queue_us: 90.0, ..quiet }, Limit::FlowCap),
            (Signals { send_buffer_share: 0.6, ..queued }, Limit::Congestion),
            (Signals { send_buffer_share: 0.6, ..quiet }, Limit::SendWindow),
            (Signals { path_share: 0.9, send_buffer_used: 0.99, ..quiet }, Limit::SendWindow),
            (Signals { receive_window_share: 0.6, ..quiet }, Limit::ReceiveCap),
            (
                Signals { receive_window_share: 0.6, receive_queue_share: 0.9, ..quiet },
                Limit::SlowReceiver,
            ),
            (Signals { receive_cpu: 0.95, send_cpu: 0.95, ..quiet }, Limit::SlowReceiver),
            (Signals { send_cpu: 0.95, ..queued }, Limit::ClientCpu),
        ];
        for (signals, expected) in cases {
            assert_eq!(limit(&signals), expected, "{signals:?}");
        }
    }
}
