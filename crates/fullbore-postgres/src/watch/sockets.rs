//! The sockets of the streams, for reading the kernel's counters of them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use fullbore_pgwire::Session;
use fullbore_pgwire::pacing::set_max_rate;
use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use fullbore_record::observe::socket::SocketNow;

/// Sockets by number of stream. A unix socket has no such counters and is not among them.
#[derive(Debug, Default)]
pub struct Sockets {
    sockets: Mutex<BTreeMap<usize, Seen>>,
    /// How many there have been.
    count: AtomicU64,
    /// The rate that each is limited to; 0: none is.
    rate: AtomicU64,
}

/// A socket, and what it had done before: a stream may go back to one.
#[derive(Debug)]
struct Seen {
    socket: OwnedFd,
    number: u64,
    before: SocketNow,
}

/// A socket that is among them until this is dropped: before its session, which it would keep open.
pub struct Shown<'a> {
    sockets: &'a Sockets,
    stream: usize,
}

impl Sockets {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Seen>> {
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Shows the socket of a stream's session, where there is something to be seen of it.
    pub fn show(&self, stream: usize, session: &Session) -> Option<Shown<'_>> {
        let socket = session.socket().ok()?;
        let before = now(&tcp_info(&socket).ok()?);
        if self.rate.load(Ordering::Relaxed) > 0 {
            self.limit(&socket);
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(stream, Seen { socket, number, before });
        Some(Shown { sockets: self, stream })
    }

    /// Limits each of them to a rate, later ones too.
    pub fn pace(&self, bytes_per_second: Option<u64>) {
        self.rate.store(bytes_per_second.unwrap_or(0), Ordering::Relaxed);
        self.lock().values().for_each(|seen| self.limit(&seen.socket));
    }

    fn limit(&self, socket: &OwnedFd) {
        let rate = Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0);
        if let Err(error) = set_max_rate(socket, rate) {
            tracing::warn!(%error, "the kernel does not limit a connection: --polite does nothing");
        }
    }

    /// What the kernel says of each now.
    pub fn look(&self) -> Vec<(usize, SocketNow)> {
        let sockets = self.lock();
        let looks = sockets.iter().filter_map(|(stream, seen)| {
            let (all, before) = (now(&tcp_info(&seen.socket).ok()?), seen.before);
            let since = SocketNow {
                number: seen.number,
                busy_us: all.busy_us.saturating_sub(before.busy_us),
                receive_window_us: all.receive_window_us.saturating_sub(before.receive_window_us),
                send_buffer_us: all.send_buffer_us.saturating_sub(before.send_buffer_us),
                sent_bytes: all.sent_bytes.saturating_sub(before.sent_bytes),
                resent_bytes: all.resent_bytes.saturating_sub(before.resent_bytes),
                ..all
            };
            Some((*stream, since))
        });
        looks.collect()
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.sockets.lock().remove(&self.stream);
    }
}

fn now(info: &TcpInfo) -> SocketNow {
    // A kernel that has never seen a round trip says the largest number.
    let rtt_min = if info.min_rtt == u32::MAX { info.rtt } else { info.min_rtt };
    SocketNow {
        number: 0,
        busy_us: info.busy_time,
        receive_window_us: info.rwnd_limited,
        send_buffer_us: info.sndbuf_limited,
        sent_bytes: info.bytes_sent,
        resent_bytes: info.bytes_retrans,
        rtt_us: info.rtt.into(),
        rtt_min_us: rtt_min.into(),
        in_flight_bytes: u64::from(info.unacked) * u64::from(info.snd_mss),
        unsent_bytes: info.notsent_bytes.into(),
        window_bytes: info.snd_wnd.into(),
        segment_bytes: info.snd_mss.into(),
    }
}
