//! Parses messages. Every announced length is checked against a limit first.
//!
//! Notices and reports of changed settings may come at any moment; they are put aside here, so
//! that the callers see only answers. Sending and waiting is here; where a message begins and ends, in
//! `framing`.

mod framing;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;

use super::error::ConnectionError;
use super::limits;
use super::notices::Notices;
use super::server_message::ServerMessage;
use super::transport::{Interest, Transport};
use framing::Shortened;

/// An answer of the server.
pub(super) enum Answer {
    Error(Box<ServerMessage>),
    Message(Message),
}

/// The two directions of a connection.
pub(super) struct Wire {
    transport: Transport,
    incoming: BytesMut,
    chunk: Box<[u8]>,
    shortened: Option<Shortened>,
    /// Answers that came while we were still writing.
    pending: VecDeque<Answer>,
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) notices: Notices,
    authenticated: bool,
    ended: bool,
    /// Why nothing works any more.
    broken: Option<String>,
    /// How long the server may be silent.
    pub(super) timeout: Option<Duration>,
    /// Until when all must be done: the login's.
    pub(super) deadline: Option<Instant>,
}

impl Wire {
    pub(super) fn new(transport: Transport, deadline: Option<Instant>) -> Self {
        Self {
            transport,
            incoming: BytesMut::new(),
            chunk: vec![0; limits::READ_BYTES].into(),
            shortened: None,
            pending: VecDeque::new(),
            parameters: BTreeMap::new(),
            notices: Notices::default(),
            authenticated: false,
            ended: false,
            broken: None,
            timeout: None,
            deadline,
        }
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(super) fn transport_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// The server has proved itself: longer messages are welcome.
    pub(super) fn set_authenticated(&mut self) {
        self.authenticated = true;
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Declares the connection useless.
    pub(super) fn set_broken(&mut self, reason: &str) {
        self.broken.get_or_insert_with(|| reason.into());
    }

    /// The next answer, waited for.
    pub(super) fn next(&mut self) -> Result<Answer, ConnectionError> {
        loop {
            if let Some(answer) = self.next_buffered()? {
                return Ok(answer);
            }
            if self.ended {
                return Err(self.lose("the server closed it".into()));
            }
            if !self.fill()? && !self.ended {
                self.wait(Interest::Read)?;
            }
        }
    }

    /// Sends the parts, one after the other, without copying them, and takes in meanwhile what
    /// the server says.
    pub(super) fn send(&mut self, parts: &[&[u8]]) -> Result<(), ConnectionError> {
        self.check()?;
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.transport.send_some(left) {
                Ok(Some(bytes)) => IoSlice::advance_slices(&mut left, bytes),
                Ok(None) => self.make_room()?,
                Err(error) => return Err(self.last_words(&error)),
            }
        }
        loop {
            match self.transport.flush_some() {
                Ok(true) => return Ok(()),
                Ok(false) => self.make_room()?,
                Err(error) => return Err(self.last_words(&error)),
            }
        }
    }

    /// Takes in what has arrived, without waiting. True if an answer is among it, which in the
    /// middle of a COPY can only be its end.
    pub(super) fn look(&mut self) -> Result<bool, ConnectionError> {
        self.check()?;
        // First what was read together with an earlier answer.
        self.put_aside()?;
        while self.fill()? {
            self.put_aside()?;
        }
        if self.ended && self.pending.is_empty() {
            return Err(self.lose("the server closed it".into()));
        }
        Ok(!self.pending.is_empty())
    }

    /// Waits until the server closes its side.
    pub(super) fn wait_for_end(&mut self) -> Result<(), ConnectionError> {
        while !self.ended {
            if self.fill()? {
                self.incoming.clear();
            } else if !self.ended {
                self.wait(Interest::Read)?;
            }
        }
        Ok(())
    }

    /// Waits for room in the socket, and reads what comes first.
    fn make_room(&mut self) -> Result<(), ConnectionError> {
        if self.wait(Interest::ReadOrWrite)? {
            self.fill()?;
            self.put_aside()?;
            if self.ended {
                return Err(self.last_words(&io::ErrorKind::BrokenPipe.into()));
            }
        }
        Ok(())
    }

    /// Parses what has been read, and keeps the answers for later.
    fn put_aside(&mut self) -> Result<(), ConnectionError> {
        while let Some(answer) = self.parse()? {
            if self.pending.len() == limits::PENDING_MESSAGES_MAX {
                return Err(self.violate("it answers before it was asked".into()));
            }
            self.pending.push_back(answer);
        }
        Ok(())
    }

    /// A failed write often means that the server gave a reason and hung up: looks for it.
    fn last_words(&mut self, error: &io::Error) -> ConnectionError {
        let mut fatal = None;
        loop {
            match self.next_buffered() {
                Ok(Some(Answer::Error(message))) => fatal = Some(message),
                Ok(Some(Answer::Message(_))) => {}
                Ok(None) => match self.transport.receive(&mut self.chunk) {
                    Ok(Some(bytes)) if bytes != 0 => {
                        self.incoming.extend_from_slice(&self.chunk[..bytes]);
                    }
                    _ => break,
                },
                Err(_) => break,
            }
        }
        let lost = self.lose(describe(error));
        fatal.map_or(lost, ConnectionError::Server)
    }

    fn next_buffered(&mut self) -> Result<Option<Answer>, ConnectionError> {
        match self.pending.pop_front() {
            Some(answer) => Ok(Some(answer)),
            None => {
                self.check()?;
                self.parse()
            }
        }
    }

    fn check(&self) -> Result<(), ConnectionError> {
        match &self.broken {
            Some(reason) => Err(ConnectionError::lost(reason.clone())),
            None => Ok(()),
        }
    }

    fn lose(&mut self, reason: String) -> ConnectionError {
        self.set_broken(&reason);
        ConnectionError::Lost { reason }
    }

    pub(super) fn violate(&mut self, reason: String) -> ConnectionError {
        self.set_broken(&format!("the server broke the protocol: {reason}"));
        ConnectionError::Protocol { reason }
    }

    fn wait(&mut self, interest: Interest) -> Result<bool, ConnectionError> {
        let silence = self.timeout.map(|timeout| Instant::now() + timeout);
        let deadline = match (silence, self.deadline) {
            (Some(silence), Some(deadline)) => Some(silence.min(deadline)),
            (silence, deadline) => silence.or(deadline),
        };
        self.transport.wait(interest, deadline).map_err(|error| self.lose(describe(&error)))
    }

    /// Reads once; false if nothing was there, or the end.
    fn fill(&mut self) -> Result<bool, ConnectionError> {
        if self.ended {
            return Ok(false);
        }
        match self.transport.receive(&mut self.chunk) {
            Ok(Some(0)) => {
                self.ended = true;
                Ok(false)
            }
            Ok(Some(bytes)) => {
                self.incoming.extend_from_slice(&self.chunk[..bytes]);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.lose(describe(&error))),
        }
    }
}

/// Why reading or writing failed, as a half sentence.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "the server did not answer in time".into(),
        io::ErrorKind::BrokenPipe => "the server closed it".into(),
        _ => error.to_string(),
    }
}
