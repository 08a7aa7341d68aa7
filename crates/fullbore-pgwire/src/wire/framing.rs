//! Where a message begins and ends, and what is kept of it.

use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::{self, Message};

use super::{Answer, Wire};
use crate::error::ConnectionError;
use crate::limits;
use crate::server_message::ServerMessage;

/// An error or a notice too long to keep: its beginning, and what is still to be dropped.
pub(super) struct Shortened {
    tag: u8,
    fields: BytesMut,
    left: usize,
}

impl Wire {
    /// The next answer among the bytes read, if it is there whole.
    pub(super) fn parse(&mut self) -> Result<Option<Answer>, ConnectionError> {
        loop {
            if let Some(shortened) = &mut self.shortened {
                let dropped = shortened.left.min(self.incoming.len());
                self.incoming.advance(dropped);
                shortened.left -= dropped;
                if shortened.left > 0 {
                    return Ok(None);
                }
            }
            if let Some(Shortened { tag, fields, .. }) = self.shortened.take() {
                if let Some(error) = self.take_message(tag, &fields) {
                    return Ok(Some(error));
                }
                continue;
            }
            let Some((tag, length)) = self.header()? else {
                return Ok(None);
            };
            if matches!(tag, backend::ERROR_RESPONSE_TAG | backend::NOTICE_RESPONSE_TAG) {
                let kept = (length - 4).min(self.limit(tag));
                if self.incoming.len() < 5 + kept {
                    return Ok(None);
                }
                self.incoming.advance(5);
                self.shortened = Some(Shortened {
                    tag,
                    fields: self.incoming.split_to(kept),
                    left: length - 4 - kept,
                });
                continue;
            }
            if self.incoming.len() < length + 1 {
                return Ok(None);
            }
            match Message::parse(&mut self.incoming) {
                Ok(Some(Message::ParameterStatus(body))) => {
                    if let (Ok(name), Ok(value)) = (body.name(), body.value())
                        && (self.parameters.len() < limits::PARAMETERS_MAX
                            || self.parameters.contains_key(name))
                    {
                        self.parameters.insert(name.into(), value.into());
                    }
                }
                Ok(Some(Message::NotificationResponse(_))) => {}
                Ok(Some(message)) => return Ok(Some(Answer::Message(message))),
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.violate(error.to_string())),
            }
        }
    }

    /// Type and length of the next message, the length counting itself but not the type.
    fn header(&mut self) -> Result<Option<(u8, usize)>, ConnectionError> {
        let Some(&[tag, a, b, c, d]) = self.incoming.first_chunk::<5>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let may_be_cut = matches!(tag, backend::ERROR_RESPONSE_TAG | backend::NOTICE_RESPONSE_TAG);
        if length < 4 || length > i32::MAX as usize {
            return Err(self.violate(format!("a message of impossible length {length}")));
        }
        if length > self.limit(tag) && !may_be_cut {
            return Err(
                self.violate(format!("a message of {length} bytes, of type {:?}", char::from(tag)))
            );
        }
        Ok(Some((tag, length)))
    }

    fn limit(&self, tag: u8) -> usize {
        match tag {
            _ if !self.authenticated => limits::UNAUTHENTICATED_BYTES_MAX,
            backend::ERROR_RESPONSE_TAG | backend::NOTICE_RESPONSE_TAG => {
                limits::SERVER_MESSAGE_BYTES_MAX
            }
            backend::DATA_ROW_TAG | backend::COPY_DATA_TAG => limits::ROW_BYTES_MAX,
            _ => limits::CONTROL_BYTES_MAX,
        }
    }

    /// An error is an answer; a notice is put aside.
    fn take_message(&mut self, tag: u8, fields: &[u8]) -> Option<Answer> {
        let message = ServerMessage::parse(fields);
        if tag == backend::ERROR_RESPONSE_TAG {
            return Some(Answer::Error(Box::new(message)));
        }
        self.notices.push(message);
        None
    }
}
