//! Ends connections whose way is cut, and looks for ways that are open again.
//!
//! `TCP_USER_TIMEOUT` can't do the first: it also ends a connection whose server does not read for so long, which
//! a checkpoint or a lock makes it do, while each of the kernel's questions is answered (tcp_probe_timer in
//! net/ipv4/tcp_timer.c). What the kernel says of a socket tells the two apart.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use fullbore_pgwire::{Session, knock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};

use super::Endpoints;

const LOOK: Duration = Duration::from_millis(250);
/// Silence after which a peer that owes an answer counts as gone.
const SILENCE_MS: u32 = 3000;
/// Questions of the kernel that may be unanswered at a time: one may be on its way.
const UNANSWERED: u8 = 2;
/// How long a knock may be unanswered: by then the kernel has sent it three times.
const KNOCKING: Duration = Duration::from_secs(4);
/// `TCP_ESTABLISHED` of net/tcp_states.h.
const ESTABLISHED: u8 = 1;

/// The thread, and the connections that it looks at; ends with this.
pub(crate) struct Guard {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

struct Watched {
    endpoints: Arc<Endpoints>,
    /// The sockets, with the way that each takes where that is known.
    sockets: Mutex<Vec<(OwnedFd, Option<usize>)>>,
    is_over: AtomicBool,
}

impl Guard {
    /// Looks at the connections of several ways; of a single one nothing could be done.
    pub fn start(endpoints: &Arc<Endpoints>) -> std::io::Result<Option<Self>> {
        if endpoints.count() < 2 {
            return Ok(None);
        }
        let watched = Arc::new(Watched {
            endpoints: endpoints.clone(),
            sockets: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let looking = watched.clone();
        let work = move || looking.look_until_over();
        let thread = std::thread::Builder::new().name("endpoints".into()).spawn(work)?;
        Ok(Some(Self { watched, thread: Some(thread) }))
    }

    /// Looks at a session's connection until it ends.
    pub fn watch(&self, session: &Session, at: Option<usize>) {
        if let Ok(socket) = session.socket() {
            self.watched.lock().push((socket, at));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watched.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Watched {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(OwnedFd, Option<usize>)>> {
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn look_until_over(&self) {
        let mut knocks: Vec<Option<Knock>> = Vec::new();
        knocks.resize_with(self.endpoints.count(), || None);
        while !self.is_over.load(Ordering::Relaxed) {
            self.end_cut_ones();
            for (at, since, pause) in self.endpoints.down() {
                self.look_for(at, since + pause, &mut knocks[at]);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn end_cut_ones(&self) {
        self.lock().retain(|(socket, at)| {
            let Ok(info) = tcp_info(socket) else { return false };
            let is_cut = is_cut(&info);
            if is_cut {
                // Whoever waits for it finds its end.
                let _ = shutdown(socket, Shutdown::Both);
                if let Some(at) = at {
                    let seconds = f64::from(info.last_ack_recv) / 1e3;
                    self.endpoints.lose(*at, &format!("no answer for {seconds:.1} s"));
                }
            }
            !is_cut && info.state == ESTABLISHED
        });
    }

    /// Knocks at a way that is down, not before `earliest`.
    fn look_for(&self, at: usize, earliest: Instant, knocking: &mut Option<Knock>) {
        let now = Instant::now();
        match knocking {
            None if now >= earliest => {
                let host = &self.endpoints.options(at).hosts[0];
                *knocking = knock(host).ok().map(|socket| Knock { socket, since: now });
            }
            None => {}
            Some(knock) => match knock.is_answered() {
                Some(true) => {
                    *knocking = None;
                    self.endpoints.find(at);
                }
                Some(false) => *knocking = None,
                None if knock.since.elapsed() > KNOCKING => *knocking = None,
                None => {}
            },
        }
    }
}

/// A connection that was begun.
struct Knock {
    socket: OwnedFd,
    since: Instant,
}

impl Knock {
    /// Whether it was accepted; none: there is no answer yet.
    fn is_answered(&self) -> Option<bool> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut sockets = [PollFd::new(&self.socket, PollFlags::OUT)];
        match poll(&mut sockets, Some(&at_once)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => None,
            Ok(_) => Some(matches!(sockopt::socket_error(&self.socket), Ok(Ok(())))),
            Err(_) => Some(false),
        }
    }
}

/// Whether the peer owes an answer, and has owed it for too long: it was sent something again in vain, or does not
/// answer the kernel's questions. One that reads nothing answers these.
fn is_cut(info: &TcpInfo) -> bool {
    let owes_receipt = info.unacked > 0 && info.retransmits > 0;
    let owes_answer = info.probes >= UNANSWERED;
    info.state == ESTABLISHED && info.last_ack_recv >= SILENCE_MS && (owes_receipt || owes_answer)
}
