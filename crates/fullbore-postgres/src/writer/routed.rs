//! Rows that wait until there are many for each partition.

use std::sync::Arc;

use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::encode_copy::{BINARY_HEADER, BINARY_TRAILER};
use crate::routes::{Routes, frames};

/// Bytes of rows that wait, of all partitions together: with 64 of them each COPY has about two thousand rows.
const WAITING_BYTES: usize = 16 << 20;

pub struct Routed {
    routes: Arc<Routes>,
    /// By the number of the partition.
    waiting: Vec<Waiting>,
    bytes: usize,
}

#[derive(Default)]
struct Waiting {
    encoded: Vec<u8>,
    /// The piece has sent rows to it.
    is_filled: bool,
}

impl Routed {
    pub fn new(routes: Arc<Routes>) -> Self {
        let waiting = (0..routes.count()).map(|_| Waiting::default()).collect();
        Self { routes, waiting, bytes: 0 }
    }

    /// Takes what an encoder has written.
    pub fn take(&mut self, encoded: &[u8]) {
        for (number, encoded) in frames(encoded) {
            let waiting = &mut self.waiting[number];
            waiting.encoded.extend_from_slice(encoded);
            self.bytes += encoded.len();
        }
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= WAITING_BYTES
    }

    /// Sends all rows that wait, each partition's by a COPY into it; how many were taken.
    pub fn send(
        &mut self,
        session: &mut Session,
        table: &QualifiedName,
        column_list: &str,
    ) -> std::result::Result<u64, ConnectionError> {
        let share = 2 * WAITING_BYTES / self.waiting.len();
        let mut taken = 0;
        for (number, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.encoded.is_empty() {
                continue;
            }
            let to = self.routes.partition(number).unwrap_or(table);
            let sql = format!("COPY {to} ({column_list}) FROM STDIN (FORMAT binary)");
            tracing::debug!(
                backend = session.backend_pid(),
                bytes = waiting.encoded.len(),
                "{sql}"
            );
            let mut copy = session.copy_in(&sql)?;
            copy.send(BINARY_HEADER)?;
            copy.send(&waiting.encoded)?;
            copy.send(BINARY_TRAILER)?;
            taken += copy.finish()?;
            waiting.encoded.clear();
            // One that had far more than its share does not keep room for as many.
            waiting.encoded.shrink_to(share);
            waiting.is_filled = true;
        }
        self.bytes = 0;
        Ok(taken)
    }

    /// A statement that fails unless all partitions that were filled are what was planned.
    pub fn assertion(&self) -> Result<Option<String>> {
        let filled = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.is_filled);
        self.routes.assertion(filled.map(|(number, _)| number))
    }
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
