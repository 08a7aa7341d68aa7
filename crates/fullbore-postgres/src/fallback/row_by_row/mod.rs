//! Row-by-row loading of a piece that was refused as a whole.
//!
//! Its rows are copied as text, a chunk at a time, into a temporary table with the target's columns but no
//! constraints; each row has its position in the chunk. Invalid values are rejected there
//! ([`server_check`]). Then one statement removes rows that violate NOT NULL or CHECK or match no
//! partition ([`conditions`]), and one INSERT moves the others into the table, in order. Triggers, unique
//! and foreign keys and exclusions cannot be tested in advance: they make the INSERT fail. Then rows are
//! inserted one by one in a loop on the server ([`crate::fallback::row_loop`]). So each row passes the
//! server a fixed number of times, however many are bad.

mod conditions;

use fullbore_load::plan::TablePlan;
use fullbore_load::sink::{Refusal, TextRows};
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::catalog;
use crate::error::{failed, is_corruption};
use crate::fallback::row_loop::RowLoop;
use crate::fallback::server_check::{self, JudgeTarget};
use crate::publish::bounds::RANGE_CHECK;
use conditions::Conditions;

/// The temporary table's name.
const TABLE: &str = "fullbore_careful";
const QUALIFIED: &str = "pg_temp.fullbore_careful";

/// What the role must be allowed for it.
const NEEDS: &str = "the role needs SELECT on the table, and TEMPORARY on the database";

/// One piece's careful lane, within its transaction.
pub struct Careful {
    /// Where the rows go.
    table: String,
    bare_name: String,
    /// What people call it.
    shown: String,
    /// The columns that are sent, quoted, one by one and as a list.
    names: Vec<String>,
    columns: String,
    /// The place's column, quoted.
    place: String,
    conditions: Conditions,
}

impl Careful {
    /// Makes what is needed, in the transaction that is open.
    pub fn begin(
        session: &mut Session,
        table: &QualifiedName,
        shown: &QualifiedName,
        columns: &TablePlan,
        because: &str,
    ) -> Result<Self> {
        Self::make(session, table, shown, columns).map_err(|error| match error {
            lost if lost.is_lost() => lost,
            Error::Destination { message, hint, .. } => {
                let hint = hint.or_else(|| Some(NEEDS.into()));
                let message = format!("{because}; rows can't be checked one by one: {message}");
                Error::Destination { message, hint, kind: DestinationFailure::Constraint }
            }
            other => other,
        })
    }

