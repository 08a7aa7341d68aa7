//! A query's result, out of the messages that answer it.

use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{Message, RowDescriptionBody};

use super::Session;
use crate::error::ConnectionError;
use crate::limits::RESULT_BYTES_MAX;
use crate::rows::{QueryResult, Row, rows_of_tag};
use crate::wire::Answer;

impl Session {
    /// Reads all answers up to the point where the server waits for us again. Whatever goes
    /// wrong on the way, the session is usable afterwards, unless it is lost.
    pub(crate) fn collect(&mut self) -> Result<QueryResult, ConnectionError> {
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
