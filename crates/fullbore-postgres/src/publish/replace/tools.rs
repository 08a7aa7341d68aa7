//! What the steps of a replacement share.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::catalog::{self, Relation};
use crate::error::failed;
use crate::postgres::Postgres;

/// The target as it is now, refused where it is no longer what the plan was made for.
pub fn unchanged(postgres: &Postgres, session: &mut Session, table: usize) -> Result<Relation> {
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
        return Err(changed(&planned.name, "its columns have changed"));
    }
    Ok(found)
}

pub fn known(session: &mut Session, name: &QualifiedName) -> Result<Relation> {
    let relation = catalog::relation(session, name).map_err(failed)?;
    relation.ok_or_else(|| changed(name, "it no longer exists"))
}

/// Somebody changed a table under the run.
pub fn changed(name: &QualifiedName, how: &str) -> Error {
    Error::Destination {
        message: format!("{name} was changed by another session during the load: {how}"),
        hint: Some("nothing was replaced; undo the change, then resume the run".into()),
        kind: DestinationFailure::Changed,
    }
}

/// Runs `work` in a transaction that is rolled back if it fails.
pub fn in_transaction<T>(
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

/// The statement that lets a transaction's sorts have as much memory as an index build.
pub const SORTS: &str =
    "SELECT set_config('work_mem', current_setting('maintenance_work_mem'), true)";

/// The column `sql` of what a query returns: statements, or names.
pub fn texts(session: &mut Session, query: &str) -> Result<Vec<String>, ConnectionError> {
    let rows = session.query(query)?;
    Ok(rows.iter().filter_map(|row| row.get("sql").map(str::to_owned)).collect())
}

/// Puts values into a query's `{places}`, in one go: a value may look like a place itself.
pub fn fill(query: &str, values: &[(&str, &str)]) -> String {
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

pub fn quote(name: &str) -> Result<String> {
    quote_identifier(name).map_err(failed)
}

/// A name as a constant inside SQL: for format() and for regclass.
pub fn literal(name: &QualifiedName) -> Result<String> {
    quote_literal(&name.to_string()).map_err(failed)
}