    fn make(
        session: &mut Session,
        table: &QualifiedName,
        shown: &QualifiedName,
        columns: &TablePlan,
    ) -> Result<Self> {
        let known = ask(session, table).map_err(failed)?;
        if let Some(obstacle) = known.obstacle {
            return Err(Error::Destination {
                message: obstacle.to_owned(),
                hint: Some(
                    "correct the rows that the message names, or load with --publish replace"
                        .into(),
                ),
                kind: DestinationFailure::Constraint,
            });
        }
        let mut place = "fullbore_place".to_owned();
        while known.columns.contains(&place) {
            place.push('_');
        }
        let place = quote_identifier(&place).map_err(failed)?;
        let quoted = |name: &String| quote_identifier(name).map_err(failed);
        let not_null: Vec<String> = known.not_null.iter().map(quoted).collect::<Result<_>>()?;
        let names = columns.shape.columns.iter().map(|column| quoted(&column.name));
        let names: Vec<String> = names.collect::<Result<_>>()?;
        let mut made = format!(
            "CREATE TEMP TABLE {TABLE} ({place} bigint,
                 LIKE {table} INCLUDING DEFAULTS INCLUDING GENERATED) ON COMMIT DROP"
        );
        for name in not_null {
            made.push_str(&format!("; ALTER TABLE {QUALIFIED} ALTER {name} DROP NOT NULL"));
        }
        // What waits for the commit would be too late.
        made.push_str("; SET CONSTRAINTS ALL IMMEDIATE");
        session.execute(&made).map_err(failed)?;
        let conditions = match known.is_changed_before {
            // A trigger may mend what is broken here.
            true => Conditions::default(),
            false => Conditions::of(session, table).map_err(failed)?,
        };
        Ok(Self {
            table: table.to_string(),
            bare_name: table.name().to_owned(),
            shown: shown.name().to_owned(),
            columns: names.join(", "),
            names,
            place,
            conditions,
        })
    }

    /// Judges rows; how many are in the table now, and those that were refused.
    pub fn judge(
        &self,
        session: &mut Session,
        columns: &TablePlan,
        rows: TextRows<'_>,
    ) -> Result<(u64, Vec<Refusal>), ConnectionError> {
        let numbered = numbered_from(rows, 0);
        let target = JudgeTarget {
            table: QUALIFIED,
            bare_name: TABLE,
            column_list: &format!("{}, {}", self.place, self.columns),
            freeze: false,
            columns,
            is_numbered: true,
        };
        session.execute(&format!("TRUNCATE {QUALIFIED}"))?;
        let parts = [numbered.as_slice()];
        let rows = TextRows { parts: &parts, rows: rows.rows };
        let (_, mut refusals) = server_check::judge_at_any_price(session, &target, rows)?;
        drop(numbered);
        refusals.extend(self.take_broken(session)?);
        let (taken, refused) = self.insert(session)?;
        refusals.extend(refused);
        refusals.sort_by_key(|refusal| refusal.row);
        Ok((taken, refusals))
    }

    /// Takes out what breaks a condition. A condition that can't be asked leaves the rows to the table.
    fn take_broken(&self, session: &mut Session) -> Result<Vec<Refusal>, ConnectionError> {
        let Some(sql) = self.conditions.sql(QUALIFIED, &self.place, &self.bare_name)? else {
            return Ok(Vec::new());
        };
        session.execute("SAVEPOINT fullbore_asked")?;
        let rows = match session.query(&sql) {
            Err(ConnectionError::Server(error)) if !error.is_fatal() => {
                tracing::debug!(%error, "the conditions can't be asked of all rows at once");
                session.execute("ROLLBACK TO SAVEPOINT fullbore_asked")?;
                Vec::new()
            }
            rows => rows?,
        };
        session.execute("RELEASE SAVEPOINT fullbore_asked")?;
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let refusal = |row: &fullbore_pgwire::Row| {
            let condition = number(row.get("broken"))? as usize;
            Some(self.conditions.refusal(condition, number(row.get("place"))?, &self.shown))
        };
        Ok(rows.iter().filter_map(refusal).collect())
    }

    /// Takes what is left into the table.
    fn insert(&self, session: &mut Session) -> Result<(u64, Vec<Refusal>), ConnectionError> {
        let Self { table, columns, place, .. } = self;
        session.execute("SAVEPOINT fullbore_taken")?;
        // As COPY does it: what is given for an identity column counts.
        let inserted = session.execute(&format!(
            "{OF_ROLE}INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
             SELECT {columns} FROM {QUALIFIED} ORDER BY {place}"
        ));
        match inserted {
            Err(ConnectionError::Server(error)) if is_its_own_fault(&error) => {
                tracing::debug!(%error, "rows are taken one by one");
                session.execute("ROLLBACK TO SAVEPOINT fullbore_taken")?;
            }
            inserted => {
                let taken = inserted?;
                session.execute("RELEASE SAVEPOINT fullbore_taken")?;
                return Ok((taken, Vec::new()));
            }
        }
        let values: Vec<String> = self.names.iter().map(|name| format!("r.{name}")).collect();
        let (taken, refused) = RowLoop {
            source: QUALIFIED,
            place,
            declared: "",
            prepared: "",
            insert: &format!(
                "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({})",
                values.join(", ")
            ),
        }
        .run(session)?;
        session.execute("RELEASE SAVEPOINT fullbore_taken")?;
        let refusal = |row: crate::fallback::row_loop::RefusedRow| {
            let detail = row.detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
            // The table may be one of ours, whose name says nothing to anybody.
            let message = row
                .message
                .replace(&format!("\"{}\"", self.bare_name), &format!("\"{}\"", self.shown));
            Refusal {
                row: row.place,
                column: row.column,
                value: None,
                constraint: row.constraint,
                code: row.code,
                reason: format!("{message}{detail}"),
            }
        };
        Ok((taken, refused.into_iter().map(refusal).collect()))
    }
}

