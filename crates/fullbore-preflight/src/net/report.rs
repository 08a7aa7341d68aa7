//! What a network measurement found, as data that becomes JSON.

use serde::Serialize;

use super::advice::Advice;
use super::limit::{Limit, Signals};
use super::message::{Received, Side, StreamReceived};
use super::predict::Cap;
use super::send::Sent;
use crate::steady::steady;

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub address: String,
    pub client: Side,
    pub listener: Side,
    /// Smallest round trip of an idle connection.
    pub rtt_us: f64,
    /// How much of a receive buffer is offered as a window on this path.
    pub receive_share: f64,
    pub caps: Vec<Cap>,
    pub cells: Vec<Cell>,
    /// Index of the cell with the fewest streams that reaches nearly the best rate.
    pub knee: Option<usize>,
    pub need: Option<Need>,
    pub advice: Vec<Advice>,
}

/// What a target rate takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    pub target_bytes_per_second: f64,
    /// By the cap of one stream.
    pub streams_by_cap: Option<u64>,
    /// By what one stream did when measured.
    pub streams_by_rate: Option<u64>,
    /// Whether any setting reached the target.
    pub reached: bool,
}

/// One setting, and what it gave.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub streams: usize,
    pub window_bytes: Option<usize>,
    pub message_bytes: usize,
    /// In effect.
    pub congestion: String,
    pub ramp_seconds: f64,
    pub ramp_bytes_per_second: f64,
    pub steady_seconds: f64,
    /// Of all streams together, in the steady part, as received.
    pub bytes_per_second: f64,
    pub predicted_stream_bytes_per_second: Option<f64>,
    /// What loss alone would allow one stream with a loss-based congestion control.
    pub loss_cap_bytes_per_second: Option<f64>,
    pub send_cpu_seconds_per_gigabyte: f64,
    pub receive_cpu_seconds_per_gigabyte: f64,
    /// Of most streams.
    pub limit: Limit,
    pub each: Vec<Stream>,
    pub interval_seconds: f64,
    /// Bytes received since the beginning, at the end of each interval.
    pub totals: Vec<u64>,
}

/// One stream, in the steady part.
#[derive(Debug, Clone, Serialize)]
pub struct Stream {
    pub bytes: u64,
    pub bytes_per_second: f64,
    /// When its last byte arrived.
    pub ended_seconds: f64,
    pub rtt_us: f64,
    pub rtt_min_us: f64,
    pub path_mtu: u32,
    pub mss_bytes: u32,
    /// Most that was on its way at once.
    pub window_used_bytes: u64,
    pub congestion_window_bytes: u64,
    /// Largest window that the other side offered, as the sender saw it.
    pub offered_window_bytes: u64,
    pub send_buffer_bytes: u64,
    pub receive_buffer_bytes: u64,
    /// Largest window that the receiver's own kernel tells of; 0 where it does not.
    pub receive_window_bytes: u64,
    pub limit: Limit,
    pub signals: Signals,
}

/// One stream out of what both ends saw of it.
pub fn stream(sent: &Sent, received: &StreamReceived, whole: &Received) -> Stream {
    let from = whole.steady_from.min(sent.samples.len());
    let steady_seconds = (whole.totals.len() - whole.steady_from) as f64 * whole.interval_seconds;
    let all_seconds = whole.totals.len() as f64 * whole.interval_seconds;
    let last = sent.samples.last();
    let first = from.checked_sub(1).and_then(|at| sent.samples.get(at));
    let difference = |count: fn(&fullbore_pgwire::tcp_info::TcpInfo) -> u64| {
        let before = first.map_or(0, count);
        last.map_or(0, count).saturating_sub(before) as f64
    };
    let part = sent.samples.get(from..).filter(|part| !part.is_empty()).unwrap_or(&sent.samples);
    let most =
        |of: fn(&fullbore_pgwire::tcp_info::TcpInfo) -> u64| part.iter().map(of).max().unwrap_or(0);
    let mean_rtt =
        part.iter().map(|info| f64::from(info.rtt)).sum::<f64>() / part.len().max(1) as f64;
    let rtt_min = last.map_or(0.0, |info| f64::from(info.min_rtt));
    let busy = difference(|info| info.busy_time).max(1.0);
    let receive_window_share = (difference(|info| info.rwnd_limited) / busy).min(1.0);
    let send_buffer_share = (difference(|info| info.sndbuf_limited) / busy).min(1.0);
    let window_used = most(|info| u64::from(info.unacked) * u64::from(info.snd_mss));
    let signals = Signals {
        path_share: (1.0 - receive_window_share - send_buffer_share).max(0.0),
        receive_window_share,
        send_buffer_share,
        send_buffer_used: window_used as f64 / sent.send_buffer_bytes.max(1) as f64,
        retransmitted_share: difference(|info| info.bytes_retrans)
            / difference(|info| info.bytes_sent).max(1.0),
        queueing: if rtt_min > 0.0 { mean_rtt / rtt_min } else { 1.0 },
        queue_us: if rtt_min > 0.0 { (mean_rtt - rtt_min).max(0.0) } else { 0.0 },
        receive_queue_share: received.queue_share,
        send_cpu: sent.cpu_seconds / all_seconds.max(1e-9),
        receive_cpu: received.cpu_seconds / all_seconds.max(1e-9),
    };
    Stream {
        bytes: received.bytes,
        bytes_per_second: received.steady_bytes as f64 / steady_seconds.max(1e-9),
        ended_seconds: received.ended_seconds,
        rtt_us: mean_rtt,
        rtt_min_us: rtt_min,
        path_mtu: last.map_or(0, |info| info.pmtu),
        mss_bytes: last.map_or(0, |info| info.snd_mss),
        window_used_bytes: window_used,
        congestion_window_bytes: most(|info| u64::from(info.snd_cwnd) * u64::from(info.snd_mss)),
        offered_window_bytes: most(|info| info.snd_wnd.into()),
        send_buffer_bytes: sent.send_buffer_bytes,
        receive_buffer_bytes: received.buffer_bytes,
        receive_window_bytes: received.window_bytes,
        limit: super::limit::limit(&signals),
        signals,
    }
}

/// Ramp and steady part of the sum.
pub fn parts(received: &Received) -> (f64, f64, f64, f64) {
    let cut = steady(&received.totals, received.interval_seconds);
    let ramp = if cut.ramp_seconds > 0.0 { cut.ramp_bytes as f64 / cut.ramp_seconds } else { 0.0 };
    (cut.ramp_seconds, ramp, cut.seconds, cut.bytes_per_second())
}

/// What holds back most of the streams.
pub fn common(streams: &[Stream]) -> Limit {
    let count = |limit| streams.iter().filter(|stream| stream.limit == limit).count();
    streams
        .iter()
        .map(|stream| stream.limit)
        .max_by_key(|limit| count(*limit))
        .unwrap_or(Limit::None)
}
