//! Partitions of one table that are loaded directly, by the session whose transaction has made their storage new.

use fullbore_load::job::DirectIo;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, PausedCopy, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::direct::known::Direct;
use crate::direct::leaves;
use crate::direct::load::DirectLoad;
use crate::routes::Routes;
use crate::target::PostgresTable;

/// Where rows wait whose partition only the server finds. They are inserted once all others are there: until then
/// nothing else may write to a partition.
const HELD: Held = Held { qualified: "pg_temp.fullbore_held", name: "fullbore_held" };

#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub qualified: &'static str,
    pub name: &'static str,
}

/// Bytes that are sent at a time: meanwhile parsers go on, as far as their queue has room.
const SENT: usize = 256 << 10;

pub struct DirectLeaves {
    /// By the number of the partition, from 1 on.
    loads: Vec<DirectLoad>,
    has_held: bool,
    sending: Option<Sending>,
}

/// A COPY into a partition, and what is left to be sent.
struct Sending {
    number: usize,
    frames: Vec<u8>,
    at: usize,
    copy: PausedCopy,
}

impl DirectLeaves {
    /// Begins in the transaction that has made their storage new.
    pub fn begin(
        session: &mut Session,
        target: &PostgresTable,
        (direct, routes): (&Direct, &Routes),
        column_list: &str,
    ) -> Result<Self> {
        let found = leaves::described(session, target.relation.oid)?;
        // Each COPY would wait for its writes past the page cache: there are many of them, and short ones.
        let io = match direct.io {
            DirectIo::Auto => DirectIo::Buffered,
            requested => requested,
        };
        let begun = routes.partitions().map(|(oid, name)| {
            let leaf = found.iter().find(|leaf| leaf.oid == oid).filter(|leaf| {
                let descriptor = &leaf.descriptor;
                descriptor.refusal.is_none() && descriptor.hash == direct.descriptor.hash
            });
            let leaf = leaf.ok_or_else(|| changed(name))?;
            let fills = leaf.has_indexes;
            DirectLoad::on(name, column_list, &leaf.descriptor, io, None, fills)
        });
        Ok(Self { loads: begun.collect::<Result<_>>()?, has_held: false, sending: None })
    }

    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Begins to send frames of rows of a partition.
    pub fn begin_sending(
        &mut self,
        session: &mut Session,
        number: usize,
        frames: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let sql = self.loads[number - 1].copy_sql();
        tracing::debug!(backend = session.backend_pid(), bytes = frames.len(), "{sql}");
        let copy = session.copy_in(&sql)?.pause();
        self.sending = Some(Sending { number, frames, at: 0, copy });
        Ok(())
    }

    /// Sends some of them; how many bytes, and how many rows were stored if these were the last.
    pub fn send_some(&mut self, session: &mut Session) -> Result<(usize, u64), ConnectionError> {
        let Some(sending) = self.sending.take() else { return Ok((0, 0)) };
        let end = sending.frames.len().min(sending.at + SENT);
        let bytes = end - sending.at;
        let mut copy = sending.copy.resume(session);
        copy.send(&sending.frames[sending.at..end])?;
        if end < sending.frames.len() {
            self.sending = Some(Sending { at: end, copy: copy.pause(), ..sending });
            return Ok((bytes, 0));
        }
        let stored = copy.finish()?;
        self.loads[sending.number - 1].taken();
        Ok((bytes, stored))
    }

    /// Gives up what is being sent.
    pub fn abort(&mut self, session: &mut Session) -> Result<(), ConnectionError> {
        match self.sending.take() {
            Some(sending) => sending.copy.resume(session).abort("the piece is rolled back"),
            None => Ok(()),
        }
    }

    /// The table that holds rows of no known partition for now.
    pub fn held(
        &mut self,
        session: &mut Session,
        table: &QualifiedName,
        column_list: &str,
    ) -> Result<Held, ConnectionError> {
        if !self.has_held {
            session.execute(&format!(
                "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS
                     SELECT {column_list} FROM {table} WITH NO DATA",
                HELD.name
            ))?;
            self.has_held = true;
        }
        Ok(HELD)
    }

    /// All rows are sent: builds the indexes, and inserts the rows that were held; how many.
    pub fn finish(
        &self,
        session: &mut Session,
        table: &QualifiedName,
        column_list: &str,
    ) -> Result<u64, ConnectionError> {
        for load in self.loads.iter().filter(|load| load.has_taken()) {
            if let Some(names) = load.finish(session)? {
                return Err(ConnectionError::usage(format!("rows share keys of {names}")));
            }
        }
        if !self.has_held {
            return Ok(0);
        }
        session.execute(&format!(
            "{OF_ROLE}INSERT INTO {table} ({column_list}) OVERRIDING SYSTEM VALUE
                 SELECT {column_list} FROM {}",
            HELD.qualified
        ))
    }
}

/// A row that no partition takes: which one is found by judging rows one by one.
pub fn without_partition(table: &QualifiedName) -> Error {
    Error::Destination {
        message: format!("no partition of {table} takes a row"),
        hint: None,
        kind: DestinationFailure::Constraint,
    }
}

fn changed(partition: &QualifiedName) -> Error {
    Error::Destination {
        message: format!(
            "{partition} can no longer be loaded directly: it has changed since the load was planned"
        ),
        hint: Some("nothing of it was loaded; undo the change, then resume the run".into()),
        kind: DestinationFailure::Changed,
    }
}
