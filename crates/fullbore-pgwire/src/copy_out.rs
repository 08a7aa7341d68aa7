//! COPY ... TO STDOUT: bulk data from the server.

use std::io;

use bytes::Bytes;
use postgres_protocol::message::backend::Message;

use super::error::ConnectionError;
use super::session::Session;
use super::wire::Answer;

/// What a COPY from the server gives.
#[derive(Debug)]
pub enum Copied {
    Data(Bytes),
    /// It is over, after so many rows.
    All(u64),
}

impl Session {
    /// Runs `COPY ... TO STDOUT` and hands each message of data to `receive`, in text format one
    /// row each; returns the count of rows. If `receive` fails, the statement is cancelled.
    pub fn copy_out(
        &mut self,
        sql: &str,
        receive: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<u64, ConnectionError> {
        self.begin_copy_out(sql)?;
        loop {
            match self.copied()? {
                Copied::Data(data) => {
                    if let Err(source) = receive(&data) {
                        // Whether the request arrives or not, the data is read to its end.
                        let _ = self.cancel_handle().cancel();
                        return Err(self.fail(ConnectionError::Output { source }));
                    }
                }
                Copied::All(rows) => return Ok(rows),
            }
        }
    }

    /// Begins `COPY ... TO STDOUT`. Nothing else can be asked of the session until [`Session::copied`] has given all.
    pub fn begin_copy_out(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.send_query(sql)?;
        loop {
            match self.wire.next()? {
                Answer::Message(Message::CopyOutResponse(_)) => return Ok(()),
                // A statement before the COPY, or in place of it.
                Answer::Message(
                    Message::CommandComplete(_)
                    | Message::RowDescription(_)
                    | Message::DataRow(_)
                    | Message::EmptyQueryResponse,
                ) => {}
                Answer::Message(Message::ReadyForQuery(body)) => {
                    self.set_status(body.status())?;
                    return Err(ConnectionError::usage("the statement is no COPY TO STDOUT"));
                }
                Answer::Message(Message::CopyInResponse(_)) => {
                    self.send_copy_fail("no data")?;
                    let _ = self.collect();
                    return Err(ConnectionError::usage("the statement is a COPY FROM STDIN"));
                }
                Answer::Message(_) => {
                    return Err(self.wire.violate("an answer that does not belong to COPY".into()));
                }
                Answer::Error(message) => return Err(self.fail(ConnectionError::Server(message))),
            }
        }
    }

    /// The next message of a COPY that was begun: in text format a row, in binary one or its beginning.
    pub fn copied(&mut self) -> Result<Copied, ConnectionError> {
        match self.wire.next()? {
            Answer::Message(Message::CopyData(body)) => Ok(Copied::Data(body.into_bytes())),
            Answer::Message(Message::CopyDone) => Ok(Copied::All(self.collect()?.rows_affected)),
            Answer::Message(_) => {
                Err(self.wire.violate("an answer that does not belong to COPY".into()))
            }
            Answer::Error(message) => Err(self.fail(ConnectionError::Server(message))),
        }
    }

    /// Reads what is left, and returns the error that came first.
    fn fail(&mut self, error: ConnectionError) -> ConnectionError {
        if let ConnectionError::Server(message) = &error
            && message.is_fatal()
        {
            self.wire.set_broken(&message.message);
            return error;
        }
        let _ = self.collect();
        error
    }
}
