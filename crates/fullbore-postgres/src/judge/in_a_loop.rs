//! Lines judged by a loop on the server: for servers that don't skip bad ones, where many fail.

use fullbore_core::destination::Refusal;

use super::JudgeTarget;
use crate::connection::{ConnectionError, Session, quote_literal};
use crate::row_loop::RowLoop;

/// Takes lines one by one; how many were taken, and those that were refused, counted from `start`.
///
/// The lines go as text into a temporary table first. What text is to become a column's type goes
/// through the type's own input function in an assignment, where a length or a precision is held to as
/// it is by COPY.
pub fn in_a_loop(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    lines: &[&[u8]],
    start: usize,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    let names: Vec<&str> = target.names().collect();
    let types = types_of(session, target, &names)?;
    // The number of a line that is numbered comes along as one more column.
    let first = usize::from(target.is_numbered);
    let columns = names.len() + first;
    let list: Vec<String> = (0..columns).map(|n| format!("c{n} text")).collect();
    session.execute(&format!(
        "CREATE TEMP TABLE fullbore_lines (place bigint, {}) ON COMMIT DROP",
        list.join(", ")
    ))?;
    let mut numbered = Vec::with_capacity(lines.iter().map(|line| line.len() + 8).sum());
    for (place, line) in lines.iter().enumerate() {
        numbered.extend_from_slice(format!("{}\t", start + place).as_bytes());
        numbered.extend_from_slice(line);
    }
    let mut copy = session.copy_in("COPY pg_temp.fullbore_lines FROM STDIN (FORMAT text)")?;
    copy.send(&numbered)?;
    copy.finish()?;
    drop(numbered);

    let (mut declared, mut prepared) = (String::new(), String::new());
    let mut values: Vec<String> = (0..first).map(|n| format!("r.c{n}::pg_catalog.int8")).collect();
    for (number, column) in types.iter().enumerate() {
        let field = format!("r.c{}", number + first);
        match column {
            Column::Plain(type_name) => {
                declared.push_str(&format!("v{number} {type_name}; "));
                prepared.push_str(&format!(
                    "at := {}; given := {field}; v{number} := {field};\n",
                    number + 1
                ));
                values.push(format!("v{number}"));
            }
            // A variable of a domain can't be empty where the domain can't.
            Column::Domain(type_name) => values.push(format!("{field}::{type_name}")),
        }
    }
    let (taken, refused) = RowLoop {
        source: "pg_temp.fullbore_lines",
        place: "place",
        declared: &declared,
        prepared: &prepared,
        insert: &format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
            target.table,
            target.column_list,
            values.join(", ")
        ),
    }
    .run(session)?;
    session.execute("DROP TABLE pg_temp.fullbore_lines")?;
    let refusals = refused.into_iter().map(|row| Refusal {
        row: row.place,
        column: row.at.and_then(|at| names.get(at)).map(|name| (*name).to_owned()).or(row.column),
        value: row.value,
        constraint: row.constraint,
        code: row.code,
        reason: row.message,
    });
    Ok((taken, refusals.collect()))
}

enum Column {
    Plain(String),
    Domain(String),
}

/// The types of the columns that are sent, as the table has them.
fn types_of(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    names: &[&str],
) -> Result<Vec<Column>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type_name,
                t.typtype = 'd' AS is_domain
           FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped",
        quote_literal(target.table)?
    ))?;
    let found = names.iter().map(|name| {
        let row = rows.iter().find(|row| row.get("attname") == Some(*name));
        let row = row.ok_or_else(|| {
            ConnectionError::protocol(format!("{} has lost its column {name}", target.table))
        })?;
        let type_name = row.get("type_name").unwrap_or_default().to_owned();
        Ok(match row.get("is_domain") {
            Some("t") => Column::Domain(type_name),
            _ => Column::Plain(type_name),
        })
    });
    found.collect()
}
