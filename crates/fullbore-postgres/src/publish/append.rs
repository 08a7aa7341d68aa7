//! `append --atomic`: rows wait in an unlogged table and enter the target in one statement.
//!
//! Plain `append` has nothing to publish: its pieces are visible as they are committed.

use fullbore_load::plan::Plan;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{QualifiedName, Session, quote_identifier};
use fullbore_read::error::Result;

use super::adopt;
use super::hidden;
use super::ours::ours;
use super::target_lock::{Partitions, lock};
use crate::catalog::{Column, Relation};
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;
use crate::publish::locking::LockWait;
use crate::target::PostgresTable;
use crate::verify;

pub fn prepare(
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    let staging = target.staging(plan)?;
    let filled = target.filled(plan, table);
    let sql = staging_like(&target.relation, &staging, "", |column| filled.contains(&column))?;
    session.execute(&sql).map_err(failed)?;
    Ok(())
}

/// The statements that make a table in which rows wait for their target; `options` follow its columns. An
/// identity column that is not sent, which `is_filled` says, is filled as a row enters the target, not here.
pub fn staging_like(
    target: &Relation,
    staging: &QualifiedName,
    options: &str,
    is_filled: impl Fn(&Column) -> bool,
) -> Result<String> {
    // A row that breaks a CHECK is found as it comes, not when all are there; but not before a
    // trigger of the target had its chance to mend it.
    let is_mended = target.kind == 'f' || target.is_changed_before;
    let constraints = if is_mended { "" } else { " INCLUDING CONSTRAINTS" };
    // Unlogged: what a crash takes from it is loaded again anyway.
    let mut sql = format!(
        "CREATE UNLOGGED TABLE {staging} (LIKE {} INCLUDING DEFAULTS INCLUDING GENERATED{constraints}){options}",
        target.name
    );
    let is_free = |column: &&Column| column.is_not_null && (is_mended || is_filled(column));
    for column in target.columns.iter().filter(is_free) {
        let column = quote_identifier(&column.name).map_err(failed)?;
        sql.push_str(&format!("; ALTER TABLE {staging} ALTER {column} DROP NOT NULL"));
    }
    sql.push_str(&format!("; {}", hidden::hide(&staging.to_string()).map_err(failed)?));
    Ok(sql)
}

/// Inserts all rows of a staging table into the target, or into what takes its place; how many.
pub fn insert_all(
    session: &mut Session,
    target: &PostgresTable,
    into: &QualifiedName,
    columns: &str,
    staging: &QualifiedName,
) -> Result<u64> {
    session
        .execute(&format!(
            "{OF_ROLE}INSERT INTO {into} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {staging}"
        ))
        .map_err(|error| failed_while(error, &format!("appending to {}", target.name())))
}

/// Inserts what was staged, `staged` rows; how many of them the target's own triggers kept out.
pub fn show(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    staged: u64,
) -> Result<u64> {
    let target = &postgres.targets()[table];
    let planned = postgres.planned(table);
    lock(session, target.name(), Partitions::Not)?;
    planned.check(session)?;
    // Rows may have to wait for others' rows of the same key: that is no lock of the table.
    session.execute("SET LOCAL lock_timeout = 0").map_err(failed)?;
    let columns = target.column_list(plan, table)?;
    let staging = target.staging(plan)?;
    ours(session, &staging, &target.relation)?;
    let mut inserted = insert_all(session, target, target.name(), &columns, &staging)?;
    let mut staged = staged;
    for one in adopt::tables(plan, target)? {
        inserted += adopt::insert(session, target, target.name(), &columns, &one)?;
        staged += one.1.rows;
    }
    // Once more: from here on the INSERT's own lock keeps the table what it is.
    planned.check(session)?;
    session.execute(&LockWait::of(plan).set_local()).map_err(failed)?;
    verify::kept_out::check_count(session, &target.name().to_string(), staged, inserted).and_then(
        |kept_out| {
            session.execute(&format!("DROP TABLE {staging}")).map_err(failed)?;
            Ok(kept_out)
        },
    )
}
