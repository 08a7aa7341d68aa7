//! What one stream can do at most, from round trip and windows alone, and how many streams a rate
//! needs.

use serde::Serialize;

use super::kernel::{number, numbers};
use super::message::Side;

/// Which window is the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CapSide {
    SendBuffer,
    ReceiveWindow,
}

/// The most that one stream can carry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cap {
    /// The window that was asked for; `None`: the kernel's own.
    pub asked_window_bytes: Option<usize>,
    /// Bytes that can be on their way.
    pub window_bytes: u64,
    pub side: CapSide,
    pub bytes_per_second: f64,
}

/// Share of a full send buffer that is on its way in the mean: who waits for room in it is woken only
/// when a third is free, and the kernel's own bytes about each packet count. (Measured over the WAN lab: 0.67
/// to 0.77 at round trips of 20 to 180 ms, frames of 1500 and of 9000, windows of the kernel's and ours.)
const SEND_SHARE: f64 = 0.7;

/// The largest window that the two kernels let one stream have; `None` where they don't tell.
/// `receive_share`: how much of a receive buffer was offered as a window on this path.
pub fn cap(
    sender: &Side,
    receiver: &Side,
    asked: Option<usize>,
    rtt_seconds: f64,
    receive_share: f64,
) -> Option<Cap> {
    let send = SEND_SHARE * buffer(sender, "net.core.wmem_max", "net.ipv4.tcp_wmem", asked)? as f64;
    let receive =
        receive_share * buffer(receiver, "net.core.rmem_max", "net.ipv4.tcp_rmem", asked)? as f64;
    let (window, side) = if send <= receive {
        (send, CapSide::SendBuffer)
    } else {
        (receive, CapSide::ReceiveWindow)
    };
    Some(Cap {
        asked_window_bytes: asked,
        window_bytes: window as u64,
        side,
        bytes_per_second: window / rtt_seconds.max(1e-6),
    })
}

/// A buffer as the kernel will have it: twice what a program asks for, within a limit; or what it
/// grows to by itself.
fn buffer(side: &Side, limit: &str, own: &str, asked: Option<usize>) -> Option<u64> {
    match asked {
        Some(asked) => Some(2 * (asked as u64).min(number(side, limit)?)),
        None => numbers(side, own)?.get(2).copied(),
    }
}

/// Share of a receive buffer that is offered as a window, as the setting has it. Newer kernels find
/// it out from the packets that come, so it is only what to begin with.
pub fn receive_share(side: &Side) -> f64 {
    match number_of(side, "net.ipv4.tcp_adv_win_scale") {
        Some(scale @ 1..=16) => 1.0 - 0.5_f64.powi(scale),
        Some(scale @ -16..=0) => 0.5_f64.powi(-scale),
        _ => 0.5,
    }
}

fn number_of(side: &Side, setting: &str) -> Option<i32> {
    side.settings.get(setting)?.parse().ok()
}

/// What a loss-based congestion control reaches with this share of packets lost (Mathis and others,
/// 1997).
pub fn mathis(mss_bytes: u64, rtt_seconds: f64, loss: f64) -> Option<f64> {
    (loss > 0.0 && rtt_seconds > 0.0)
        .then(|| mss_bytes as f64 / rtt_seconds * (1.5_f64).sqrt() / loss.sqrt())
}

/// Streams of this rate that a target needs.
pub fn streams_for(target: f64, each: f64) -> Option<u64> {
    (each > 0.0 && target > 0.0).then(|| (target / each).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(wmem: &str, rmem: &str) -> Side {
        let settings = [
            ("net.core.wmem_max", "212992"),
            ("net.core.rmem_max", "212992"),
            ("net.ipv4.tcp_wmem", wmem),
            ("net.ipv4.tcp_rmem", rmem),
            ("net.ipv4.tcp_adv_win_scale", "1"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Side { settings, ..Side::default() }
    }

    #[test]
    fn the_smaller_window_decides() {
        let sender = side("4096\t16384\t4194304", "4096\t131072\t4194304");
        let found = cap(&sender, &sender, None, 0.18, receive_share(&sender)).expect("told");
        assert_eq!(found.side, CapSide::ReceiveWindow);
        assert_eq!(found.window_bytes, 2_097_152);
        assert!((found.bytes_per_second - 2_097_152.0 / 0.18).abs() < 1.0);
        let receiver = side("4096\t16384\t4194304", "4096\t131072\t33554432");
        let found = cap(&sender, &receiver, None, 0.18, 0.5).expect("told");
        assert_eq!(found.side, CapSide::SendBuffer);
    }

    #[test]
    fn what_is_asked_for_is_doubled_and_limited() {
        let both = side("4096\t16384\t4194304", "4096\t131072\t33554432");
        let window = |asked| cap(&both, &both, Some(asked), 0.1, 0.5).expect("told").window_bytes;
        assert_eq!(window(65536), 65536);
        assert_eq!(window(1 << 30), 212_992, "the limit of net.core.*mem_max");
        assert_eq!(cap(&Side::default(), &both, None, 0.1, 0.5), None, "a side that does not tell");
    }

    #[test]
    fn loss_and_streams() {
        let rate = mathis(1460, 0.1, 0.0001).expect("a loss");
        assert!((rate - 1460.0 / 0.1 * 122.47).abs() < 100.0, "{rate}");
        assert_eq!(mathis(1460, 0.1, 0.0), None);
        assert_eq!(streams_for(1000.0, 300.0), Some(4));
        assert_eq!(streams_for(1000.0, 0.0), None);
    }
}
