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

use fullbore_pgwire::Session;
use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown, sockopt};

use super::Endpoints;

const LOOK: Duration = Duration::from_millis(250);
/// How long a peer may owe an answer, and be silent: together with the first time that the kernel sends something again,
/// some 3 seconds.
const SILENCE: Duration = Duration::from_millis(2500);
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
    sockets: Mutex<Vec<Socket>>,
    is_over: AtomicBool,
}

struct Socket {
    descriptor: OwnedFd,
    /// The way that it takes, where that is known.
    at: Option<usize>,
    /// Since when its peer owes an answer.
    owes_since: Option<Instant>,
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
        if let Ok(descriptor) = session.socket() {
            self.watched.lock().push(Socket { descriptor, at, owes_since: None });
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
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Socket>> {
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn look_until_over(&self) {
        let mut knocks: Vec<(Option<Knock>, usize)> = Vec::new();
        knocks.resize_with(self.endpoints.count(), || (None, 0));
        while !self.is_over.load(Ordering::Relaxed) {
            self.end_cut_ones();
            for (at, since, pause) in self.endpoints.down() {
                self.look_for(at, since + pause, &mut knocks[at]);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn end_cut_ones(&self) {
        let mut sockets = self.lock();
        let mut cut = Vec::new();
        sockets.retain_mut(|socket| {
            let Ok(info) = tcp_info(&socket.descriptor) else { return false };
            let is_cut = socket.look(&info);
            if is_cut {
                cut.extend(socket.at);
                let seconds = f64::from(info.last_ack_recv) / 1e3;
                self.end(socket, &format!("no answer for {seconds:.1} s"));
            }
            !is_cut && info.state == ESTABLISHED
        });
        // Where a server did not read, the kernel asks ever more rarely: what goes by the same way and is silent, too,
        // will not be answered either.
        sockets.retain(|socket| {
            let info = tcp_info(&socket.descriptor);
            let is_cut = socket.at.is_some_and(|at| cut.contains(&at))
                && info.is_ok_and(|info| is_silent(&info) && has_something_to_send(&info));
            if is_cut {
                self.end(socket, "its path is cut");
            }
            !is_cut
        });
    }

    /// Ends a connection: whoever waits for it finds its end.
    fn end(&self, socket: &Socket, why: &str) {
        let _ = shutdown(&socket.descriptor, Shutdown::Both);
        if let Some(at) = socket.at {
            self.endpoints.lose(at, why);
        }
    }

    /// Knocks at a way that is down, not before `earliest`.
    fn look_for(
        &self,
        at: usize,
        earliest: Instant,
        (knocking, times): &mut (Option<Knock>, usize),
    ) {
        let now = Instant::now();
        match knocking {
            None if now >= earliest => {
                *times += 1;
                let socket = self.endpoints.knock(at, *times);
                *knocking = socket.map(|socket| Knock { socket, since: now });
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

impl Socket {
    /// Whether its peer has owed an answer for too long: it was sent something again in vain, or does not answer the
    /// kernel's questions. One that reads nothing answers these.
    fn look(&mut self, info: &TcpInfo) -> bool {
        let owes = (info.unacked > 0 && info.retransmits > 0) || info.probes >= UNANSWERED;
        if !owes || info.state != ESTABLISHED {
            self.owes_since = None;
            return false;
        }
        let since = *self.owes_since.get_or_insert_with(Instant::now);
        since.elapsed() >= SILENCE && is_silent(info)
    }
}

fn is_silent(info: &TcpInfo) -> bool {
    u128::from(info.last_ack_recv) >= SILENCE.as_millis()
}

fn has_something_to_send(info: &TcpInfo) -> bool {
    info.unacked > 0 || info.notsent_bytes > 0 || info.probes > 0
}
