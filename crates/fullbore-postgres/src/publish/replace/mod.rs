//! `replace`: a new table is filled beside the old one, indexed, and put in its place.
//!
//! The way of a replacement, a module per step: [`obstacles`] names what can't come along and
//! refuses it before a row moves; [`writers`] notes who writes to the old table as the run begins;
//! [`staging`] makes the new table; `rebuild` builds indexes and foreign keys on it; [`locks`] keeps others
//! out for the swap, and looks for what they wrote; [`show`] swaps the two in one transaction, with everything that hangs on
//! the old table as `carry` and `grants` tell it. Nothing is ever dropped by CASCADE: what was
//! overlooked makes the swap fail, and the old table stays as it was.
//!
//! With `--keep-old` the old table is not dropped but moved into a schema of its own, with all that
//! belongs to it under its own name, so that [`undo`] can put it back as it was.
//!
//! Comes along: columns with defaults, generated and identity columns, storage, compression,
//! statistics targets and options; constraints, indexes, outgoing foreign keys; owner, grants,
//! comments, storage parameters, persistence, access method, tablespace; owned and identity
//! sequences with where they stand; extended statistics, CLUSTER ON, replica identity.
//! A CHECK that was NOT VALID comes back valid, since every new row has passed it.

mod carry;
mod definition;
mod grants;
pub mod locks;
mod obstacles;
mod rebuild;
pub mod staging;
pub mod undo;
mod writers;

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::indexes::Job;
use super::ours;
use crate::catalog::{self, Relation};
use crate::destination::Postgres;
use crate::error::{failed, failed_while};
use crate::ledger::runs;
use crate::target::Target;
pub use locks::Guard;
pub use obstacles::check;
pub use writers::Baseline;

/// Makes the new table, empty and committed, for all sessions to fill.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &Target,
) -> Result<()> {
    let tablespace = postgres.tablespace(table)?;
    in_transaction(session, |session| {
        let old = unchanged(postgres, session, table)?;
        let baseline = Baseline::take(session, &old.name, old.oid)?;
        postgres.baselines().insert(table, baseline);
        if let Some(ledger) = postgres.ledger() {
            runs::noted(session, ledger, plan, postgres)?;
        }
        staging::make(session, &old, &target.staging(plan)?, &tablespace)
    })
}

/// The old table's indexes and foreign keys on the new one.
pub fn index_jobs(postgres: &Postgres, plan: &Plan, table: usize) -> Result<Vec<Job>> {
    index_jobs_by(postgres, &mut postgres.control(), plan, table)
}

/// The same by a session that the caller has.
pub fn index_jobs_by(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
) -> Result<Vec<Job>> {
    let staging = postgres.targets()[table].staging(plan)?;
    in_transaction(session, |session| {
        let old = unchanged(postgres, session, table)?;
        let jobs = rebuild::jobs(session, plan, &old, &staging)?;
        match postgres.is_later_attempt() {
            true => rebuild::left_to_do(session, &staging, jobs),
            false => Ok(jobs),
        }
    })
}

/// Puts the new table in the old one's place, in the transaction that is open and has locked it.
pub fn show(postgres: &Postgres, session: &mut Session, plan: &Plan, table: usize) -> Result<()> {
    let target = &postgres.targets()[table];
    let name = target.name();
    let staging = target.staging(plan)?;
    let old = unchanged(postgres, session, table)?;
    obstacles::none(session, &old)?;
    let kept = target.kept(&plan.run_id)?;
    for statement in swap(session, &old, &staging, kept.as_ref())? {
        session
            .execute(&statement)
            .map_err(|error| failed_while(error, &format!("replacing {name} by `{statement}`")))?;
    }
    Ok(())
}

/// The statements that swap the tables, if they are still alike. What is done after the rename
/// is told from the old table, in names that are the new one's by then.
fn swap(
    session: &mut Session,
    old: &Relation,
    staging: &QualifiedName,
    kept: Option<&QualifiedName>,
) -> Result<Vec<String>> {
    let new = ours(session, staging, old)?.ok_or_else(|| changed(staging, "it is gone"))?;
    let name = &old.name;
    definition::equal(session, old, new.oid, definition::With::ForeignKeys)?;
    let renamed_indexes = rebuild::renames(session, old, new.oid)?;
    let (moved_sequences, renamed_sequences) = carry::sequences(session, old.oid, &new)?;
    let mut carried = grants::of_table(session, old, new.oid)?;
    carried.extend(carry::everything_else(session, old, new.oid)?);

    let mut statements = moved_sequences;
    match kept {
        Some(kept) => statements.extend(undo::put_away(session, old, kept)?),
        None => statements.push(format!("DROP TABLE {name} RESTRICT")),
    }
    statements.push(format!("ALTER TABLE {staging} RENAME TO {}", quote(name.name())?));
    statements.extend(renamed_indexes);
    statements.extend(renamed_sequences);
    statements.extend(carried);
    Ok(statements)
}

/// The target as it is now, refused where it is no longer what the plan was made for.
fn unchanged(postgres: &Postgres, session: &mut Session, table: usize) -> Result<Relation> {
    let planned = &postgres.targets()[table].relation;
    let found = known(session, &planned.name)?;
    if found.oid != postgres.planned(table).oid() {
        return Err(changed(&planned.name, "it was dropped and created again"));
    }
    let columns = |relation: &Relation| -> Vec<_> {
        let columns = relation.columns.iter();
        columns
            .map(|c| (c.name.clone(), c.type_name.clone(), c.is_not_null, c.is_generated))
            .collect()
    };
    if found.kind != planned.kind || columns(&found) != columns(planned) {
        return Err(changed(&planned.name, "its columns are no longer the same"));
    }
    Ok(found)
}

fn known(session: &mut Session, name: &QualifiedName) -> Result<Relation> {
    let relation = catalog::relation(session, name).map_err(failed)?;
    relation.ok_or_else(|| changed(name, "it is gone"))
}

/// Somebody changed a table under the run.
fn changed(name: &QualifiedName, how: &str) -> Error {
    Error::Destination {
        message: format!("{name} was changed by somebody during the load: {how}"),
        hint: Some("nothing was replaced; undo the change, and the run can go on".into()),
        kind: DestinationFailure::Changed,
    }
}

/// Runs `work` in a transaction that is taken back if it fails.
fn in_transaction<T>(
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    session.execute("BEGIN").map_err(failed)?;
    let result = work(session);
    // The first error is the one to tell.
    let ended = session.execute(if result.is_ok() { "COMMIT" } else { "ROLLBACK" });
    let value = result?;
    ended.map_err(failed)?;
    Ok(value)
}

/// The column `sql` of what a query returns: statements, or names.
fn texts(session: &mut Session, query: &str) -> Result<Vec<String>, ConnectionError> {
    let rows = session.query(query)?;
    Ok(rows.iter().filter_map(|row| row.get("sql").map(str::to_owned)).collect())
}

/// Puts values into a query's `{places}`, in one go: a value may look like a place itself.
fn fill(query: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = query;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}').expect("a place ends");
        let value = values.iter().find(|(known, _)| *known == place);
        filled.push_str(before);
        filled.push_str(value.unwrap_or_else(|| panic!("a value for {place}")).1);
        rest = after;
    }
    filled + rest
}

fn quote(name: &str) -> Result<String> {
    quote_identifier(name).map_err(failed)
}

/// A name as a constant inside SQL: for format() and for regclass.
fn literal(name: &QualifiedName) -> Result<String> {
    quote_literal(&name.to_string()).map_err(failed)
}
