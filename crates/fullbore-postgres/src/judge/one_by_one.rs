//! Lines judged by servers that don't skip bad ones: a COPY up to the first failure, and another one
//! after it.

use fullbore_core::destination::{Refusal, TextRows};

use super::in_a_loop::in_a_loop;
use super::{JudgeTarget, column_of, first_number};
use crate::connection::{ConnectionError, Session};

/// Failures of one run of lines after which the others are taken one by one by the server itself.
const FAILURES_MAX: usize = 20;

/// Copies lines until one fails, and goes on after it; from many failures on in a loop.
pub fn one_by_one(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    let lines: Vec<&[u8]> =
        rows.parts.iter().flat_map(|part| part.split_inclusive(|b| *b == b'\n')).collect();
    let mut refusals = Vec::new();
    let (mut taken, mut start) = (0, 0);
    while start < lines.len() {
        if refusals.len() == FAILURES_MAX {
            // Each failure costs a COPY that is begun anew.
            let (more, refused) = in_a_loop(session, target, &lines[start..], start)?;
            refusals.extend(refused);
            return Ok((taken + more, refusals));
        }
        session.execute("SAVEPOINT fullbore_rows")?;
        let error = match copy_lines(session, target, &lines[start..]) {
            Ok(rows) => {
                session.execute("RELEASE SAVEPOINT fullbore_rows")?;
                taken += rows;
                break;
            }
            Err(error) => error,
        };
        let Some(refusal) = refused_line(&error, target, start, lines.len()) else {
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

/// The row that an error is about, where it is about one row's values.
fn refused_line(
    error: &ConnectionError,
    target: &JudgeTarget<'_>,
    start: usize,
    lines: usize,
) -> Option<Refusal> {
    let message = error.server_message()?;
    let is_value = message.code.starts_with("22")
        // A domain's own constraints name the type, a table's the table.
        || message.code.starts_with("23") && message.data_type.is_some() && message.table.is_none();
    if !is_value {
        return None;
    }
    // `COPY name, line 3, column a: "x"`: the first number after the name is the line.
    let context = message.where_.as_deref()?.lines().find(|line| line.starts_with("COPY "))?;
    let after_name = context.strip_prefix("COPY ")?.strip_prefix(target.bare_name)?;
    let (line, rest) = first_number(after_name)?;
    let row = start + usize::try_from(line.checked_sub(1)?).ok()?;
    if row >= lines {
        return None;
    }
    let (column, value) = column_of(rest, target);
    Some(Refusal {
        row: row as u64,
        column,
        value,
        constraint: message.constraint.clone(),
        code: message.code.clone(),
        reason: message.message.clone(),
    })
}
