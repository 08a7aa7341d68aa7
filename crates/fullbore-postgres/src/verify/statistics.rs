//! What the server's statistics say of rows that were taken from a table: none of its statements cost
//! more than a look at the catalog.
//!
//! A DELETE or an UPDATE is counted by the server (`pg_stat_all_tables`, unless `track_counts` is off), at
//! the latest when its session ends; TRUNCATE and every rewrite of a table give it another file. What
//! a crash of the server takes with it is the statistics as a whole, so they are asked only by a run that
//! has lost no connection.

use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use crate::error::failed;

/// An expression: rows of a relation that were deleted or updated so far; NULL where nobody counts.
pub fn changes(oid: &str) -> String {
    format!(
        "CASE WHEN current_setting('track_counts')::boolean
              THEN pg_stat_get_tuples_deleted({oid}) + pg_stat_get_tuples_updated({oid}) END"
    )
}

/// A table that a run has made.
pub struct Made<'a> {
    pub name: &'a QualifiedName,
    /// Rows were committed to it.
    pub has_rows: bool,
    /// The file that the run itself gave it; otherwise it has the one that it was made with, whose number
    /// is the table's own.
    pub file: Option<u32>,
    /// Rows that the run itself has deleted from it.
    pub deleted: u64,
}

/// Has what this session deleted counted before its next statement, where the server can be asked to (from 15
/// on): otherwise it may take seconds.
pub fn flush(session: &mut Session) -> Result<(), ConnectionError> {
    if session.server_version_num() >= 150_000 {
        session.execute("SELECT pg_stat_force_next_flush()")?;
    }
    Ok(())
}

/// Of each table whether all that was committed to it is there for sure.
pub fn are_whole(session: &mut Session, tables: &[Made<'_>]) -> Result<Vec<bool>> {
    let mut values = Vec::new();
    for (number, Made { name, has_rows, file, deleted }) in tables.iter().enumerate() {
        let literal = quote_literal(&name.to_string()).map_err(failed)?;
        let file = file.map_or("NULL".to_owned(), |file| file.to_string());
        values.push(format!("({number}, {literal}, {has_rows}, {file}::oid, {deleted})"));
    }
    let mut are_whole = vec![false; tables.len()];
    if values.is_empty() {
        return Ok(are_whole);
    }
    let rows = session
        .query(&format!(
            "SELECT t.number
               FROM (VALUES {}) AS t (number, name, has_rows, file, deleted)
               JOIN pg_class c ON c.oid = to_regclass(t.name)
              WHERE {} = t.deleted
                AND pg_relation_filenode(c.oid) = coalesce(t.file, c.oid)
                AND (pg_relation_size(c.oid) > 0) = t.has_rows",
            values.join(", "),
            changes("c.oid")
        ))
        .map_err(failed)?;
    for row in &rows {
        let number = row.get("number").and_then(|number| number.parse::<usize>().ok());
        if let Some(is_whole) = number.and_then(|number| are_whole.get_mut(number)) {
            *is_whole = true;
        }
    }
    Ok(are_whole)
}
