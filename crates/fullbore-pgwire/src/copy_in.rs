//! COPY ... FROM STDIN: bulk data to the server.

use bytes::BytesMut;
use postgres_protocol::message::backend::{COPY_DATA_TAG, Message};
use postgres_protocol::message::frontend;

use super::error::ConnectionError;
use super::limits::{COPY_LOOK_BYTES, COPY_PAYLOAD_BYTES_MAX};
use super::rows::QueryResult;
use super::session::{Session, path};
use super::wire::Answer;

/// A COPY under way. Dropping it without [`CopyIn::finish`] rolls it back.
#[derive(Debug)]
pub struct CopyIn<'session> {
    session: &'session mut Session,
    binary: bool,
    columns: usize,
    bytes_sent: u64,
    bytes_since_look: usize,
    /// The server has ended it, or we have.
    ended: bool,
}

impl Session {
    /// Runs a statement that takes data: `COPY t FROM STDIN`. The table's defaults, triggers and
    /// constraints see the role's own search path.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, ConnectionError> {
        self.send_under(path::OF_ROLE, sql)?;
        loop {
            match self.wire.next()? {
                Answer::Message(Message::CopyInResponse(body)) => {
                    let binary = body.format() == 1;
                    let columns = body.column_formats();
                    let columns = fallible_iterator::FallibleIterator::count(columns)
                        .map_err(|error| self.wire.violate(error.to_string()))?;
                    return Ok(CopyIn {
                        session: self,
                        binary,
                        columns,
                        bytes_sent: 0,
                        bytes_since_look: 0,
                        ended: false,
                    });
                }
                Answer::Error(message) if message.is_fatal() => {
                    self.wire.set_broken(&message.message);
                    return Err(ConnectionError::Server(message));
                }
                Answer::Error(message) => {
                    let error = ConnectionError::Server(message);
                    // What follows can be no better reason.
                    let _ = self.collect();
                    return Err(error);
                }
                // A statement before the COPY: "BEGIN; COPY ..." in one go.
                Answer::Message(
                    Message::CommandComplete(_)
                    | Message::RowDescription(_)
                    | Message::DataRow(_)
                    | Message::EmptyQueryResponse,
                ) => {}
                Answer::Message(Message::ReadyForQuery(body)) => {
                    self.set_status(body.status())?;
                    return Err(ConnectionError::usage("the statement is no COPY FROM STDIN"));
                }
                Answer::Message(Message::CopyOutResponse(_)) => {
                    let _ = self.collect();
                    return Err(ConnectionError::usage("the statement is a COPY TO STDOUT"));
                }
                Answer::Message(_) => {
                    return Err(self.wire.violate("an answer that does not belong to COPY".into()));
                }
            }
        }
    }
}

impl CopyIn<'_> {
    /// Sends data, from where it lies: the payload is not copied on the way to the kernel, unless it is
    /// encrypted. It is one message, unless the connection's options want smaller ones.
    ///
    /// The server may end the COPY at any moment. That is noticed when its socket is full, or
    /// after a megabyte, and its error is returned here; the COPY is over then, and the session
    /// ready for the next statement.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.check()?;
        if payload.is_empty() {
            return Ok(());
        }
        if payload.len() > COPY_PAYLOAD_BYTES_MAX {
            return Err(ConnectionError::usage(format!(
                "{} bytes of COPY data are too many for one message",
                payload.len()
            )));
        }
        let size = self.session.message_bytes.max(1);
        payload.chunks(size).try_for_each(|part| self.send_message(part))
    }

    fn send_message(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.check()?;
        let length = u32::try_from(payload.len() + 4)
            .map_err(|error| ConnectionError::usage(error.to_string()))?;
        let mut header = [COPY_DATA_TAG, 0, 0, 0, 0];
        header[1..].copy_from_slice(&length.to_be_bytes());
        self.session.wire.send(&[&header, payload]).inspect_err(|_| self.ended = true)?;

        self.bytes_sent += payload.len() as u64;
        self.bytes_since_look += payload.len();
        if self.bytes_since_look >= COPY_LOOK_BYTES {
            self.bytes_since_look = 0;
            self.look()?;
        }
        Ok(())
    }

    /// Whether the server has ended the COPY meanwhile; then its error. Does not wait.
    pub fn look(&mut self) -> Result<(), ConnectionError> {
        self.check()?;
        // Whole messages have been sent, so the server is in step even if it drops them.
        match self.session.wire.look() {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.ended = true;
                match self.session.collect() {
                    Err(error) => Err(error),
                    Ok(_) => Err(self.violate("it ended COPY before its data")),
                }
            }
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }

    /// Whether the server expects the binary format.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// How many columns the server expects.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The payload sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Ends the data, and waits for the server to have taken it; returns its count of rows.
    pub fn finish(self) -> Result<u64, ConnectionError> {
        Ok(self.finish_with_rows()?.rows_affected)
    }

    /// The same, for statements that return rows as well.
    pub fn finish_with_rows(mut self) -> Result<QueryResult, ConnectionError> {
        self.check()?;
        self.ended = true;
        let mut message = BytesMut::new();
        frontend::copy_done(&mut message);
        self.session.wire.send(&[&message])?;
        self.session.collect()
    }

    /// Takes the COPY back: the server forgets its rows. In a transaction, it has failed then.
    pub fn abort(mut self, reason: &str) -> Result<(), ConnectionError> {
        self.take_back(reason)
    }

    fn take_back(&mut self, reason: &str) -> Result<(), ConnectionError> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        self.session.send_copy_fail(reason)?;
        match self.session.collect() {
            // The server repeats our reason as its error.
            Err(ConnectionError::Server(message)) if !message.is_fatal() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(self.violate("it took a COPY that was rolled back")),
        }
    }

    fn violate(&mut self, reason: &str) -> ConnectionError {
        self.session.wire.violate(reason.into())
    }

    fn check(&self) -> Result<(), ConnectionError> {
        if self.ended {
            return Err(ConnectionError::usage("this COPY has ended with an error already"));
        }
        Ok(())
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // No waiting for a server on the way down; it takes the COPY back by itself when the
            // connection ends.
            if !self.ended {
                self.session.wire.set_broken("a COPY was abandoned");
            }
            return;
        }
        let _ = self.take_back("the COPY was abandoned");
    }
}

/// A COPY under way, apart from its session: for those who keep both side by side. It must be
/// resumed before anything else is asked of the session.
#[derive(Debug)]
#[must_use = "the session can do nothing else before the COPY is resumed and ended"]
pub struct PausedCopy {
    binary: bool,
    columns: usize,
    bytes_sent: u64,
    bytes_since_look: usize,
}

impl CopyIn<'_> {
    /// Lets go of the session without ending the COPY.
    pub fn pause(mut self) -> PausedCopy {
        let paused = PausedCopy {
            binary: self.binary,
            columns: self.columns,
            bytes_sent: self.bytes_sent,
            bytes_since_look: self.bytes_since_look,
        };
        // Nothing is to be rolled back when this half is dropped.
        self.ended = true;
        paused
    }
}

impl PausedCopy {
    /// Goes on with the COPY, on the session that it was begun on.
    pub fn resume(self, session: &mut Session) -> CopyIn<'_> {
        CopyIn {
            session,
            binary: self.binary,
            columns: self.columns,
            bytes_sent: self.bytes_sent,
            bytes_since_look: self.bytes_since_look,
            ended: false,
        }
    }
}
