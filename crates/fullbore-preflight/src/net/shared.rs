//! What the threads of a listener share.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::message::Measurement;
use super::socket::set_window;
use super::token::Token;

/// What happens, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody with the token has come.
    Began {
        peer: SocketAddr,
    },
    Ended {
        peer: SocketAddr,
        bytes: u64,
        trouble: Option<String>,
    },
    /// Somebody without it has, or said nothing of use.
    Stranger {
        peer: SocketAddr,
    },
}

/// Streams that a session waits for.
pub(super) struct Expected {
    pub(super) session: u64,
    pub(super) cell: u32,
    pub(super) streams: SyncSender<TcpStream>,
}

/// What the threads of one listener share.
pub(super) struct Shared {
    pub(super) token: Token,
    /// The listening socket itself: what it is set to, those that it accepts have from their first
    /// packet on.
    pub(super) socket: TcpListener,
    pub(super) expected: Mutex<Option<Expected>>,
    pub(super) strangers: AtomicUsize,
    pub(super) busy: AtomicBool,
    pub(super) sessions: AtomicU64,
    pub(super) ends: Instant,
    pub(super) bytes_left: AtomicU64,
    pub(super) events: Mutex<Vec<Event>>,
}

impl Shared {
    /// A new session's number.
    pub(super) fn number(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// From now on streams of this measurement are expected, so many of them.
    pub(super) fn expect(
        &self,
        session: u64,
        measurement: &Measurement,
    ) -> io::Result<Receiver<TcpStream>> {
        // A window that is set later is not used to the full: its limit was laid down already.
        set_window(&self.socket, measurement.window_bytes)?;
        let (sender, receiver) = sync_channel(measurement.streams);
        *locked(&self.expected) =
            Some(Expected { session, cell: measurement.cell, streams: sender });
        Ok(receiver)
    }

    pub(super) fn expect_nothing(&self) {
        *locked(&self.expected) = None;
        let _ = set_window(&self.socket, None);
    }

    pub(super) fn tell(&self, event: Event) {
        let mut events = locked(&self.events);
        // Strangers must not fill the memory while nobody looks.
        if events.len() < 1000 || !matches!(event, Event::Stranger { .. }) {
            events.push(event);
        }
    }

    /// The next one may measure.
    pub(super) fn free(&self) {
        self.busy.store(false, Ordering::Release);
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