/// Whether an error may be one row's, and is not about the ranges of partitions.
pub fn is_its_own_fault(error: &fullbore_pgwire::ServerMessage) -> bool {
    let class = error.code.get(..2).unwrap_or_default();
    !error.is_fatal()
        && !is_corruption(&error.code)
        && matches!(class, "22" | "23" | "44" | "P0" | "XX")
        && error.constraint.as_deref() != Some(RANGE_CHECK)
}

/// Lines with their places before them, `first` before the first one.
pub fn numbered_from(rows: TextRows<'_>, first: u64) -> Vec<u8> {
    let bytes: usize = rows.parts.iter().map(|part| part.len()).sum();
    let mut numbered = Vec::with_capacity(bytes + 8 * rows.rows as usize);
    let mut place = first;
    for part in rows.parts {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', part).map(|at| at + 1) {
            numbered.extend_from_slice(place.to_string().as_bytes());
            numbered.push(b'\t');
            numbered.extend_from_slice(&part[start..end]);
            (start, place) = (end, place + 1);
        }
    }
    numbered
}

/// What is known of a table before its rows are judged.
struct Known {
    columns: Vec<String>,
    /// Of these, the ones that can't be NULL.
    not_null: Vec<String>,
    /// A trigger may change rows before they are checked.
    is_changed_before: bool,
    /// Why its rows can't be taken one by one.
    obstacle: Option<&'static str>,
}

fn ask(session: &mut Session, table: &QualifiedName) -> Result<Known, ConnectionError> {
    let oid = format!("{}::regclass", quote_literal(&table.to_string())?);
    let relation = catalog::relation(session, table)?;
    let columns = session.query(&format!(
        "SELECT attname, attnotnull FROM pg_attribute
          WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped"
    ))?;
    let rows = session.query(&format!(
        "SELECT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = {oid} AND ev_type = '3') AS rules,
                EXISTS (SELECT FROM pg_constraint
                         WHERE conrelid = {oid} AND confrelid = {oid} AND contype = 'f') AS itself"
    ))?;
    let is = |name: &str| rows.first().is_some_and(|row| row.flag(name));
    let names = |wanted: &dyn Fn(&fullbore_pgwire::Row) -> bool| -> Vec<String> {
        let found = columns.iter().filter(|row| wanted(row));
        found.filter_map(|row| row.get("attname").map(str::to_owned)).collect()
    };
    Ok(Known {
        columns: names(&|_| true),
        not_null: names(&|row| row.flag("attnotnull")),
        is_changed_before: relation.is_some_and(|relation| relation.is_changed_before),
        obstacle: match (is("rules"), is("itself")) {
            (true, _) => Some("the table has rules for INSERT, which COPY does not follow"),
            (_, true) => Some("its rows refer to rows of the same table, which may come later"),
            _ => None,
        },
    })
}

/// Why a table's rows can't be taken one by one, if they can't.
pub fn obstacle(
    session: &mut Session,
    table: &QualifiedName,
) -> Result<Option<&'static str>, ConnectionError> {
    Ok(ask(session, table)?.obstacle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_their_places() {
        let parts: [&[u8]; 2] = [b"a\tb\n\\N\tc\n", b"d\te\n"];
        let text = numbered_from(TextRows { parts: &parts, rows: 3 }, 8);
        assert_eq!(text, b"8\ta\tb\n9\t\\N\tc\n10\td\te\n");
    }
}
