//! Lines judged by servers that skip bad ones by themselves, from 17 on: which these are is said in
//! notices, and the reason is asked for afterwards.

use fullbore_core::destination::{Refusal, TextRows};

use super::{JudgeTarget, first_number, miscounted};
use crate::connection::{ConnectionError, ServerMessage, Session, quote_literal};
use crate::verify;

/// Reasons asked for in one statement.
const REASONS_PER_QUERY: usize = 500;

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
        known => known < rows && is_counted && verify::may_keep_rows_out(session, target.table)?,
    };
    if is_whole { Ok(()) } else { Err(miscounted(rows, taken, refused)) }
}

/// `skipping row due to data type conversion error at line 3 for column "a": "x"`, in whatever
/// language: the first number is the line.
fn skipped_row(notice: &ServerMessage, target: &JudgeTarget<'_>) -> Option<Refusal> {
    let (line, rest) = first_number(&notice.message)?;
    let column = target
        .names()
        .filter(|name| rest.contains(&format!("\"{name}\"")))
        .max_by_key(|name| name.len())
        .map(str::to_owned);
    Some(Refusal {
        row: line.checked_sub(1)?,
        column,
        value: None,
        constraint: None,
        code: "22000".into(),
        reason: notice.message.clone(),
    })
}

/// Asks the server for the reason of each refusal.
fn explain(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
    refusals: &mut [Refusal],
) -> Result<(), ConnectionError> {
    let lines = lines_of(rows, refusals.iter().map(|refusal| refusal.row));
    for (refusals, lines) in
        refusals.chunks_mut(REASONS_PER_QUERY).zip(lines.chunks(REASONS_PER_QUERY))
    {
        let mut asked = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let values = fields(line).into_iter().skip(usize::from(target.is_numbered));
            for (column, value) in target.columns.shape.columns.iter().zip(values) {
                let is_named = refusals[at].column.as_ref().map(|name| *name == column.name);
                if is_named == Some(false) {
                    continue;
                }
                let type_name = target
                    .columns
                    .columns
                    .iter()
                    .find(|candidate| candidate.name == column.name)
                    .map_or("text", |candidate| candidate.type_name.as_str());
                let Some(value) = value else {
                    if is_named == Some(true) {
                        // No type refuses a NULL but a domain.
                        refusals[at].code = "23502".into();
                        refusals[at].reason =
                            format!("domain {type_name} does not allow null values");
                    }
                    continue;
                };
                asked.push(format!(
                    "({at}, {}, {}, {})",
                    quote_literal(&column.name)?,
                    quote_literal(&value)?,
                    quote_literal(type_name)?
                ));
            }
        }
        if asked.is_empty() {
            continue;
        }
        let answers = session.query(&format!(
            "SELECT v.at, v.col, v.value, e.message, e.detail, e.sql_error_code
               FROM (VALUES {}) AS v(at, col, value, type),
                    LATERAL pg_input_error_info(v.value, v.type) AS e
              WHERE e.message IS NOT NULL ORDER BY v.at",
            asked.join(", ")
        ))?;
        for answer in &answers {
            let at = answer.get("at").and_then(|at| at.parse::<usize>().ok());
            let Some(refusal) = at.and_then(|at| refusals.get_mut(at)) else { continue };
            refusal.column = answer.get("col").map(str::to_owned);
            refusal.value = answer.get("value").map(str::to_owned);
            refusal.code = answer.get("sql_error_code").unwrap_or("22000").to_owned();
            refusal.reason = answer.get("message").unwrap_or_default().to_owned();
            if let Some(detail) = answer.get("detail") {
                refusal.reason = format!("{} ({detail})", refusal.reason);
            }
        }
    }
    Ok(())
}

/// The lines at ascending places.
fn lines_of(rows: TextRows<'_>, wanted: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let mut all = rows.parts.iter().flat_map(|part| part.split_inclusive(|b| *b == b'\n'));
    let mut at = 0;
    let mut lines = Vec::new();
    for wanted in wanted {
        let line = all.nth((wanted - at) as usize).unwrap_or_default();
        at = wanted + 1;
        lines.push(line.to_vec());
    }
    lines
}

/// The values of a line of COPY text, as text.
fn fields(line: &[u8]) -> Vec<Option<String>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let dialect = fullbore_core::parse::dialect::Dialect::text();
    line.split(|b| *b == b'\t')
        .map(|raw| {
            let mut value = Vec::new();
            match fullbore_core::parse::text::decode(raw, &dialect, &mut value) {
                fullbore_core::parse::text::Decoded::Value => String::from_utf8(value).ok(),
                _ => None,
            }
        })
        .collect()
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
