//! Kernel settings that stand in the way of a rate, with what to set, why, its price, and the way
//! back. Pure: both ends' settings in, advice out.

use serde::Serialize;

use super::kernel::{number, numbers};
use super::message::Side;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Here, where data is sent from.
    Client,
    /// There, where the listener is.
    Listener,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub end: End,
    pub setting: String,
    /// The value in effect.
    pub value: String,
    pub advised: String,
    pub why: String,
    /// What it costs.
    pub price: String,
    pub undo: String,
}

/// What the advice is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Bytes a second of all streams together.
    pub rate: f64,
    pub rtt_seconds: f64,
    pub streams: usize,
    /// Packets are lost on the path.
    pub loses: bool,
    /// What the path lets through, found by the connection itself.
    pub path_mtu: Option<u32>,
}

/// Memory pages of the kernel's accounts.
const PAGE_BYTES: u64 = 4096;

/// Below this a window is never the reason.
const WINDOW_MIN: u64 = 1 << 20;

/// Round trips from which on it matters how a sender comes back after losses.
const FAR_SECONDS: f64 = 0.02;

pub fn advise(client: &Side, listener: &Side, goal: &Goal) -> Vec<Advice> {
    let mut advice = Vec::new();
    // Twice the product, since a window that just fits is emptied by every hiccup.
    let product = goal.rate * goal.rtt_seconds / goal.streams.max(1) as f64;
    let window = ((2.0 * product) as u64).next_power_of_two().max(WINDOW_MIN);
    windows(
        client,
        End::Client,
        "net.ipv4.tcp_wmem",
        "net.core.wmem_max",
        window,
        goal,
        &mut advice,
    );
    // Half of a receive buffer is window.
    windows(
        listener,
        End::Listener,
        "net.ipv4.tcp_rmem",
        "net.core.rmem_max",
        2 * window,
        goal,
        &mut advice,
    );
    for (side, end) in [(client, End::Client), (listener, End::Listener)] {
        switches(side, end, &mut advice);
        memory(side, end, window, goal.streams, &mut advice);
    }
    idle(client, &mut advice);
    congestion(client, goal, &mut advice);
    packets(client, listener, goal, &mut advice);
    advice
}

fn line(end: End, side: &Side, setting: &str, advised: &str, why: String, price: &str) -> Advice {
    let value = side.settings.get(setting).cloned().unwrap_or_default();
    Advice {
        end,
        undo: format!("sysctl -w {setting}='{}'", value.replace('\t', " ")),
        setting: setting.into(),
        value,
        advised: advised.into(),
        why,
        price: price.into(),
    }
}

fn windows(
    side: &Side,
    end: End,
    own: &str,
    limit: &str,
    wanted: u64,
    goal: &Goal,
    advice: &mut Vec<Advice>,
) {
    let why = format!(
        "{:.0} MB/s over a round trip of {:.1} ms by {} stream(s) is {:.1} MB on the way at each of \
         them, and a window should be twice that",
        goal.rate / 1e6,
        goal.rtt_seconds * 1e3,
        goal.streams,
        goal.rate * goal.rtt_seconds / goal.streams.max(1) as f64 / 1e6,
    );
    let price = "memory of the kernel: up to so much for each connection of this host that has so \
                 much under way";
    if let Some([least, first, most]) = numbers(side, own).as_deref()
        && *most < wanted
    {
        advice.push(line(end, side, own, &format!("{least} {first} {wanted}"), why.clone(), price));
        // Programs that set their buffers themselves are held by the other limit.
        if number(side, limit).is_some_and(|found| found < wanted) {
            let why = "programs that set their own window, this one with --window too, get no more \
                       than this";
            advice.push(line(end, side, limit, &wanted.to_string(), why.into(), price));
        }
    }
}

/// Settings that are on everywhere, unless somebody switched them off.
fn switches(side: &Side, end: End, advice: &mut Vec<Advice>) {
    let known = [
        ("net.ipv4.tcp_window_scaling", "without it no window is larger than 64 KB", "none known"),
        (
            "net.ipv4.tcp_sack",
            "without it each loss costs a round trip of its own",
            "none, where the kernel is not older than 2019",
        ),
        (
            "net.ipv4.tcp_timestamps",
            "without it round trips are known badly, and sequence numbers of \
          fast streams are ambiguous",
            "12 bytes a packet",
        ),
        (
            "net.ipv4.tcp_moderate_rcvbuf",
            "without it the receive window stays as it begins",
            "memory of the kernel, as the window grows",
        ),
    ];
    for (setting, why, price) in known {
        if number(side, setting) == Some(0) {
            advice.push(line(end, side, setting, "1", why.into(), price));
        }
    }
}

/// Memory of all connections together, in pages: where it is short, windows shrink.
fn memory(side: &Side, end: End, window: u64, streams: usize, advice: &mut Vec<Advice>) {
    let needed = (2 * window * streams as u64).div_ceil(PAGE_BYTES);
    if let Some([low, pressure, high]) = numbers(side, "net.ipv4.tcp_mem").as_deref()
        && *pressure < needed
    {
        let more = needed - pressure;
        let advised = format!("{low} {needed} {}", (high + more).max(needed));
        let why = format!("{streams} windows of {:.1} MB are more than that", window as f64 / 1e6);
        let price = "memory of the kernel: so many pages for the connections of this host";
        advice.push(line(end, side, "net.ipv4.tcp_mem", &advised, why, price));
    }
}

fn idle(client: &Side, advice: &mut Vec<Advice>) {
    let setting = "net.ipv4.tcp_slow_start_after_idle";
    if number(client, setting) == Some(1) {
        let why = "a stream that waited for its source or for a commit begins slowly again";
        let price = "bursts into a network that may have filled meanwhile";
        advice.push(line(End::Client, client, setting, "0", why.into(), price));
    }
}

