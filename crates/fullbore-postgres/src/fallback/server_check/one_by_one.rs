//! Checks lines on servers that cannot skip bad ones: a COPY up to the first failure, and another one
//! after it.

use fullbore_load::sink::{Refusal, TextRows};
use fullbore_pgwire::{ConnectionError, Session};

use super::in_a_loop::in_a_loop;
use super::{JudgeTarget, column_of, copy_context, first_number};
use crate::error::is_corruption;
use crate::fallback::row_loop::OF_VALUES;

/// Failures of one run of lines after which the others are taken one by one by the server itself.
const FAILURES_MAX: usize = 20;

/// Lines of a COPY where the loop can't take them and many fail: after each failure they are sent anew.
const LINES_WHERE_MANY_FAIL: usize = 64;

/// Copies lines until one fails, and goes on after it; from many failures on in a loop.
pub fn one_by_one(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    let lines: Vec<&[u8]> =
        rows.parts.iter().flat_map(|part| part.split_inclusive(|b| *b == b'\n')).collect();
    let mut refusals = Vec::new();
    let (mut taken, mut start, mut window) = (0, 0, lines.len());
    while start < lines.len() {
        if refusals.len() == FAILURES_MAX {
            // Each failure costs a COPY that is begun anew.
            session.execute("SAVEPOINT fullbore_loop")?;
            match in_a_loop(session, target, &lines[start..], start) {
                Ok((more, refused)) => {
                    session.execute("RELEASE SAVEPOINT fullbore_loop")?;
                    refusals.extend(refused);
                    return Ok((taken + more, refusals));
                }
                // The database's encoding lacks a character: the loop's own table can't take it either.
                Err(error) if is_of_encoding(&error) => {
                    session.execute(
                        "ROLLBACK TO SAVEPOINT fullbore_loop; RELEASE SAVEPOINT fullbore_loop",
                    )?;
                    window = LINES_WHERE_MANY_FAIL;
                }
                Err(error) => return Err(error),
            }
        }
        let end = (start + window).min(lines.len());
        session.execute("SAVEPOINT fullbore_rows")?;
        let error = match copy_lines(session, target, &lines[start..end]) {
            Ok(rows) => {
                session.execute("RELEASE SAVEPOINT fullbore_rows")?;
                taken += rows;
                start = end;
                continue;
            }
            Err(error) => error,
        };
        let Some(refusal) = refused_line(&error, target, start, end) else {
            return Err(error);
        };
        session.execute("ROLLBACK TO SAVEPOINT fullbore_rows")?;
        let failing = refusal.row as usize;
        if failing > start {
            // The rows before it are good: they were converted before it was reached.
            taken += copy_lines(session, target, &lines[start..failing])?;
        }
        session.execute("RELEASE SAVEPOINT fullbore_rows")?;
        refusals.push(refusal);
        start = failing + 1;
    }
    Ok((taken, refusals))
}

fn is_of_encoding(error: &ConnectionError) -> bool {
    let code = error.server_message().map(|message| message.code.as_str());
    matches!(code, Some("22021" | "22P05"))
}

fn copy_lines(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    lines: &[&[u8]],
) -> Result<u64, ConnectionError> {
    // No FREEZE: the table is not new in this subtransaction.
    let mut copy = session.copy_in(&format!(
        "COPY {} ({}) FROM STDIN (FORMAT text)",
        target.table, target.column_list
    ))?;
    copy.send(&lines.concat())?;
    copy.finish()
}

/// Whether input functions raise it of a value, beside class 22: `tsquery` has syntax errors, `regclass`
/// tables that are not there, PostGIS errors of no class.
fn is_raised_by_input(code: &str) -> bool {
    let is_of_values = OF_VALUES.contains(&code) || code.starts_with("P0");
    is_of_values || code.starts_with("XX") && !is_corruption(code)
}

/// The row that an error is about, where it is about one row's values.
fn refused_line(
    error: &ConnectionError,
    target: &JudgeTarget<'_>,
    start: usize,
    end: usize,
) -> Option<Refusal> {
    let message = error.server_message()?;
    // `COPY name, line 3, column a: "x"`: the first number after the name is the line.
    let after_name = copy_context(message.where_.as_deref()?, target.bare_name)?;
    let (line, rest) = first_number(after_name)?;
    let row = start + usize::try_from(line.checked_sub(1)?).ok()?;
    if row >= end {
        return None;
    }
    let (column, value) = column_of(rest, target);
    let code = message.code.as_str();
    let is_value = code.starts_with("22")
        // A domain's own constraints name the type, a table's the table.
        || code.starts_with("23") && message.data_type.is_some() && message.table.is_none()
        // What the input functions of some types raise, of extensions' above all.
        || column.is_some() && is_raised_by_input(code);
    if !is_value {
        return None;
    }
    Some(Refusal {
        row: row as u64,
        column,
        value,
        constraint: message.constraint.clone(),
        code: message.code.clone(),
        reason: message.message.clone(),
    })
}
