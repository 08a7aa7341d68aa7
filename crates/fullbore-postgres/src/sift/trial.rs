//! What no statement can be asked for, such as what a trigger raises or a partition has of its own:
//! every row is tried, and the trial taken back.

use std::collections::HashMap;

use fullbore_core::error::Result;

use super::{REMOVED, Reason, Sifted};
use crate::careful;
use crate::connection::{ConnectionError, Session, quote_literal};
use crate::error::failed;
use crate::row_loop::{RefusedRow, RowLoop};

/// The rows that are tried, each with where it stands.
const TRIED: &str = "pg_temp.fullbore_tried";

/// Rows that are taken out in one statement.
const ROWS_PER_STATEMENT: usize = 1000;

/// Takes rows out that the target does not take; how many.
pub fn take_out(
    session: &mut Session,
    table: &Sifted<'_>,
    reasons: &mut Vec<Reason>,
) -> Result<u64> {
    if let Some(obstacle) = careful::obstacle(session, table.target.name()).map_err(failed)? {
        tracing::debug!("rows can't be tried one by one: {obstacle}");
        return Ok(0);
    }
    if waits_for_the_end(session, table).map_err(failed)? {
        tracing::debug!("rows can't be tried one by one: a trigger looks at them at the end");
        return Ok(0);
    }
    let mut removed = 0;
    for heap in &table.heaps {
        session
            .execute(&format!(
                "CREATE TEMP TABLE fullbore_tried ON COMMIT DROP AS
                 SELECT row_number() OVER () AS fullbore_place, ctid AS fullbore_tid, {} FROM {heap}",
                table.list("")
            ))
            .map_err(failed)?;
        let refused = try_all(session, table).map_err(failed)?;
        removed += remove(session, table, &heap.to_string(), &refused, reasons)?;
        session.execute(&format!("DROP TABLE {TRIED}")).map_err(failed)?;
    }
    Ok(removed)
}

/// Whether a trigger of the table's own may look at all rows together, when the transaction ends: alone,
/// a row that is good among the others may not be.
fn waits_for_the_end(session: &mut Session, table: &Sifted<'_>) -> Result<bool, ConnectionError> {
    let found = session.query(&format!(
        "SELECT FROM pg_trigger WHERE tgrelid = to_regclass({}) AND NOT tgisinternal AND tgdeferrable
            AND tgenabled IN ('O', 'A') LIMIT 1",
        quote_literal(&table.target.name().to_string())?
    ))?;
    Ok(!found.is_empty())
}

/// Puts the rows of other tables of the run where they will be shown, for those that refer to them. Rows
/// that can't be there yet are told by their own table.
fn show_others(session: &mut Session, table: &Sifted<'_>) -> Result<(), ConnectionError> {
    let others = table.others.iter().filter(|o| o.joins && o.oid != table.target.relation.oid);
    for other in others {
        session.execute("SAVEPOINT fullbore_others")?;
        let mut ended = "RELEASE SAVEPOINT fullbore_others";
        for heap in &other.heaps {
            let columns = &other.columns;
            let inserted = session.execute(&format!(
                "INSERT INTO {} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {heap}",
                other.name
            ));
            match inserted {
                Ok(_) => {}
                Err(ConnectionError::Server(error)) if !error.is_fatal() => {
                    tracing::debug!("rows of {} can't be shown yet: {error}", other.name);
                    ended =
                        "ROLLBACK TO SAVEPOINT fullbore_others; RELEASE SAVEPOINT fullbore_others";
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        session.execute(ended)?;
    }
    Ok(())
}

/// The rows that the target refuses.
fn try_all(session: &mut Session, table: &Sifted<'_>) -> Result<Vec<RefusedRow>, ConnectionError> {
    session.execute("SAVEPOINT fullbore_trial")?;
    show_others(session, table)?;
    session.execute("SET CONSTRAINTS ALL IMMEDIATE")?;
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
    session.execute("ROLLBACK TO SAVEPOINT fullbore_trial; RELEASE SAVEPOINT fullbore_trial")?;
    Ok(refused)
}

fn remove(
    session: &mut Session,
    table: &Sifted<'_>,
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
