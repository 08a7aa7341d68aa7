//! Loads the partitions of a table directly, all of them by one session in one transaction.
//!
//! The transaction truncates them, which gives them storage that nobody else sees. So the table must be empty, and its
//! readers wait until all is loaded: it is done where it is requested, not by itself.

use std::time::Duration;

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::check::{self, Missing};
use super::known::Probe;
use super::{filled, probe};
use crate::error::{failed, refused};
use crate::target::PostgresTable;

const BY_COPY: &str = "load by COPY, with --method copy";

/// Asks whether they can be; nothing is touched.
pub fn probe(session: &mut Session, target: &PostgresTable, skip_decoding: bool) -> Result<Probe> {
    let no = |reason: String| Ok(Probe::Impossible { reason, hint: Some(BY_COPY.into()) });
    let missing = check::missing(session).map_err(refused)?;
    if let Some(Missing { what, remedy, .. }) = missing.into_iter().next() {
        return Ok(Probe::Impossible { reason: what, hint: Some(remedy) });
    }
    if target.atomic {
        return no("its rows are staged (--atomic, --max-rejects)".into());
    }
    if !is_empty(session, target.name()).map_err(refused)? {
        return no("it has rows".into());
    }
    let oid = target.relation.oid;
    if let Some(why) = obstacle(session, oid).map_err(refused)? {
        return no(why);
    }
    let leaves = check::described_leaves(session, oid).map_err(refused)?;
    let Some(first) = leaves.first() else {
        return no("it has no partitions with bounds".into());
    };
    if leaves.iter().any(|leaf| leaf.descriptor.hash != first.descriptor.hash) {
        return no("its partitions have columns in different orders".into());
    }
    let refused_one = leaves.iter().find(|leaf| leaf.descriptor.refusal.is_some()).unwrap_or(first);
    let indexes = filled::of_table(session, refused_one.oid).map_err(refused)?;
    if let Some((index, Some(why))) = indexes.iter().find(|(_, why)| why.is_some()) {
        return no(format!("index {} can't be filled ({why})", index.known()));
    }
    match probe::usable(refused_one.descriptor.clone(), indexes) {
        Probe::Described(..) if !skip_decoding && probe::is_decoded(session)? => {
            Ok(probe::decoded())
        }
        usable => Ok(usable),
    }
}

fn is_empty(session: &mut Session, table: &QualifiedName) -> Result<bool, ConnectionError> {
    let sql = format!("{OF_ROLE}SELECT NOT EXISTS (SELECT FROM {table}) AS is_empty");
    let rows = session.query(&sql)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_empty")))
}

/// What keeps the role from truncating them, if anything does.
fn obstacle(session: &mut Session, oid: u32) -> Result<Option<String>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT c.relname, c.relkind = 'r' AS is_plain
           FROM pg_partition_tree({oid}) t JOIN pg_class c ON c.oid = t.relid
          WHERE t.isleaf AND NOT (c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE'))
          ORDER BY 1 LIMIT 1"
    ))?;
    let words = |row: &fullbore_pgwire::Row| match row.flag("is_plain") {
        true => format!("the role does not own its partition {}", row.text("relname")),
        false => format!("its partition {} is not a plain table", row.text("relname")),
    };
    Ok(rows.first().map(words))
}

/// Makes their storage new, in the transaction that is open; refuses where there are rows by now.
pub fn renew(session: &mut Session, table: &QualifiedName, lock_timeout: Duration) -> Result<()> {
    let (timeout, lock) =
        (lock_timeout.as_millis(), format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"));
    let locked = session.execute(&format!(
        "SET LOCAL lock_timeout = {timeout}; {lock}; SET LOCAL lock_timeout = 0"
    ));
    locked.map_err(failed)?;
    if !is_empty(session, table).map_err(failed)? {
        return Err(Error::Destination {
            message: format!("{table} has rows by now: its partitions can't be loaded directly"),
            hint: Some("nothing was loaded; load by COPY, with --method copy".into()),
            kind: DestinationFailure::Changed,
        });
    }
    session.execute(&format!("TRUNCATE {table}")).map(drop).map_err(failed)
}

/// Has the indexes of so many partitions share the memory that those of one would have.
pub fn share_memory(session: &mut Session, partitions: usize) -> Result<()> {
    // Less than a megabyte is refused.
    let shared = session.execute(&format!(
        "SELECT set_config(name, greatest(1024, setting::bigint / {partitions})::text, true)
           FROM pg_settings WHERE name = 'maintenance_work_mem'"
    ));
    shared.map(drop).map_err(failed)
}
