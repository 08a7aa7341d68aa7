//! Targets that a run creates, and drops again if it fails.
//!
//! A table is the run's own only if its CREATE succeeded, and only by object id: another session may have
//! created a table of that name meanwhile. The id is recorded in the transaction of the CREATE, so the
//! run's tables are always known.

use fullbore_load::plan::Plan;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::{Error, Result};

use crate::catalog;
use crate::error::{failed, failed_while, refuse};
use crate::ledger::runs;
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// The server's words for a table of that name, for its type of that name, and for the same seen too
/// late to be told as such.
const IS_THERE: [&str; 3] = ["42P07", "42710", "23505"];

/// How long a table that may go is waited for: whoever holds it longer has put something into it, or is
/// about to.
const LOCK_TIMEOUT: &str = "5s";

/// Makes a target by its statement, and notes which table it is.
pub fn make(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    create: &str,
) -> Result<()> {
    session.execute("BEGIN").map_err(failed)?;
    let made = (|| {
        let target = &postgres.targets()[table];
        let create = format!("{OF_ROLE}{create}");
        session.execute(&create).map_err(|error| not_made(error, target))?;
        let found = catalog::relation(session, target.name()).map_err(failed)?;
        let relation = found.ok_or_else(|| {
            refuse(
                format!("the statement that creates {} now creates another table", target.name()),
                "the search path was changed since the load was planned; load again",
            )
        })?;
        postgres.note_made(table, relation);
        if let Some(ledger) = postgres.ledger() {
            runs::noted(session, ledger, plan, postgres)?;
        }
        session.execute("COMMIT").map_err(failed)?;
        Ok(())
    })();
    made.inspect_err(|_| {
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
    })
}

fn not_made(error: ConnectionError, target: &PostgresTable) -> Error {
    let name = target.name();
    match error.sqlstate() {
        Some(code) if IS_THERE.contains(&code) => refuse(
            format!("another session created {name} after this load was planned: {error}"),
            "load again into the existing table, or use another one with --table",
        ),
        _ => failed_while(error, &format!("making {name}")),
    }
}

/// Takes away what the run made of its targets, unless there is something in them: rows that plain
/// append had committed, or what somebody else has put there.
pub fn take_away(postgres: &Postgres, session: &mut Session) -> Result<()> {
    let made: Vec<(QualifiedName, u32)> = match postgres.ledger() {
        // It also knows what an earlier attempt made.
        Some(ledger) => {
            let which = runs::Which::Run(&ledger.run_id);
            let known = runs::find(session, &ledger.schema, &which)?;
            let tables = known.into_iter().flat_map(|run| run.tables);
            let made = tables.filter(|table| table.creates);
            made.map(|table| (table.target, table.oid)).collect()
        }
        None => {
            let made = postgres.made();
            made.values().map(|relation| (relation.name.clone(), relation.oid)).collect()
        }
    };
    for (name, oid) in made {
        drop_if_empty(session, &name, oid)?;
    }
    Ok(())
}

/// Drops tables that the run made beside its targets; those that stay, and why.
pub fn drop_tables(
    session: &mut Session,
    mut names: Vec<QualifiedName>,
) -> Vec<(QualifiedName, ConnectionError)> {
    loop {
        let tables = names.len();
        let mut left = Vec::new();
        for name in names {
            if let Err(error) = drop_table(session, &name) {
                left.push((name, error));
            }
        }
        // One may have waited for another that refers to it.
        if left.is_empty() || left.len() == tables {
            return left;
        }
        names = left.into_iter().map(|(name, _)| name).collect();
    }
}

/// Drops a table that the run made beside a target, whatever is in it. Whoever reads it is not waited for
/// for ever: what stays is named, and can be dropped later.
pub fn drop_table(session: &mut Session, name: &QualifiedName) -> Result<(), ConnectionError> {
    let dropped = session.execute(&format!(
        "BEGIN; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; DROP TABLE IF EXISTS {name}; COMMIT"
    ));
    dropped.map(drop).inspect_err(|_| {
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
    })
}

/// Drops a table that the run made, unless it is another one by now, or somebody has put rows or
/// partitions into it since.
pub fn drop_if_empty(session: &mut Session, name: &QualifiedName, oid: u32) -> Result<()> {
    let is_ours = |found: Option<catalog::Relation>| found.is_some_and(|found| found.oid == oid);
    if !is_ours(catalog::relation(session, name).map_err(failed)?) {
        return Ok(());
    }
    let literal = quote_literal(&name.to_string()).map_err(failed)?;
    let looked = session.query(&format!(
        "BEGIN; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}';
         LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE;
         SELECT {literal}::regclass <> {oid}::oid
                OR EXISTS (SELECT FROM {name})
                OR EXISTS (SELECT FROM pg_inherits WHERE inhparent = {literal}::regclass) AS filled"
    ));
    let is_empty = matches!(
        looked.as_deref(),
        Ok([row]) if row.get("filled") == Some("f")
    );
    let ended = match is_empty {
        true => session.execute(&format!("DROP TABLE {name}; COMMIT")),
        false => session.execute("ROLLBACK"),
    };
    if !is_empty {
        tracing::info!("{name} is not dropped: it has rows that the run did not load");
    }
    if let Err(error) = ended {
        tracing::warn!("{name} stays: {error}");
        let _ = session.execute("ROLLBACK");
    }
    Ok(())
}
