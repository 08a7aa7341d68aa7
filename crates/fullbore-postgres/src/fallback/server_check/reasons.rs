//! Why the server refuses a value, in its own words (`pg_input_error_info`, from 16 on). Bad values are
//! alike, most of the time: `N/A`, `-`, a date of zeros. Each is asked for once.

use std::collections::HashMap;

use fullbore_load::sink::{Refusal, TextRows};
use fullbore_parse::dialect::Dialect;
use fullbore_parse::text::{Decoded, decode};
use fullbore_pgwire::{ConnectionError, Session, quote_literal};

use super::JudgeTarget;

/// Refusals that are explained by one statement.
const REFUSALS_PER_QUERY: usize = 1000;

/// What is remembered of values at most, in bytes of theirs.
const REMEMBERED_BYTES_MAX: usize = 1 << 20;

/// A value that may be what was refused: of which column, by its place among those sent.
type Suspect = (usize, String);

/// What the server says of a value that it refuses.
#[derive(Clone)]
struct Reason {
    code: String,
    message: String,
}

/// Asks the server for the reason of each refusal; these stand in the order of their rows.
pub fn explain(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
    refusals: &mut [Refusal],
) -> Result<(), ConnectionError> {
    let mut lines = rows.parts.iter().flat_map(|part| part.split_inclusive(|b| *b == b'\n'));
    let mut at = 0;
    let mut known: HashMap<Suspect, Option<Reason>> = HashMap::new();
    for refusals in refusals.chunks_mut(REFUSALS_PER_QUERY) {
        let mut suspects: Vec<(usize, Suspect)> = Vec::new();
        for (number, refusal) in refusals.iter_mut().enumerate() {
            let line = lines.nth((refusal.row - at) as usize).unwrap_or_default();
            at = refusal.row + 1;
            suspects.extend(suspects_of(line, refusal, target).map(|found| (number, found)));
        }
        let mut asked: Vec<&Suspect> = suspects.iter().map(|(_, suspect)| suspect).collect();
        asked.retain(|suspect| !known.contains_key(*suspect));
        asked.sort_unstable();
        asked.dedup();
        let answers = reasons_of(session, target, &asked)?;
        let asked: Vec<Suspect> = asked.into_iter().cloned().collect();
        known.extend(asked.into_iter().zip(answers));
        let mut explained = None;
        for (number, suspect) in suspects {
            let reason = known.get(&suspect).and_then(Option::as_ref);
            // COPY stops at the first of a row's bad values.
            let (Some(reason), false) = (reason, explained == Some(number)) else { continue };
            explained = Some(number);
            let (column, value) = suspect;
            let refusal = &mut refusals[number];
            refusal.column = Some(target.columns.shape.columns[column].name.clone());
            refusal.value = Some(value);
            refusal.code.clone_from(&reason.code);
            refusal.reason.clone_from(&reason.message);
        }
        if known.keys().map(|(_, value)| value.len()).sum::<usize>() > REMEMBERED_BYTES_MAX {
            known.clear();
        }
    }
    Ok(())
}

/// The values of a refused line that may be at fault: that of the column that the refusal names, where it
/// does. A NULL there is explained at once.
fn suspects_of(
    line: &[u8],
    refusal: &mut Refusal,
    target: &JudgeTarget<'_>,
) -> impl Iterator<Item = Suspect> + use<> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let fields = line.split(|byte| *byte == b'\t').skip(usize::from(target.is_numbered));
    let named = refusal.column.clone();
    let mut suspects = Vec::new();
    for (number, (column, field)) in target.columns.shape.columns.iter().zip(fields).enumerate() {
        let is_named = named.as_ref().map(|name| *name == column.name);
        if is_named == Some(false) {
            continue;
        }
        match value_of(field) {
            Some(value) => suspects.push((number, value)),
            None if is_named == Some(true) => {
                // No type refuses a NULL but a domain.
                refusal.code = "23502".into();
                let type_name = type_of(target, number);
                refusal.reason = format!("domain {type_name} does not allow null values");
            }
            None => {}
        }
    }
    suspects.into_iter()
}

/// A field of a line of COPY text, as text; none where it is NULL.
fn value_of(field: &[u8]) -> Option<String> {
    let mut value = Vec::new();
    match decode(field, &Dialect::text(), &mut value) {
        Decoded::Value => String::from_utf8(value).ok(),
        _ => None,
    }
}

/// The name of a sent column's type.
fn type_of<'a>(target: &'a JudgeTarget<'_>, column: usize) -> &'a str {
    let name = &target.columns.shape.columns[column].name;
    let found = target.columns.columns.iter().find(|candidate| candidate.name == *name);
    found.map_or("text", |candidate| candidate.type_name.as_str())
}

/// The reasons for which values are refused, none for those that are not.
fn reasons_of(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    asked: &[&Suspect],
) -> Result<Vec<Option<Reason>>, ConnectionError> {
    let mut reasons = vec![None; asked.len()];
    if asked.is_empty() {
        return Ok(reasons);
    }
    let mut values = Vec::with_capacity(asked.len());
    for (number, (column, value)) in asked.iter().enumerate() {
        let type_name = quote_literal(type_of(target, *column))?;
        values.push(format!("({number}, {}, {type_name})", quote_literal(value)?));
    }
    let answers = session.query(&format!(
        "SELECT v.at, e.message, e.detail, e.sql_error_code
           FROM (VALUES {}) AS v(at, value, type),
                LATERAL pg_input_error_info(v.value, v.type) AS e
          WHERE e.message IS NOT NULL",
        values.join(", ")
    ))?;
    for answer in &answers {
        let at = answer.get("at").and_then(|at| at.parse::<usize>().ok());
        let Some(reason) = at.and_then(|at| reasons.get_mut(at)) else { continue };
        let message = answer.get("message").unwrap_or_default();
        *reason = Some(Reason {
            code: answer.get("sql_error_code").unwrap_or("22000").to_owned(),
            message: match answer.get("detail") {
                Some(detail) => format!("{message} ({detail})"),
                None => message.to_owned(),
            },
        });
    }
    Ok(reasons)
}
