//! Of rows that share a key, the first in the order of the files stays.

use fullbore_load::sink::Refusal;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, Session, quote_identifier};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::keys::UniqueKey;
use super::{Checked, MATCHED, REMOVED, Reason, SHARED_KEY, refusal};
use crate::error::failed;

/// The rows that stay.
const KEPT: &str = "pg_temp.fullbore_kept";

/// Takes the rows out that may not stay: they are refused, of which `most` are told for each key.
pub fn decide(
    session: &mut Session,
    table: &Checked<'_>,
    unique: &[UniqueKey],
    most: u64,
) -> Result<Vec<Refusal>> {
    let mut refused = Vec::new();
    if table.joins_target() {
        for key in unique {
            refused.extend(shared_with_target(session, table, key, most).map_err(failed)?);
        }
    }
    make_kept(session, table, unique).map_err(failed)?;
    let columns = table.list("");
    session
        .execute(&format!(
            "{OF_ROLE}INSERT INTO {KEPT} (fullbore_place, fullbore_heap, fullbore_tid, {columns})
             OVERRIDING SYSTEM VALUE
             SELECT fullbore_place, fullbore_heap, fullbore_tid, {columns} FROM {MATCHED}
              WHERE fullbore_reason OPERATOR(pg_catalog.=) ({SHARED_KEY}) ORDER BY fullbore_place
             ON CONFLICT DO NOTHING"
        ))
        .map_err(failed)?;
    session
        .execute(&format!(
            "DELETE FROM {MATCHED} m USING {KEPT} k WHERE m.fullbore_place = k.fullbore_place;
             DELETE FROM {REMOVED} r USING {KEPT} k
              WHERE r.fullbore_heap = k.fullbore_heap AND r.fullbore_tid = k.fullbore_tid"
        ))
        .map_err(failed)?;
    for key in unique {
        refused.extend(shared_with_kept(session, table, key, most).map_err(failed)?);
    }
    let left = session
        .query(&format!("SELECT count(*) AS n FROM {MATCHED} WHERE fullbore_reason = {SHARED_KEY}"))
        .map_err(failed)?;
    if left.first().and_then(|row| row.get("n")) != Some("0") {
        return Err(Error::Destination {
            message: "a row violates a key, but it can't be identified".into(),
            hint: Some("load without --max-rejects: the message names the key".into()),
            kind: DestinationFailure::Other,
        });
    }
    session.execute(&format!("DROP TABLE {KEPT}")).map_err(failed)?;
    delete(session, table)?;
    Ok(refused)
}

/// Deletes the rows that are left where they were noted.
fn delete(session: &mut Session, table: &Checked<'_>) -> Result<()> {
    let noted = format!("SELECT count(*) AS n FROM {REMOVED} WHERE fullbore_tid IS NOT NULL");
    let noted = session.query(&noted).map_err(failed)?;
    let noted = noted.first().and_then(|row| row.number::<u64>("n")).unwrap_or(0);
    let mut deleted = 0;
    if noted == 0 {
        return Ok(());
    }
    for (number, heap) in table.heaps.iter().enumerate() {
        let of_heap = format!(
            "DELETE FROM {heap} h USING {REMOVED} r
              WHERE h.ctid = r.fullbore_tid AND r.fullbore_heap = {number}"
        );
        deleted += session.execute(&of_heap).map_err(failed)?;
    }
    match deleted == noted {
        true => Ok(()),
        false => Err(Error::Destination {
            message: format!("{noted} rows violate a key, but {deleted} of them are still there"),
            hint: Some("another session changed the rows; nothing was published".into()),
            kind: DestinationFailure::Other,
        }),
    }
}

/// A table like the one that was loaded, with all its unique indexes, which let in one row after the
/// other.
fn make_kept(
    session: &mut Session,
    table: &Checked<'_>,
    unique: &[UniqueKey],
) -> Result<(), ConnectionError> {
    session.execute(&format!(
        "CREATE TEMP TABLE fullbore_kept (fullbore_place bigint, fullbore_heap int, fullbore_tid tid,
             LIKE {} INCLUDING DEFAULTS INCLUDING GENERATED) ON COMMIT DROP",
        table.heaps[0]
    ))?;
    // An identity column that is not sent is filled by the table itself.
    for column in table.target.relation.columns.iter().filter(|column| column.is_not_null) {
        let name = quote_identifier(&column.name)?;
        session.execute(&format!("ALTER TABLE {KEPT} ALTER {name} DROP NOT NULL"))?;
    }
    for key in unique {
        session.execute(&key.build(KEPT))?;
    }
    Ok(())
}

fn reason(table: &Checked<'_>, key: &UniqueKey, what: &str) -> Reason {
    let (code, words) = key.words();
    let single = table.names.iter().find(|name| {
        let bare = name.trim_matches('"');
        bare == key.written || **name == key.written
    });
    Reason {
        column: single.map(|name| name.trim_matches('"').replace("\"\"", "\"")),
        constraint: Some(key.name.clone()),
        code: code.into(),
        key: None,
        words: format!("{words} \"{}\" (Key ({})=({{key}}) {what}.)", key.name, key.written),
    }
}

/// Refuses rows whose key the target holds, which were there first.
fn shared_with_target(
    session: &mut Session,
    table: &Checked<'_>,
    key: &UniqueKey,
    most: u64,
) -> Result<Vec<Refusal>, ConnectionError> {
    let target = table.target.alone();
    take(session, key, &target, &reason(table, key, "is in the table already"), most)
}

/// Refuses rows whose key one of the rows holds that stay.
fn shared_with_kept(
    session: &mut Session,
    table: &Checked<'_>,
    key: &UniqueKey,
    most: u64,
) -> Result<Vec<Refusal>, ConnectionError> {
    take(session, key, KEPT, &reason(table, key, "is in an earlier row of the files"), most)
}

fn take(
    session: &mut Session,
    key: &UniqueKey,
    other: &str,
    reason: &Reason,
    most: u64,
) -> Result<Vec<Refusal>, ConnectionError> {
    let rows = session.query(&format!(
        "WITH taken AS (
             DELETE FROM {MATCHED} m USING ({}) a
              WHERE m.fullbore_place = a.fullbore_place
                AND EXISTS (SELECT FROM ({}) b WHERE {})
          RETURNING m.fullbore_place AS place, {} AS key
         ) SELECT place, key FROM taken ORDER BY place LIMIT {most}",
        key.of(
            &format!("(SELECT * FROM {MATCHED} WHERE fullbore_reason = {SHARED_KEY}) q"),
            ", fullbore_place"
        ),
        key.of(other, ""),
        key.same(),
        key.text()
    ))?;
    Ok(rows.iter().filter_map(|row| refusal(row, reason)).collect())
}
