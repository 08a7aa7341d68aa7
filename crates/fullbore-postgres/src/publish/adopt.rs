//! What tasks of an engine have staged, taken over by the run that publishes it: inserted into the target and
//! dropped, or inserted into the table that takes the target's place. Then they stay until the write is closed: the
//! transaction that shows the rows is another one, and may have to be tried again.

use fullbore_load::job::Staged;
use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::append;
use super::ours::ours;
use crate::direct::{Descriptor, check};
use crate::error::{failed, refuse, refused};
use crate::naming::is_derived;
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// The tables that were staged for a target, checked by their names: a task may say anything.
pub fn tables<'a>(
    plan: &'a Plan,
    target: &PostgresTable,
) -> Result<Vec<(QualifiedName, &'a Staged)>> {
    let Some(write) = &plan.continuity.write else { return Ok(Vec::new()) };
    let named = |staged: &'a Staged| {
        let name = QualifiedName::parse(&staged.table).map_err(refused)?;
        match is_derived(&name, target.name(), write).map_err(failed)? {
            true => Ok((name, staged)),
            false => Err(refuse(
                format!("{name} is no table that write {} has staged", &**write),
                "publish what the tasks of this write returned",
            )),
        }
    };
    plan.continuity.staged.iter().map(named).collect()
}

/// Inserts what one task has staged, in the transaction that is open; how many rows were inserted.
pub fn insert(
    session: &mut Session,
    target: &PostgresTable,
    into: &QualifiedName,
    columns: &str,
    (name, staged): &(QualifiedName, &Staged),
) -> Result<u64> {
    let inserted = insert_staged(session, target, into, columns, (name, staged))?;
    session.execute(&format!("DROP TABLE {name}")).map_err(failed)?;
    Ok(inserted)
}

fn insert_staged(
    session: &mut Session,
    target: &PostgresTable,
    into: &QualifiedName,
    columns: &str,
    (name, staged): (&QualifiedName, &Staged),
) -> Result<u64> {
    if ours(session, name, &target.relation)?.is_none() {
        return Err(gone(name));
    }
    let inserted = append::insert_all(session, target, into, columns, name)?;
    // A trigger of the target may keep rows out. But a crash of the server empties the table, too, and whoever
    // owns it can change it.
    if inserted != staged.rows {
        let counted = count(session, name)?;
        if counted != staged.rows {
            return Err(lost(name, staged.rows, counted));
        }
    }
    Ok(inserted)
}

fn count(session: &mut Session, name: &QualifiedName) -> Result<u64> {
    let sql = format!("SELECT pg_catalog.count(*) AS rows FROM {name}");
    let found = session.query(&sql).map_err(failed)?;
    Ok(found.first().and_then(|row| row.number("rows")).unwrap_or_default())
}

fn lost(name: &QualifiedName, filled: u64, found: u64) -> Error {
    Error::Destination {
        message: format!("{name} was filled with {filled} rows, and has {found} now"),
        hint: Some("nothing was published; write again".into()),
        // Not lost: another try finds the same.
        kind: DestinationFailure::Gone,
    }
}

fn gone(name: &QualifiedName) -> Error {
    Error::Destination {
        message: format!("{name}, which a task has filled, no longer exists"),
        hint: Some("nothing was published; write again".into()),
        kind: DestinationFailure::Gone,
    }
}

/// Fills the table that takes a target's place; nobody sees it yet.
pub fn fill(postgres: &Postgres, plan: &Plan, table: usize, target: &PostgresTable) -> Result<()> {
    let staged = tables(plan, target)?;
    let into = target.staging(plan)?;
    let mut session = postgres.marked_session()?;
    // An earlier attempt may have filled it: the rows of all tasks, or only of some.
    let wanted: u64 = staged.iter().map(|(_, staged)| staged.rows).sum();
    let found = count(&mut session, &into)?;
    if found == wanted {
        return Ok(());
    }
    if found > 0 {
        postgres.truncate(&mut session, &into)?;
    }
    if let Some(direct) = &target.direct
        && let Some(adopt) = adopting(&mut session, &direct.descriptor, &staged)?
    {
        return take(postgres, &mut session, target, &into, &adopt, &staged);
    }
    insert_side_by_side(postgres, plan, target, &into, &target.column_list(plan, table)?, &staged)
}

/// The extension's function that takes rows over as they are stored, where it is there and all tables have the
/// layout of the new one.
fn adopting(
    session: &mut Session,
    wanted: &Descriptor,
    staged: &[(QualifiedName, &Staged)],
) -> Result<Option<String>> {
    let Some(adopt) = check::function(session, check::ADOPT).map_err(failed)? else {
        return Ok(None);
    };
    let names = staged.iter().map(|(name, _)| quote_literal(&name.to_string()));
    let names: Vec<String> = names.collect::<Result<_, _>>().map_err(failed)?;
    let hashes = check::hashes(session, &names).map_err(failed)?;
    Ok(hashes.iter().all(|hash| *hash == wanted.hash).then_some(adopt))
}

/// Takes the rows over by one session: one heap is written directly by one only.
fn take(
    postgres: &Postgres,
    session: &mut Session,
    target: &PostgresTable,
    into: &QualifiedName,
    adopt: &str,
    staged: &[(QualifiedName, &Staged)],
) -> Result<()> {
    let literal = |name: &QualifiedName| quote_literal(&name.to_string()).map_err(failed);
    session.execute("BEGIN").map_err(failed)?;
    postgres.truncate(session, into)?;
    for (name, staged) in staged {
        if ours(session, name, &target.relation)?.is_none() {
            return Err(gone(name));
        }
        let sql = format!("SELECT {adopt}({}, {}) AS rows", literal(into)?, literal(name)?);
        let found = session.query(&sql).map_err(failed)?;
        let rows = found.first().and_then(|row| row.get("rows")?.parse().ok()).unwrap_or_default();
        if rows != staged.rows {
            return Err(lost(name, staged.rows, rows));
        }
    }
    session.execute("COMMIT").map_err(failed)?;
    Ok(())
}

/// Inserts the rows, by several sessions.
fn insert_side_by_side(
    postgres: &Postgres,
    plan: &Plan,
    target: &PostgresTable,
    into: &QualifiedName,
    columns: &str,
    staged: &[(QualifiedName, &Staged)],
) -> Result<()> {
    postgres.share_out(plan.streams, staged.iter().collect(), |session, one| {
        session.execute("BEGIN").map_err(failed)?;
        let rows = insert_staged(session, target, into, columns, (&one.0, one.1))?;
        if rows != one.1.rows {
            return Err(lost(&one.0, one.1.rows, rows));
        }
        session.execute("COMMIT").map(drop).map_err(failed)
    })
}
