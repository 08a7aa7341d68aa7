//! Partitions of one table that are loaded directly, by the session whose transaction has made their storage new.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::direct::check;
use crate::direct::known::Direct;
use crate::direct::leaves;
use crate::direct::load::DirectLoad;
use crate::error::failed;
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

pub struct DirectLeaves {
    /// By the number of the partition, from 1 on.
    loads: Vec<DirectLoad>,
    has_held: bool,
}

impl DirectLeaves {
    /// Begins in the transaction that will be theirs, of a table that must be empty.
    pub fn begin(
        session: &mut Session,
        plan: &Plan,
        target: &PostgresTable,
        (direct, routes): (&Direct, &Routes),
        column_list: &str,
    ) -> Result<Self> {
        leaves::renew(session, target.name(), plan.continuity.lock_timeout)?;
        let found = check::described_leaves(session, target.relation.oid).map_err(failed)?;
        if found.iter().any(|leaf| leaf.has_indexes) {
            leaves::share_memory(session, found.len())?;
        }
        let begun = routes.partitions().map(|(_, oid, name)| {
            let leaf = found.iter().find(|leaf| leaf.oid == oid).filter(|leaf| {
                let descriptor = &leaf.descriptor;
                descriptor.refusal.is_none() && descriptor.hash == direct.descriptor.hash
            });
            let leaf = leaf.ok_or_else(|| changed(name))?;
            let fills = leaf.has_indexes;
            DirectLoad::on(name, column_list, &leaf.descriptor, direct.io, None, fills)
        });
        Ok(Self { loads: begun.collect::<Result<_>>()?, has_held: false })
    }

    /// Sends frames of rows of a partition; how many rows were stored.
    pub fn send(
        &mut self,
        session: &mut Session,
        number: usize,
        frames: &[u8],
    ) -> Result<u64, ConnectionError> {
        let load = &mut self.loads[number - 1];
        let sql = load.copy_sql();
        tracing::debug!(backend = session.backend_pid(), bytes = frames.len(), "{sql}");
        let mut copy = session.copy_in(&sql)?;
        copy.send(frames)?;
        let stored = copy.finish()?;
        load.taken();
        Ok(stored)
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
    ) -> Result<Finished, ConnectionError> {
        let mut finished = Finished::default();
        for load in self.loads.iter().filter(|load| load.has_taken()) {
            finished.not_unique = load.finish(session)?.or(finished.not_unique);
        }
        if self.has_held && finished.not_unique.is_none() {
            finished.inserted = session.execute(&format!(
                "INSERT INTO {table} ({column_list}) OVERRIDING SYSTEM VALUE
                     SELECT {column_list} FROM {}",
                HELD.qualified
            ))?;
        }
        Ok(finished)
    }
}

#[derive(Debug, Default)]
pub struct Finished {
    pub inserted: u64,
    /// The indexes of a partition that are invalid since their keys are not unique.
    pub not_unique: Option<String>,
}

/// Keys of partitions are not unique: rows are then judged one by one.
pub fn not_unique(table: &QualifiedName, indexes: &str) -> Error {
    Error::Destination {
        message: format!("rows for {table} share their keys in {indexes}"),
        hint: None,
        kind: DestinationFailure::Constraint,
    }
}

fn changed(partition: &QualifiedName) -> Error {
    Error::Destination {
        message: format!(
            "{partition} can no longer be loaded directly: it has changed since the load was planned"
        ),
        hint: Some("nothing was loaded; undo the change, then resume the run".into()),
        kind: DestinationFailure::Changed,
    }
}
