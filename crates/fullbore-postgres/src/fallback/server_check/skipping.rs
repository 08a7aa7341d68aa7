//! Checks lines on servers that skip bad ones (17 and later): notices name the lines, and a query
//! returns the reasons.

use fullbore_load::sink::{Refusal, TextRows};
use fullbore_pgwire::{ConnectionError, ServerMessage, Session};

use super::reasons::explain;
use super::{JudgeTarget, first_named, first_number, miscounted};
use crate::verify;

/// Sends the rows; how many were taken, and those that were refused.
pub fn skipping(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    let freeze = if target.freeze { ", FREEZE" } else { "" };
    session.take_notices();
    session.set_notice_limit(rows.rows as usize + 100);
    let name = target.bare_name.to_owned();
    session.set_notices_wanted(Some(Box::new(move |notice| is_of_copy(notice, &name))));
    let taken = (|| {
        let mut copy = session.copy_in(&format!(
            "COPY {} ({}) FROM STDIN (FORMAT text, ON_ERROR ignore, LOG_VERBOSITY verbose{freeze})",
            target.table, target.column_list
        ))?;
        for part in rows.parts {
            copy.send(part)?;
        }
        copy.finish()
    })();
    session.set_notices_wanted(None);
    let taken = taken?;
    let (skips, others): (Vec<_>, Vec<_>) =
        session.take_notices().into_iter().partition(|notice| notice.where_.is_some());
    let refusals = skips.iter().filter_map(|notice| skipped_row(notice, target));
    let mut refusals: Vec<Refusal> = refusals.filter(|refusal| refusal.row < rows.rows).collect();
    refusals.sort_by_key(|refusal| refusal.row);
    check_told(session, target, rows.rows, taken, &refusals, &others)?;
    if !refusals.is_empty() {
        explain(session, target, rows, &mut refusals)?;
    }
    Ok((taken, refusals))
}

/// Whether a notice is COPY's own: of a row that it skipped, whose context names the table and nothing
/// more, or of how many these are, which has none. What a trigger says has the line of its row there, in
/// whatever language, and mostly its function above.
fn is_of_copy(notice: &ServerMessage, bare_name: &str) -> bool {
    let Some(context) = &notice.where_ else { return true };
    let rest = context.replacen(bare_name, "", 1);
    rest.len() < context.len() && !rest.contains(|c: char| c == '\n' || c.is_ascii_digit())
}

/// Silence would be loss: each row is in, or told of, or was kept out by a trigger. The server's own
/// count of those that it skipped is among the notices that have no context.
fn check_told(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: u64,
    taken: u64,
    refusals: &[Refusal],
    others: &[ServerMessage],
) -> Result<(), ConnectionError> {
    let refused = refusals.len() as u64;
    let counted = |notice: &ServerMessage| first_number(&notice.message).map(|(number, _)| number);
    let is_counted = refused == 0 || others.iter().any(|notice| counted(notice) == Some(refused));
    let is_whole = match taken + refused {
        known if known == rows => true,
        known => {
            known < rows
                && is_counted
                && verify::kept_out::may_keep_rows_out(session, target.table)?
        }
    };
    if is_whole { Ok(()) } else { Err(miscounted(rows, taken, refused)) }
}

/// `skipping row due to data type conversion error at line 3 for column "a": "x"`, in whatever
/// language: the first number is the line.
fn skipped_row(notice: &ServerMessage, target: &JudgeTarget<'_>) -> Option<Refusal> {
    let (line, rest) = first_number(&notice.message)?;
    let column = first_named(target, |name| rest.find(&format!("\"{name}\""))).map(str::to_owned);
    Some(Refusal {
        row: line.checked_sub(1)?,
        column,
        value: None,
        constraint: None,
        code: "22000".into(),
        reason: notice.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_copy_says_itself_counts() {
        let says = |context: Option<&str>| {
            let where_ = context.map(str::to_owned);
            is_of_copy(&ServerMessage { where_, ..ServerMessage::default() }, "t2")
        };
        assert!(says(Some("COPY t2")) && says(Some("t2のCOPY")) && says(None));
        assert!(!says(Some("COPY t2, line 3")));
        assert!(!says(Some("COPY t2, line 3: \"t2\"")));
        assert!(!says(Some("PL/pgSQL function f() line 3 at RAISE\nCOPY t2, line 3")));
        assert!(!says(Some("SQL function \"f\"\nCOPY t2")));
    }
}
