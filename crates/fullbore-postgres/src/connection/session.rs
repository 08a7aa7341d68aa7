//! One session with the server, used by one thread at a time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{Message, RowDescriptionBody};
use postgres_protocol::message::frontend;

use super::cancel::CancelHandle;
use super::error::ConnectionError;
use super::limits::RESULT_BYTES_MAX;
use super::notices::Wanted;
use super::options::{ConnectionOptions, TargetSession};
use super::rows::{QueryResult, Row, rows_of_tag};
use super::server_message::ServerMessage;
use super::startup::{self, Started};
use super::wire::{Answer, Wire};

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
        let mut message = BytesMut::with_capacity(sql.len() + 6);
        frontend::query(sql, &mut message)
            .map_err(|_| ConnectionError::usage("a statement can't hold a NUL character"))?;
        self.wire.send(&[&message])
    }

    /// Reads all answers up to the point where the server waits for us again. Whatever goes
    /// wrong on the way, the session is usable afterwards, unless it is lost.
    pub(super) fn collect(&mut self) -> Result<QueryResult, ConnectionError> {
        let mut collected = Collected::default();
        loop {
            let answer = match self.wire.next() {
                Ok(answer) => answer,
                // The server says why before it hangs up.
                Err(lost) => return Err(collected.failure.unwrap_or(lost)),
            };
            match answer {
                Answer::Message(Message::ReadyForQuery(body)) => {
                    self.set_status(body.status())?;
                    return collected.finish();
                }
                Answer::Error(message) => {
                    if message.is_fatal() {
                        self.wire.set_broken(&message.message);
                        return Err(ConnectionError::Server(message));
                    }
                    collected.fail(ConnectionError::Server(message));
                }
                Answer::Message(Message::CopyInResponse(_)) => {
                    collected.fail(ConnectionError::usage(
                        "the statement is a COPY FROM STDIN, but here is no data for it",
                    ));
                    self.send_copy_fail("no data")?;
                }
                Answer::Message(message) => {
                    if let Err(error) = collected.take(message) {
                        if let ConnectionError::Protocol { reason } = error {
                            return Err(self.wire.violate(reason));
                        }
                        collected.fail(error);
                    }
                }
            }
        }
    }

    pub(super) fn send_copy_fail(&mut self, reason: &str) -> Result<(), ConnectionError> {
        let mut message = BytesMut::new();
        frontend::copy_fail(&reason.replace('\0', " "), &mut message)
            .map_err(|error| ConnectionError::usage(error.to_string()))?;
        self.wire.send(&[&message])
    }

    /// Whether this server is of the kind wanted. Servers before 14 don't report it unasked.
    fn check_target(&mut self, wanted: TargetSession) -> Result<(), ConnectionError> {
        let (name, question, value, kind) = match wanted {
            TargetSession::Any | TargetSession::PreferStandby => return Ok(()),
            TargetSession::ReadWrite => ("", "SHOW transaction_read_only", "off", "read-only"),
            TargetSession::ReadOnly => ("", "SHOW transaction_read_only", "on", "not read-only"),
            TargetSession::Primary => ("in_hot_standby", IN_RECOVERY, "off", "a standby"),
            TargetSession::Standby => ("in_hot_standby", IN_RECOVERY, "on", "no standby"),
        };
        let found = match self.parameter(name) {
            Some(reported) => reported.to_owned(),
            None => {
                let rows = self.query(question)?;
                rows.first().and_then(|row| row.get(0)).unwrap_or_default().to_owned()
            }
        };
        if found == value {
            return Ok(());
        }
        Err(ConnectionError::Refused {
            target: self.target.clone(),
            source: std::io::Error::other(format!(
                "the server is {kind}, but target_session_attrs={wanted}"
            )),
        })
    }
}

const IN_RECOVERY: &str =
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END";

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

/// The answers to a query, as they come in.
#[derive(Default)]
struct Collected {
    columns: Arc<[String]>,
    result: QueryResult,
    bytes: usize,
    failure: Option<ConnectionError>,
}

impl Collected {
    /// Only the first failure counts: the others follow from it.
    fn fail(&mut self, error: ConnectionError) {
        self.failure.get_or_insert(error);
    }

    fn finish(self) -> Result<QueryResult, ConnectionError> {
        self.failure.map_or(Ok(self.result), Err)
    }

    fn take(&mut self, message: Message) -> Result<(), ConnectionError> {
        match message {
            Message::RowDescription(body) => {
                self.columns = columns(&body)?;
                self.result.rows.clear();
                self.bytes = 0;
            }
            Message::DataRow(body) => {
                self.bytes += body.buffer().len();
                if self.bytes > RESULT_BYTES_MAX {
                    return Err(ConnectionError::protocol("a result of more than 1 GB"));
                }
                self.result.rows.push(Row::new(&self.columns, &body)?);
            }
            Message::CommandComplete(body) => {
                let tag =
                    body.tag().map_err(|error| ConnectionError::protocol(error.to_string()))?;
                self.result.rows_affected = rows_of_tag(tag);
            }
            Message::EmptyQueryResponse | Message::CopyData(_) | Message::CopyDone => {}
            Message::CopyOutResponse(_) => {
                return Err(ConnectionError::usage(
                    "the statement is a COPY TO STDOUT, but here is nobody to take its data",
                ));
            }
            _ => {
                return Err(ConnectionError::protocol("an answer that does not belong to a query"));
            }
        }
        Ok(())
    }
}

fn columns(body: &RowDescriptionBody) -> Result<Arc<[String]>, ConnectionError> {
    let names: Vec<String> = body
        .fields()
        .map(|field| Ok(field.name().to_owned()))
        .collect()
        .map_err(|error| ConnectionError::protocol(error.to_string()))?;
    Ok(names.into())
}

/// `18.6 (Debian ...)`, `9.6.24`, `19beta1` as PostgreSQL's own numbers.
fn version_num(text: &str) -> u32 {
    let number: &str = text
        .split(|character: char| !(character.is_ascii_digit() || character == '.'))
        .next()
        .unwrap_or_default();
    let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or(0).min(9_999);
    if part(0) >= 10 {
        part(0) * 10_000 + part(1)
    } else {
        part(0) * 10_000 + part(1).min(99) * 100 + part(2).min(99)
    }
}

#[cfg(test)]
mod tests {
    use super::version_num;

    #[test]
    fn versions() {
        assert_eq!(version_num("18.6"), 180_006);
        assert_eq!(version_num("15.13 (Debian 15.13-0+deb12u1)"), 150_013);
        assert_eq!(version_num("19beta1"), 190_000);
        assert_eq!(version_num("9.6.24"), 90_624);
        assert_eq!(version_num("999999999999"), 0);
        assert_eq!(version_num("what"), 0);
    }
}
