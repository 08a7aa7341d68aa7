//! The sockets of the streams, for reading the kernel's counters of them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use fullbore_pgwire::Session;
use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use fullbore_record::observe::socket::SocketNow;

/// Sockets by number of stream. A unix socket has no such counters and is not among them.
#[derive(Debug, Default)]
pub struct Sockets(Mutex<BTreeMap<usize, OwnedFd>>);

/// A socket that is among them until this is dropped: before its session, which it would keep open.
pub struct Shown<'a> {
    sockets: &'a Sockets,
    stream: usize,
}

impl Sockets {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, OwnedFd>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Shows the socket of a stream's session, where there is something to be seen of it.
    pub fn show(&self, stream: usize, session: &Session) -> Option<Shown<'_>> {
        let socket = session.socket().ok()?;
        tcp_info(&socket).ok()?;
        self.lock().insert(stream, socket);
        Some(Shown { sockets: self, stream })
    }

    /// What the kernel says of each now.
    pub fn look(&self) -> Vec<(usize, SocketNow)> {
        let sockets = self.lock();
        let looks = sockets
            .iter()
            .filter_map(|(stream, socket)| tcp_info(socket).ok().map(|info| (*stream, now(&info))));
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
