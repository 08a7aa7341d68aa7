//! Indexes that a new table has from the beginning: the server's extension fills them from rows as they pass.
//!
//! The others, and those whose keys turn out not to be unique, are built with `CREATE INDEX` when the load is
//! published, as all are after COPY.

use std::sync::Arc;

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::check;
use crate::catalog::{self, IndexDefinition};
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;
use crate::publish::{indexes, partitions, replace};
use crate::target::PostgresTable;

/// A target's indexes, in the catalog's order, each with why the extension can't fill it, if it can't.
pub type Filled = Vec<(IndexDefinition, Option<String>)>;

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
    if target.publish == Publish::Append {
        // It has its own.
        return Ok(!wanted.is_empty());
    }
    let mut made = false;
    for (number, (index, reason)) in wanted.iter().enumerate() {
        if reason.is_some() {
            continue;
        }
        let statements = match target.publish {
            Publish::Replace => replace::index_statements(plan, target, number, index, name)?,
            _ => indexes::job(index, name, target.name())?.statements,
        };
        for sql in statements {
            let what = format!("creating index {} of {}", index.name, target.name());
            session.execute(&sql).map_err(|error| failed_while(error, &what))?;
        }
        made = true;
    }
    Ok(made)
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

/// The indexes of a table, and which of them tables like it can have from the beginning.
pub fn of_table(session: &mut Session, oid: u32) -> Result<Filled, ConnectionError> {
    let found = catalog::indexes(session, oid)?;
    let Some(fills) = check::function(session, check::FILLS)? else {
        let old = "the server's extension is older than 0.3.0";
        return Ok(found.into_iter().map(|index| (index, Some(old.to_owned()))).collect());
    };
    let oids: Vec<String> = found.iter().map(|index| index.oid.to_string()).collect();
    let rows = session.query(&format!(
        "SELECT {fills}(index::pg_catalog.regclass) AS reason
           FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.oid[]) WITH ORDINALITY AS of (index, place)
          ORDER BY place",
        oids.join(", ")
    ))?;
    let reasons = rows.iter().map(|row| row.get("reason").map(str::to_owned));
    Ok(found.into_iter().zip(reasons).collect())
}

/// How each index will be made, in words.
pub fn notes(indexes: &Filled) -> Vec<String> {
    let note = |(index, reason): &(IndexDefinition, Option<String>)| {
        let known = index.constraint.as_ref().map_or(&index.name, |constraint| &constraint.name);
        match reason {
            None => format!("index {known}: filled while rows are loaded"),
            Some(reason) => format!("index {known}: created after the rows are loaded ({reason})"),
        }
    };
    indexes.iter().map(note).collect()
}

/// Builds the indexes that were made, and takes away those whose keys are not unique.
pub fn finish(session: &mut Session, table: &QualifiedName) -> Result<(), ConnectionError> {
    let finish = check::function(session, check::FINISH)?.ok_or_else(|| {
        ConnectionError::usage("the extension's function finish(regclass) does not exist")
    })?;
    let rows = session.query(&format!(
        "SELECT index::pg_catalog.regclass::pg_catalog.text AS index, conname
           FROM pg_catalog.unnest({finish}({}::pg_catalog.regclass)) AS index
           LEFT JOIN pg_catalog.pg_constraint ON conindid OPERATOR(pg_catalog.=) index",
        quote_literal(&table.to_string())?
    ))?;
    for row in &rows {
        let sql = match row.get("conname") {
            Some(name) => {
                format!("ALTER TABLE {table} DROP CONSTRAINT {}", quote_identifier(name)?)
            }
            None => format!("DROP INDEX {}", row.get("index").unwrap_or_default()),
        };
        session.execute(&sql)?;
    }
    Ok(())
}