fn congestion(client: &Side, goal: &Goal, advice: &mut Vec<Advice>) {
    let setting = "net.ipv4.tcp_congestion_control";
    let in_use = client.settings.get(setting).map(String::as_str);
    if in_use.is_none_or(|name| name.starts_with("bbr"))
        || !goal.loses
        || goal.rtt_seconds < FAR_SECONDS
    {
        return;
    }
    let known = client.settings.get("net.ipv4.tcp_available_congestion_control");
    let there = known.is_some_and(|names| names.split_whitespace().any(|name| name == "bbr"));
    let advised = if there { "bbr" } else { "bbr, after modprobe tcp_bbr" };
    let why = "packets are lost on this long path, and this one takes each loss for a full link";
    let price = "it takes more than its share next to other streams, and sends more again; try it \
                 with --congestion bbr first";
    advice.push(line(End::Client, client, setting, advised, why.into(), price));
}

fn packets(client: &Side, listener: &Side, goal: &Goal, advice: &mut Vec<Advice>) {
    let (Some(ours), Some(theirs), Some(path)) = (client.mtu, listener.mtu, goal.path_mtu) else {
        return;
    };
    for (side, end, mtu) in [(client, End::Client, ours), (listener, End::Listener, theirs)] {
        let name = side.interface.as_deref().unwrap_or("the interface");
        // Loopback and the like have more than jumbo frames.
        if mtu < 9000 {
            advice.push(Advice {
                end,
                setting: format!("mtu of {name}"),
                value: mtu.to_string(),
                advised: "9000".into(),
                why: "six times fewer packets for the same bytes, where packets are what costs CPU"
                    .into(),
                price: "every switch and host of that network must take them, or large packets \
                        vanish; check what is in effect by measuring again"
                    .into(),
                undo: format!("ip link set {name} mtu {mtu}"),
            });
        }
    }
    // A packet of IPv4 is no longer than that, whatever the device would take.
    let both = ours.min(theirs).min(65535);
    if path < both && number(client, "net.ipv4.tcp_mtu_probing") == Some(0) {
        let why =
            format!("the path takes packets of {path} only, less than either end's interface");
        let price = "a few probes that are lost on purpose";
        advice.push(line(End::Client, client, "net.ipv4.tcp_mtu_probing", "1", why, price));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(settings: &[(&str, &str)]) -> Side {
        let settings = settings.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        Side { settings, mtu: Some(9000), interface: Some("eth0".into()), ..Side::default() }
    }

    const GOAL: Goal =
        Goal { rate: 125e6, rtt_seconds: 0.18, streams: 1, loses: false, path_mtu: Some(9000) };

    fn settings_of(advice: &[Advice]) -> Vec<&str> {
        advice.iter().map(|line| line.setting.as_str()).collect()
    }

    #[test]
    fn windows_for_the_way() {
        let client =
            side(&[("net.ipv4.tcp_wmem", "4096\t16384\t4194304"), ("net.core.wmem_max", "212992")]);
        let listener = side(&[("net.ipv4.tcp_rmem", "4096\t131072\t134217728")]);
        let advice = advise(&client, &listener, &GOAL);
        assert_eq!(settings_of(&advice), ["net.ipv4.tcp_wmem", "net.core.wmem_max"]);
        // 22.5 MB on the way, twice that, to the next power of two.
        assert_eq!(advice[0].advised, "4096 16384 67108864");
        assert_eq!(advice[0].undo, "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'");
        let many = advise(&client, &listener, &Goal { streams: 16, ..GOAL });
        assert!(many.is_empty(), "{many:?}");
    }

    #[test]
    fn what_is_off_is_named_at_its_end() {
        let client =
            side(&[("net.ipv4.tcp_sack", "0"), ("net.ipv4.tcp_slow_start_after_idle", "1")]);
        let listener = side(&[("net.ipv4.tcp_window_scaling", "0")]);
        let advice = advise(&client, &listener, &GOAL);
        let found: Vec<_> = advice.iter().map(|line| (line.end, line.setting.as_str())).collect();
        let expected = [
            (End::Client, "net.ipv4.tcp_sack"),
            (End::Listener, "net.ipv4.tcp_window_scaling"),
            (End::Client, "net.ipv4.tcp_slow_start_after_idle"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn another_congestion_control_only_for_losses_far_away() {
        let client = side(&[
            ("net.ipv4.tcp_congestion_control", "cubic"),
            ("net.ipv4.tcp_available_congestion_control", "reno bbr cubic"),
        ]);
        let none = side(&[]);
        assert!(advise(&client, &none, &GOAL).is_empty());
        let advice = advise(&client, &none, &Goal { loses: true, ..GOAL });
        assert_eq!(settings_of(&advice), ["net.ipv4.tcp_congestion_control"]);
        assert_eq!(advice[0].advised, "bbr");
        assert!(
            advise(&client, &none, &Goal { loses: true, rtt_seconds: 0.001, ..GOAL }).is_empty()
        );
    }

    #[test]
    fn small_packets() {
        let narrow = Side { mtu: Some(1500), ..side(&[("net.ipv4.tcp_mtu_probing", "0")]) };
        let advice = advise(&narrow, &narrow, &Goal { path_mtu: Some(1400), ..GOAL });
        let expected = ["mtu of eth0", "mtu of eth0", "net.ipv4.tcp_mtu_probing"];
        assert_eq!(settings_of(&advice), expected);
        let loopback = Side { mtu: Some(65536), ..narrow };
        assert!(advise(&loopback, &loopback, &Goal { path_mtu: Some(65535), ..GOAL }).is_empty());
    }
}
