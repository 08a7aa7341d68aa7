//! Checks lines in a loop on the server: for many bad lines, on servers that cannot skip them.

use fullbore_load::sink::Refusal;
use fullbore_pgwire::{ConnectionError, Session, quote_literal};

use super::JudgeTarget;
use crate::fallback::row_loop::RowLoop;
use crate::types;

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
        let variable = format!("v{number}");
        let read = match &column.read {
            Read::ByAssignment(type_name) => {
                declared.push_str(&format!("{variable} {type_name}; "));
                field.clone()
            }
            Read::AsInterval(modifier) => {
                declared.push_str(&format!("{variable} interval; "));
                format!("pg_catalog.interval_in({field}::pg_catalog.cstring, 0, {modifier})")
            }
            Read::AsComposite => {
                values.push(format!("{field}::{}", column.type_name));
                continue;
            }
        };
        let at = number + 1;
        prepared.push_str(&format!("at := {at}; given := {field}; {variable} := {read};\n"));
        values.push(match column.is_domain {
            // A variable of a domain can't be empty where the domain can't. The cast cuts nothing: the
            // value has the length that the domain's own type allows.
            true => format!("{variable}::{}", column.type_name),
            false => variable,
        });
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

struct Column {
    type_name: String,
    is_domain: bool,
    read: Read,
}

/// How text becomes a value as COPY makes it one.
enum Read {
    /// Assigned to a variable of this type, by its input function, its length held to.
    ByAssignment(String),
    /// By its input function with its modifier: `interval hour` takes a bare `10` for hours.
    AsInterval(i32),
    /// Cast: a variable of such a type takes no text.
    AsComposite,
}

/// The types of the columns that are sent, as the table has them; of a domain the type under it, too.
fn types_of(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    names: &[&str],
) -> Result<Vec<Column>, ConnectionError> {
    let rows = session.query(&format!(
        "WITH RECURSIVE under AS (
            SELECT a.attname, a.atttypid AS type, a.atttypmod AS modifier,
                   format_type(a.atttypid, a.atttypmod) AS type_name, false AS is_domain
              FROM pg_attribute a
             WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped
            UNION ALL
            SELECT u.attname, t.typbasetype, t.typtypmod, u.type_name, true
              FROM under u JOIN pg_type t ON t.oid = u.type WHERE t.typtype = 'd')
         SELECT u.attname, u.type_name, u.is_domain, u.modifier, t.typtype,
                format_type(u.type, u.modifier) AS base_name, u.type = 'interval'::regtype AS is_interval
           FROM under u JOIN pg_type t ON t.oid = u.type WHERE t.typtype <> 'd'",
        quote_literal(target.table)?
    ))?;
    let found = names.iter().map(|name| {
        let row = rows.iter().find(|row| row.get("attname") == Some(*name));
        let row = row.ok_or_else(|| {
            ConnectionError::protocol(format!("{} has lost its column {name}", target.table))
        })?;
        let text = |name: &str| row.get(name).unwrap_or_default().to_owned();
        let type_of = |name: &str| types::with_schema(&text(name));
        let read = match (row.get("typtype"), row.get("is_interval")) {
            (Some("c"), _) => Read::AsComposite,
            (_, Some("t")) => Read::AsInterval(text("modifier").parse().unwrap_or(-1)),
            _ => Read::ByAssignment(type_of("base_name")),
        };
        let is_domain = row.flag("is_domain");
        Ok(Column { type_name: type_of("type_name"), is_domain, read })
    });
    found.collect()
}
