//! Indexes that a new table has from the beginning, for the server's extension to fill.

use std::sync::Arc;

use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::{indexes, partitions, replace};
use crate::direct::filled::of_table;
use crate::direct::known::Filled;
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// Makes the indexes that can be filled on a table that is new in this transaction; whether it has any.
pub fn make(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    name: &QualifiedName,
) -> Result<bool> {
    let target = &postgres.targets()[table];
    let wanted = filled(postgres, session, table, target)?;
    if target.publish.joins_rows() {
        // It has its own.
        return Ok(!wanted.is_empty());
    }
    let mut statements = Vec::new();
    for (number, (index, reason)) in wanted.iter().enumerate() {
        if reason.is_some() {
            continue;
        }
        statements.extend(match target.publish {
            Publish::Replace => {
                replace::index_statements(plan, target.name(), number, index, name)?
            }
            _ => indexes::job(index, name, target.name())?.statements,
        });
        // A tablespace was set for this index alone.
        statements.push("SET LOCAL default_tablespace TO DEFAULT".into());
    }
    if statements.is_empty() {
        return Ok(false);
    }
    let what = format!("creating the indexes of {}", target.name());
    let made = session.execute(&statements.join("; "));
    made.map_err(|error| failed_while(error, &what))?;
    Ok(true)
}

fn filled(
    postgres: &Postgres,
    session: &mut Session,
    table: usize,
    target: &PostgresTable,
) -> Result<Arc<Filled>> {
    if let Some(known) = postgres.filled().get(&table) {
        return Ok(Arc::clone(known));
    }
    let oid = partitions::current(session, target)?.oid;
    let found = Arc::new(of_table(session, oid).map_err(failed)?);
    postgres.filled().insert(table, Arc::clone(&found));
    Ok(found)
}
