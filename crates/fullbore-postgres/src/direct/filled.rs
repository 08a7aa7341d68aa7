//! Which indexes the server's extension fills from rows as they pass, and building them.
//!
//! The others are built with `CREATE INDEX` when the load is published, as all are after COPY. One whose keys
//! turn out not to be unique is left invalid: it tells which rows share a key (`shared`).

use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};

use super::check;
use super::known::Filled;
use crate::catalog::{self, IndexDefinition};

/// The indexes of a table, and which of them tables like it can have from the beginning.
pub fn of_table(session: &mut Session, oid: u32) -> Result<Filled, ConnectionError> {
    let found = catalog::indexes(session, oid)?;
    if found.is_empty() {
        return Ok(Filled::new());
    }
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

/// The extension's function that tells which rows share a key.
pub struct Shared {
    function: String,
}

impl Shared {
    pub fn of(session: &mut Session) -> Result<Self, ConnectionError> {
        let function = check::function(session, check::SHARED)?.ok_or_else(|| {
            ConnectionError::usage("the extension's function shared(regclass) does not exist")
        })?;
        Ok(Self { function })
    }

    /// Finds the places (`tid`) of rows that share their key in an index which is invalid for that reason. Where
    /// there are none, the index becomes valid.
    pub fn query(&self, index: u32) -> String {
        let function = &self.function;
        format!(
            "SELECT tid FROM pg_catalog.unnest({function}({index}::pg_catalog.regclass)) AS of (tid)"
        )
    }
}

/// How each index will be made, in words.
pub fn notes(indexes: &Filled) -> Vec<String> {
    let note = |(index, reason): &(IndexDefinition, Option<String>)| {
        let known = index.known();
        match reason {
            None => format!("index {known}: filled while rows are loaded"),
            Some(reason) => format!("index {known}: created after the rows are loaded ({reason})"),
        }
    };
    indexes.iter().map(note).collect()
}

/// Builds the indexes that were made; those whose keys are not unique are invalid, and named.
pub fn finish(
    session: &mut Session,
    table: &QualifiedName,
) -> Result<Option<String>, ConnectionError> {
    let finish = check::function(session, check::FINISH)?.ok_or_else(|| {
        ConnectionError::usage("the extension's function finish(regclass) does not exist")
    })?;
    let rows = session.query(&format!(
        "SELECT pg_catalog.array_to_string({finish}({}::pg_catalog.regclass), ', ') AS invalid",
        quote_literal(&table.to_string())?
    ))?;
    let invalid = rows.first().and_then(|row| row.get("invalid")).unwrap_or_default();
    Ok(Some(invalid.to_owned()).filter(|names| !names.is_empty()))
}
