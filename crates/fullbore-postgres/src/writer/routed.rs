//! Rows that wait until there are many for each partition.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::leaves::DirectLeaves;
use crate::encode_copy::{BINARY_HEADER, BINARY_TRAILER};
use crate::routes::{PARENT, Routes, parcels};

/// Bytes of rows that wait, of all partitions and all streams together, and of one stream.
///
/// A COPY should have many thousand rows. From 17 on the server remembers each of the up to 1,000 slots of a COPY's rows
/// (`MAX_BUFFERED_TUPLES`) under the same key of a hash table, so they cost it the square of their number: with 2,000
/// rows for each COPY, a quarter of its CPU.
const ALL_WAITING_BYTES: usize = 256 << 20;
const WAITING_BYTES: RangeInclusive<usize> = (16 << 20)..=(64 << 20);

/// Of what waits, so much stays when the fullest partitions are sent: these have about twice as many rows then.
const STAYS: f64 = 0.875;

/// A partition's room for rows grows by so many bytes.
const GROWS_BY: usize = 256 << 10;

pub struct Routed {
    routes: Arc<Routes>,
    /// How partitions are loaded directly, if they are.
    direct: Option<DirectLeaves>,
    /// By the number of the partition.
    waiting: Vec<Waiting>,
    bytes: usize,
    /// How many bytes may wait.
    most: usize,
}

/// Which rows are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    Fullest,
}

#[derive(Default)]
struct Waiting {
    encoded: Vec<u8>,
    /// The piece has sent rows to it.
    is_filled: bool,
}

impl Routed {
    /// For one of so many streams.
    pub fn new(routes: Arc<Routes>, streams: usize, direct: Option<DirectLeaves>) -> Self {
        let waiting = (0..routes.count()).map(|_| Waiting::default()).collect();
        let share = ALL_WAITING_BYTES / streams.max(1);
        let most = share.clamp(*WAITING_BYTES.start(), *WAITING_BYTES.end());
        Self { routes, direct, waiting, bytes: 0, most }
    }

    /// How partitions are loaded directly, if they are.
    pub fn direct(&mut self) -> Option<&mut DirectLeaves> {
        self.direct.as_mut()
    }

    /// Takes what an encoder has written; whether there may be a place for all of it. In partitions that are loaded
    /// directly, that would else be known at the end.
    #[must_use]
    pub fn take(&mut self, encoded: &[u8]) -> bool {
        for (number, encoded) in parcels(encoded) {
            if number == PARENT as usize && self.direct.is_some() && !self.routes.has_others() {
                return false;
            }
            let waiting = &mut self.waiting[number].encoded;
            if waiting.capacity() - waiting.len() < encoded.len() {
                // Not twice as much: there are many of them.
                waiting.reserve_exact(encoded.len().max(GROWS_BY));
            }
            waiting.extend_from_slice(encoded);
            self.bytes += encoded.len();
        }
        true
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= self.most
    }

    /// Sends rows that wait, each partition's by a COPY into it; how many its table has taken.
    pub fn send(
        &mut self,
        which: Which,
        session: &mut Session,
        table: &QualifiedName,
        column_list: &str,
    ) -> std::result::Result<u64, ConnectionError> {
        if self.direct.is_some() {
            return self.send_directly(which, session, table, column_list);
        }
        let stays = match which {
            Which::All => 0,
            Which::Fullest => (self.most as f64 * STAYS) as usize,
        };
        let share = self.most / self.waiting.len();
        let mut numbers: Vec<usize> =
            (0..self.waiting.len()).filter(|n| !self.waiting[*n].encoded.is_empty()).collect();
        if which == Which::Fullest {
            numbers.sort_by_key(|number| Reverse(self.waiting[*number].encoded.len()));
        }
        let mut taken = 0;
        for number in numbers {
            if self.bytes <= stays {
                break;
            }
            let waiting = &mut self.waiting[number];
            let to = self.routes.partition(number).unwrap_or(table);
            taken += copy_binary(session, &to.to_string(), column_list, &waiting.encoded)?;
            self.bytes -= waiting.encoded.len();
            waiting.encoded.clear();
            // One that had far more than its share does not keep room for as many.
            waiting.encoded.shrink_to(share);
            waiting.is_filled = true;
        }
        Ok(taken)
    }

    /// The same by direct COPYs: a little at a time, so that the server and the parsers work side by side although there
    /// is one session.
    fn send_directly(
        &mut self,
        which: Which,
        session: &mut Session,
        table: &QualifiedName,
        column_list: &str,
    ) -> std::result::Result<u64, ConnectionError> {
        let mut taken = 0;
        while self.bytes >= self.most || which == Which::All && self.bytes > 0 {
            if let Some(stored) = self.send_some(session)? {
                taken += stored;
                continue;
            }
            let Some(direct) = &mut self.direct else { break };
            let fullest = (0..self.waiting.len()).max_by_key(|n| self.waiting[*n].encoded.len());
            let number = fullest.unwrap_or_default();
            let encoded = std::mem::take(&mut self.waiting[number].encoded);
            self.waiting[number].is_filled = true;
            if number == PARENT as usize {
                // Not in the table yet.
                let held = direct.held(session, table, column_list)?;
                copy_binary(session, held.qualified, column_list, &encoded)?;
                self.bytes -= encoded.len();
            } else {
                direct.begin_sending(session, number, encoded)?;
            }
        }
        Ok(taken)
    }

    /// Ends the COPY that is open, if one is; how many rows it has stored.
    pub fn settle(&mut self, session: &mut Session) -> std::result::Result<u64, ConnectionError> {
        let mut taken = 0;
        while let Some(stored) = self.send_some(session)? {
            taken += stored;
        }
        Ok(taken)
    }

    /// Sends some of the rows of the direct COPY that is open; how many it has stored with these, none where no COPY is
    /// open.
    fn send_some(
        &mut self,
        session: &mut Session,
    ) -> std::result::Result<Option<u64>, ConnectionError> {
        let sending = self.direct.as_mut().filter(|direct| direct.is_sending());
        let sent = sending.map(|direct| direct.send_some(session)).transpose()?;
        Ok(sent.map(|(bytes, stored)| {
            self.bytes -= bytes;
            stored
        }))
    }

    /// A statement that fails unless all partitions that were filled are what was planned.
    pub fn assertion(&self) -> Result<Option<String>> {
        let filled = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.is_filled);
        self.routes.assertion(filled.map(|(number, _)| number))
    }
}

fn copy_binary(
    session: &mut Session,
    table: &str,
    column_list: &str,
    encoded: &[u8],
) -> std::result::Result<u64, ConnectionError> {
    let sql = format!("COPY {table} ({column_list}) FROM STDIN (FORMAT binary)");
    tracing::debug!(backend = session.backend_pid(), bytes = encoded.len(), "{sql}");
    let mut copy = session.copy_in(&sql)?;
    copy.send(BINARY_HEADER)?;
    copy.send(encoded)?;
    copy.send(BINARY_TRAILER)?;
    copy.finish()
}

/// The error of a partition that is none any more.
pub fn moved(table: &str) -> Error {
    Error::Destination {
        message: format!(
            "a partition of {table} was detached, renamed or replaced while rows were loaded into it"
        ),
        hint: Some(
            "nothing of the piece was kept; resume the run: it looks at the partitions again"
                .into(),
        ),
        kind: DestinationFailure::Changed,
    }
}
