//! One session with the server, used by one thread at a time.
//!
//! How a query's answers become its result is in `collected`; whether a server is of the kind wanted,
//! in `target`; what its version is as a number, in `version`.

mod collected;
pub mod path;
mod target;
mod version;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::cancel::CancelHandle;
use super::error::ConnectionError;
use super::notices::Wanted;
use super::options::{ConnectionOptions, TargetSession};
use super::rows::{QueryResult, Row};
use super::server_message::ServerMessage;
use super::startup::{self, Started};
use super::wire::Wire;
use version::version_num;

/// Whether a transaction is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is.
    Idle,
    /// One is.
    InTransaction,
    /// One is, and has failed: only ROLLBACK helps.
    Failed,
}

impl TransactionStatus {
    pub(super) fn of(byte: u8, wire: &mut Wire) -> Result<Self, ConnectionError> {
        match byte {
            b'I' => Ok(Self::Idle),
            b'T' => Ok(Self::InTransaction),
            b'E' => Ok(Self::Failed),
            _ => Err(wire.violate(format!("an unknown transaction status {byte}"))),
        }
    }
}

/// A session with the server. Dropping it says goodbye and closes it.
pub struct Session {
    pub(super) wire: Wire,
    status: TransactionStatus,
    backend_pid: i32,
    target: String,
    cancel: CancelHandle,
    /// Bytes of one message of COPY.
    pub(super) message_bytes: usize,
    /// Statements find the server's own objects alone, unless they say otherwise.
    is_pinned: bool,
}

impl Session {
    /// Connects to the first server of the list that will do.
    pub fn connect(options: &ConnectionOptions) -> Result<Self, ConnectionError> {
        let accept = |wanted: TargetSession| {
            move |started: Started| {
                let mut session = Self::new(started, options);
                session.check_target(wanted)?;
                Ok(session)
            }
        };
        match options.target_session {
            TargetSession::PreferStandby => {
                startup::connect(options, accept(TargetSession::Standby))
                    .or_else(|_| startup::connect(options, accept(TargetSession::Any)))
            }
            wanted => startup::connect(options, accept(wanted)),
        }
    }

    fn new(started: Started, options: &ConnectionOptions) -> Self {
        let cancel = CancelHandle::new(&started, options);
        Self {
            wire: started.wire,
            status: started.status,
            backend_pid: started.backend_pid,
            target: started.target,
            cancel,
            message_bytes: options.message_bytes.unwrap_or(usize::MAX),
            is_pinned: false,
        }
    }

    /// Runs one or several statements; returns the rows of the last one that has any.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, ConnectionError> {
        Ok(self.run(sql)?.rows)
    }

    /// Runs one or several statements; returns how many rows the last one touched.
    pub fn execute(&mut self, sql: &str) -> Result<u64, ConnectionError> {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let line = sql.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
            tracing::debug!(backend = self.backend_pid, "{line}");
        }
        Ok(self.run(sql)?.rows_affected)
    }

    /// Runs one or several statements; returns both.
    pub fn run(&mut self, sql: &str) -> Result<QueryResult, ConnectionError> {
        self.send_query(sql)?;
        self.collect()
    }

    /// Whether a transaction is open, as of the last answer.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    /// The server's version: 180006 for 18.6, 150013 for 15.13; 0 if it does not say.
    pub fn server_version_num(&self) -> u32 {
        self.parameter("server_version").map_or(0, version_num)
    }

    /// A setting that the server reports of itself: `server_version`, `TimeZone`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.wire.parameters.get(name).map(String::as_str)
    }

    /// All of these settings.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.wire.parameters
    }

    /// The process that serves us, as in `pg_stat_activity`.
    pub fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// Host and port, or the socket's path, of the server connected to.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether what goes over the network is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.wire.transport().tls().is_some()
    }

    /// The notices that came since the last call, the oldest first.
    pub fn take_notices(&mut self) -> Vec<ServerMessage> {
        self.wire.notices.take()
    }

    /// Which notices to keep; all without it. What others send then takes no room from them.
    pub fn set_notices_wanted(&mut self, wanted: Option<Wanted>) {
        self.wire.notices.set_wanted(wanted);
    }

    /// How many notices to keep; older ones give way. 10,000 without this call, and never more
    /// than 16 MB.
    pub fn set_notice_limit(&mut self, limit: usize) {
        self.wire.notices.set_limit(limit);
    }

    /// How long the server may be silent while we wait for it; `None`: for ever. A statement
    /// that takes longer counts as a lost connection.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.wire.timeout = timeout;
    }

    /// Something with which another thread can stop the statement that runs here.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Whether the session is gone; then every call fails.
    pub fn is_broken(&self) -> bool {
        self.wire.is_broken()
    }

    /// The socket, for its statistics. Reading or writing it would break the protocol.
    pub fn raw_fd(&self) -> RawFd {
        self.wire.transport().raw_fd()
    }

    /// The same socket for another thread's statistics. It stays open until this is dropped too.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.wire.transport().duplicate()
    }

    pub(super) fn set_status(&mut self, byte: u8) -> Result<(), ConnectionError> {
        self.status = TransactionStatus::of(byte, &mut self.wire)?;
        Ok(())
    }

    /// Sends a query; its answers are still to be read.
    pub(super) fn send_query(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.send_under(path::PINNED, sql)
    }

    /// Sends a query under a search path, where the session is one of those that have theirs pinned.
    pub(super) fn send_under(&mut self, path: &str, sql: &str) -> Result<(), ConnectionError> {
        let path = if self.takes_path(sql) { path } else { "" };
        let mut message = BytesMut::with_capacity(path.len() + sql.len() + 6);
        frontend::query(&format!("{path}{sql}"), &mut message)
            .map_err(|_| ConnectionError::usage("a statement can't hold a NUL character"))?;
        self.wire.send(&[&message])
    }

    pub(super) fn send_copy_fail(&mut self, reason: &str) -> Result<(), ConnectionError> {
        let mut message = BytesMut::new();
        frontend::copy_fail(&reason.replace('\0', " "), &mut message)
            .map_err(|error| ConnectionError::usage(error.to_string()))?;
        self.wire.send(&[&message])
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.wire.is_broken() {
            let mut message = BytesMut::new();
            frontend::terminate(&mut message);
            // Five bytes. If they don't fit the server is not listening, and will notice the end
            // of the connection instead.
            let transport = self.wire.transport_mut();
            let _ = transport.send_some(&[std::io::IoSlice::new(&message)]);
        }
        self.wire.transport_mut().close();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("target", &self.target)
            .field("backend_pid", &self.backend_pid)
            .field("status", &self.status)
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}
