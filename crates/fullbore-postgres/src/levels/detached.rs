//! Tables that were partitions, and those that were to become one.
//!
//! Who takes a partition away has locks that all readers wait for. So its transaction does little: it does not drop the
//! table, which would have its commit wait for the disk, but writes into the ledger that somebody has to.

use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{Error, Result};

use super::batches::partitions;
use super::{LOCK_MS, Table, shape};
use crate::error::{failed, failed_while};
use crate::ledger::locks;
use crate::naming::suffixed;
use crate::publish::locking::is_locked;
use crate::publish::replace::tools::in_transaction;

/// Of a transaction that takes partitions away. Nothing is lost where the server ends before it is on disk: all is as it was
/// before, and whatever drops the tables waits for both.
pub const UNHURRIED: &str = "SET LOCAL synchronous_commit = off";

/// How long the users of a table that is to be dropped are waited for.
const USERS_MS: u64 = 2000;

/// What a partition is called once it is none. A table may be made again under the same name.
fn name_of(table: &Table, first: u64, last: u64) -> Result<QualifiedName> {
    suffixed(&table.name, &format!("_d{}_{first}_{last}", table.oid)).map_err(failed)
}

/// Takes partitions away, in a transaction that has their locks and that of their table. They get other names and take no
/// rows, so that whoever waits to write into one of them fails.
pub fn detach(table: &Table, parts: &[(u64, u64)]) -> Result<String> {
    let Table { oid, ledger, name, .. } = table;
    let mut statements = Vec::new();
    for (first, last) in parts {
        let leaf = shape::leaf(name, *first, *last)?;
        let new = name_of(table, *first, *last)?;
        let new = quote_identifier(new.name()).map_err(failed)?;
        statements.push(format!("ALTER TABLE {name} DETACH PARTITION {leaf}"));
        statements.push(format!(
            "ALTER TABLE {leaf} ADD CONSTRAINT fullbore_detached CHECK (false) NOT VALID"
        ));
        statements.push(format!("ALTER TABLE {leaf} RENAME TO {new}"));
    }
    let numbers: Vec<String> =
        parts.iter().map(|(first, last)| format!("({first}, {last})")).collect();
    statements.push(format!(
        "UPDATE {ledger}.batches SET state = 'detached'
          WHERE target = {oid} AND (first, last) IN ({}) AND state = 'attached'",
        numbers.join(", ")
    ));
    Ok(statements.join("; "))
}

/// The lock of who decides what becomes of partitions.
pub fn lock(session: &mut Session, table: &Table) -> Result<()> {
    let key = locks::key("merge", &table.oid.to_string());
    locks::take_for_transaction(session, key, "choosing partitions to merge")
}

/// Drops what was taken away. What cannot be dropped stays until the next time; why the first of it could not.
pub fn drop_all(session: &mut Session, table: &Table) -> Result<Option<Error>> {
    in_transaction(session, |session| {
        lock(session, table)?;
        let mut first_error = None;
        for (first, last) in partitions(session, table)?.detached {
            let leaf = name_of(table, first, last)?;
            let error = drop_one(session, table, &leaf, (first, last), "detached")?;
            let is_in_use = error.as_ref().is_some_and(is_locked);
            first_error = first_error.or(error);
            // Others wait for the lock: they do not wait for many tables.
            if is_in_use {
                break;
            }
        }
        Ok(first_error)
    })
}

/// Drops a table in a transaction that has the lock, and its row of this state in the ledger; why it could not, where the
/// transaction can go on.
pub fn drop_one(
    session: &mut Session,
    table: &Table,
    leaf: &QualifiedName,
    numbers: (u64, u64),
    state: &str,
) -> Result<Option<Error>> {
    session.execute("SAVEPOINT before_drop").map_err(failed)?;
    let Err(error) = dropped(session, table, leaf, numbers, state) else { return Ok(None) };
    session.execute("ROLLBACK TO SAVEPOINT before_drop").map_err(failed)?;
    Ok(Some(error))
}

fn dropped(
    session: &mut Session,
    table: &Table,
    leaf: &QualifiedName,
    (first, last): (u64, u64),
    state: &str,
) -> Result<()> {
    let Table { oid, ledger, .. } = table;
    let what = format!("dropping {leaf}");
    let mut statements = Vec::new();
    if is_loose(session, leaf)? {
        let lock = format!(
            "SET LOCAL lock_timeout = {USERS_MS}; LOCK TABLE {leaf} IN ACCESS EXCLUSIVE MODE"
        );
        session.execute(&lock).map_err(|error| failed_while(error, &what))?;
        // Its session may have ended while its last statement went on: the table can have become a partition meanwhile.
        if is_loose(session, leaf)? {
            // Tables that it refers to are locked, too.
            statements.push(format!("SET LOCAL lock_timeout = {LOCK_MS}; DROP TABLE {leaf}"));
        }
    }
    statements.push(format!(
        "DELETE FROM {ledger}.batches
          WHERE target = {oid} AND first = {first} AND last = {last} AND state = '{state}'"
    ));
    let statements = statements.join("; ");
    session.execute(&statements).map(drop).map_err(|error| failed_while(error, &what))
}

/// Whether there is a table of this name that is no partition, whatever the ledger says of it.
fn is_loose(session: &mut Session, leaf: &QualifiedName) -> Result<bool> {
    let known = quote_literal(&leaf.to_string()).map_err(failed)?;
    let sql = format!(
        "SELECT NOT relispartition AS is_loose FROM pg_class WHERE oid = to_regclass({known})"
    );
    let found = session.query(&sql).map_err(failed)?;
    Ok(found.first().is_some_and(|row| row.flag("is_loose")))
}
