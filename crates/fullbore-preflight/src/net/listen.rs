//! `preflight net --listen`: waits for the other side, and measures what it sends.
//!
//! A stranger gets a thread, a few seconds and a fixed number of bytes; there is room for a fixed
//! number of strangers. Everything else needs the token. The listener itself ends in time.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::control::{Control, answer, hear};
use super::handshake::{Answer, Purpose, Verdict};
use super::session;
use super::shared::{Event, Shared, locked};
use super::token::Token;
use crate::error::{Error, Result};
use crate::limits::{STRANGERS_MAX, STREAMS_MAX};

/// How a listener is bounded.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// It ends after this time.
    pub time: Duration,
    /// What all measurements together may send to it.
    pub bytes_max: u64,
    /// It ends when the first one who measured has ended.
    pub once: bool,
}

pub struct Listener {
    socket: TcpListener,
    token: Token,
    options: ListenOptions,
}

impl Listener {
    pub fn bind(address: &str, token: Token, options: ListenOptions) -> Result<Self> {
        let socket = TcpListener::bind(address).map_err(|source| Error::Network {
            what: "listen on",
            address: address.into(),
            source,
            hint: Some(
                "give an address of this machine and a free port: --listen 0.0.0.0:5202".into(),
            ),
        })?;
        Ok(Self { socket, token, options })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Listens until the time is over, or one has measured.
    pub fn serve(&self, tell: &mut dyn FnMut(Event)) -> Result<()> {
        let failed = |source| Error::System { what: "listen", source };
        self.socket.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            token: self.token.clone(),
            socket: self.socket.try_clone().map_err(failed)?,
            expected: Mutex::new(None),
            strangers: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            ends: Instant::now() + self.options.time,
            bytes_left: AtomicU64::new(self.options.bytes_max),
            events: Mutex::new(Vec::new()),
        });
        loop {
            let events = std::mem::take(&mut *locked(&shared.events));
            let one_has_ended = events.iter().any(|event| matches!(event, Event::Ended { .. }));
            events.into_iter().for_each(&mut *tell);
            let over = Instant::now() >= shared.ends;
            if (over || self.options.once && one_has_ended) && !shared.busy.load(Ordering::Acquire)
            {
                return Ok(());
            }
            wait_readable(&self.socket).map_err(failed)?;
            match self.socket.accept() {
                Ok((stream, peer)) => take_in(&shared, stream, peer),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::Interrupted
                            | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Waits a moment for a connection; events are looked at in between.
fn wait_readable(socket: &TcpListener) -> io::Result<()> {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, and it is ours.
    let found = unsafe { libc::poll(&raw mut wanted, 1, 50) };
    let error = io::Error::last_os_error();
    if found < 0 && error.kind() != io::ErrorKind::Interrupted { Err(error) } else { Ok(()) }
}

/// Gives a connection a thread, if there is room for one more stranger.
fn take_in(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    if shared.strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS_MAX + STREAMS_MAX {
        shared.strangers.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let theirs = Arc::clone(shared);
    let started = thread::Builder::new().name("stranger".into()).spawn(move || {
        let known = welcome(&theirs, stream, peer);
        theirs.strangers.fetch_sub(1, Ordering::AcqRel);
        if let Some(control) = known {
            session::serve(&theirs, control, peer);
        }
    });
    if started.is_err() {
        shared.strangers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Finds out who it is; returns the connection where it is one that talks.
fn welcome(shared: &Shared, mut stream: TcpStream, peer: SocketAddr) -> Option<Control> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    let Some((greeting, claim)) = hear(&mut stream, &shared.token) else {
        shared.tell(Event::Stranger { peer });
        return None;
    };
    let welcome = Answer::welcome(&shared.token, &greeting, &claim);
    match claim.purpose {
        Purpose::Control => {
            if shared.busy.swap(true, Ordering::AcqRel) {
                let _ = answer(&mut stream, &Answer::refusal(Verdict::Busy));
                return None;
            }
            if answer(&mut stream, &welcome).is_err() {
                shared.busy.store(false, Ordering::Release);
                return None;
            }
            Some(Control::new(stream, peer.to_string()))
        }
        Purpose::Stream { session, cell, .. } => {
            // Handed on before the answer: who gets it may begin to send.
            let sender = locked(&shared.expected)
                .as_ref()
                .filter(|expected| (expected.session, expected.cell) == (session, cell))
                .map(|expected| expected.streams.clone());
            let handed = sender.and_then(|sender| {
                let stream = stream.try_clone().ok()?;
                sender.try_send(stream).ok()
            });
            let said = handed.map_or(Answer::refusal(Verdict::Unexpected), |()| welcome);
            let _ = answer(&mut stream, &said);
            None
        }
    }
}
