//! Finds violations that no statement can find, such as errors of triggers or of a partition's own
//! constraints: inserts every row and rolls back.

use std::collections::HashMap;

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::{Checked, REMOVED, Reason, Waiting};
use crate::error::failed;
use crate::fallback::row_by_row;
use crate::fallback::row_loop::{RefusedRow, RowLoop};

/// The rows that are tried, each with where it stands.
const TRIED: &str = "pg_temp.fullbore_tried";

/// Rows that are taken out in one statement.
const ROWS_PER_STATEMENT: usize = 1000;

/// Takes rows out that the target does not take; how many.
pub fn take_out(
    session: &mut Session,
    table: &Checked<'_>,
    reasons: &mut Vec<Reason>,
) -> Result<u64> {
    if !is_possible(session, table)? {
        return Ok(0);
    }
    let mut removed = 0;
    for heap in table.heaps {
        session
            .execute(&format!(
                "CREATE TEMP TABLE fullbore_tried ON COMMIT DROP AS
                 SELECT row_number() OVER () AS fullbore_place, ctid AS fullbore_tid, {} FROM {heap}",
                table.list("")
            ))
            .map_err(failed)?;
        let Some(refused) = try_all(session, table).map_err(failed)? else {
            tracing::debug!(
                "rows can't be tried one by one: what they refer to can't be published"
            );
            return Ok(removed);
        };
        removed += remove(session, table, &heap.to_string(), &refused, reasons)?;
        session.execute(&format!("DROP TABLE {TRIED}")).map_err(failed)?;
    }
    Ok(removed)
}

/// Whether rows can be tried one by one.
pub fn is_possible(session: &mut Session, table: &Checked<'_>) -> Result<bool> {
    if let Some(obstacle) = row_by_row::obstacle(session, table.target.name()).map_err(failed)? {
        tracing::debug!("rows can't be tried one by one: {obstacle}");
        return Ok(false);
    }
    let waits = waits_for_the_end(session, table).map_err(failed)?;
    if waits {
        tracing::debug!("rows can't be tried one by one: a trigger looks at them at the end");
    }
    Ok(!waits)
}

/// Whether a trigger of the table's own may look at all rows together, when the transaction ends: alone,
/// a row that is good among the others may not be.
fn waits_for_the_end(session: &mut Session, table: &Checked<'_>) -> Result<bool, ConnectionError> {
    let found = session.query(&format!(
        "SELECT FROM pg_trigger WHERE tgrelid = to_regclass({}) AND NOT tgisinternal AND tgdeferrable
            AND tgtype & 4 <> 0 AND tgenabled IN ('O', 'A') LIMIT 1",
        quote_literal(&table.target.name().to_string())?
    ))?;
    Ok(!found.is_empty())
}

/// Puts the rows of other tables of the run where they will be shown, for those that refer to them; whether
/// all are there that the table's rows may refer to.
fn show_others(session: &mut Session, table: &Checked<'_>) -> Result<bool, ConnectionError> {
    let found = session.query(&format!(
        "SELECT DISTINCT confrelid AS oid FROM pg_constraint
          WHERE conrelid = to_regclass({}) AND contype = 'f'",
        quote_literal(&table.target.name().to_string())?
    ))?;
    let parents: Vec<u32> = found.iter().filter_map(|row| row.get("oid")?.parse().ok()).collect();
    let own = table.target.relation.oid;
    for other in table.others.iter().filter(|other| !other.heaps.is_empty()) {
        let oid = other.target.relation.oid;
        // Rows that replace others, or become partitions, can't be shown for a trial.
        let is_shown =
            oid == own || other.target.publish == Publish::Append && show(session, other)?;
        if !is_shown && parents.contains(&oid) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds a table's waiting rows to it, unless some of them can't be there.
fn show(session: &mut Session, other: &Waiting<'_>) -> Result<bool, ConnectionError> {
    session.execute("SAVEPOINT fullbore_others")?;
    let columns = other.names.join(", ");
    let name = other.target.name();
    for heap in &other.heaps {
        let inserted = session.execute(&format!(
            "{OF_ROLE}INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {heap}"
        ));
        match inserted {
            Ok(_) => {}
            Err(ConnectionError::Server(error)) if row_by_row::is_its_own_fault(&error) => {
                tracing::debug!("rows of {name} can't be published yet: {error}");
                session.execute(
                    "ROLLBACK TO SAVEPOINT fullbore_others; RELEASE SAVEPOINT fullbore_others",
                )?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    session.execute("RELEASE SAVEPOINT fullbore_others")?;
    Ok(true)
}

/// The rows that the target refuses; none where they can't be tried.
fn try_all(
    session: &mut Session,
    table: &Checked<'_>,
) -> Result<Option<Vec<RefusedRow>>, ConnectionError> {
    session.execute("SAVEPOINT fullbore_trial; SET CONSTRAINTS ALL IMMEDIATE")?;
    let refused = match show_others(session, table)? {
        false => None,
        true => {
            let (_, refused) = RowLoop {
                source: TRIED,
                place: "fullbore_place",
                declared: "",
                prepared: "",
                insert: &format!(
                    "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                    table.target.name(),
                    table.list(""),
                    table.list("r.")
                ),
            }
            .run(session)?;
            Some(refused)
        }
    };
    session.execute("ROLLBACK TO SAVEPOINT fullbore_trial; RELEASE SAVEPOINT fullbore_trial")?;
    Ok(refused)
}

fn remove(
    session: &mut Session,
    table: &Checked<'_>,
    heap: &str,
    refused: &[RefusedRow],
    reasons: &mut Vec<Reason>,
) -> Result<u64> {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    let mut removed = 0;
    for rows in refused.chunks(ROWS_PER_STATEMENT) {
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let detail = row.detail.as_deref().unwrap_or_default();
            let reason = *known.entry((&row.message, detail)).or_insert_with(|| {
                let detail = row.detail.as_ref().map(|detail| format!(" ({detail})"));
                reasons.push(Reason {
                    column: row.column.clone(),
                    constraint: row.constraint.clone(),
                    code: row.code.clone(),
                    key: None,
                    words: format!("{}{}", row.message, detail.unwrap_or_default()),
                });
                reasons.len() - 1
            });
            values.push(format!("({}, {reason})", row.place));
        }
        removed += session
            .execute(&format!(
                "WITH bad (place, reason) AS (VALUES {}),
                      gone AS (DELETE FROM {heap} h USING {TRIED} t JOIN bad b ON b.place = t.fullbore_place
                                WHERE h.ctid = t.fullbore_tid RETURNING {}, b.reason)
                 INSERT INTO {REMOVED} SELECT *, 0 FROM gone",
                values.join(", "),
                table.list("h.")
            ))
            .map_err(failed)?;
    }
    Ok(removed)
}
