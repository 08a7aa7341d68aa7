//! What differs, and where: the sums that were made of the files against those of the table.

use fullbore_load::sums::Sums;
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;
use serde::Serialize;

use super::comparison::{self, Asked, Comparison, Found};
use super::extent::{self, Measure};
use super::sql::Detail;
use crate::error::failed;
use crate::postgres::Postgres;

/// A difference between files and table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where rows were looked for.
    pub table: String,
    /// The pieces that it may be in.
    pub pieces: Vec<usize>,
    pub rows_expected: u64,
    pub rows_found: u64,
    /// The columns whose values differ; none where whole rows are missing or too many.
    pub columns: Vec<String>,
    /// In words.
    pub what: Vec<String>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pieces: Vec<String> = self.pieces.iter().take(10).map(usize::to_string).collect();
        write!(f, "{}", self.table)?;
        match self.pieces.len() {
            0 => {}
            1 => write!(f, ", piece {}", pieces[0])?,
            2..=10 => write!(f, ", pieces {}", pieces.join(", "))?,
            more => write!(f, ", {more} pieces, {} and more", pieces.join(", "))?,
        }
        write!(f, ": {}", self.what.join("; "))
    }
}

/// Whether rows are the same, as far as is proved.
fn same(expected: &Sums, found: &Sums) -> bool {
    let columns = || expected.columns.iter().zip(&found.columns);
    expected.rows == found.rows
        && (expected.rows == 0
            || expected.row == found.row
                && columns().all(|(one, other)| (one.sum, one.nulls) == (other.sum, other.nulls)))
}

/// Compares parts with what the server holds of them; what differs.
pub fn compare(postgres: &Postgres, sessions: usize, parts: &[Comparison]) -> Result<Vec<Finding>> {
    let all = comparison::ask(postgres, sessions, parts, Detail::Proof)?;
    let mut differing = Vec::new();
    for (part, (_, found)) in parts.iter().zip(&all) {
        let mut total = Sums::default();
        found.values().for_each(|sums| total.merge(sums));
        if !same(&part.expected(), &total) {
            differing.push(part.clone());
        }
    }
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    let again = comparison::ask(postgres, sessions, &differing, Detail::Everything)?;
    for (part, (asked, found)) in differing.iter().zip(&again) {
        findings.extend(explain(&mut postgres.control(), part, asked, found).map_err(failed)?);
    }
    Ok(findings)
}

/// Compares a part whose rows only this session's transaction sees; what differs.
pub fn compare_within(session: &mut Session, part: &Comparison) -> Result<Vec<Finding>> {
    let (asked, found) = comparison::ask_within(session, part)?;
    let mut total = Sums::default();
    found.values().for_each(|sums| total.merge(sums));
    match same(&part.expected(), &total) {
        true => Ok(Vec::new()),
        false => explain(session, part, &asked, &found).map_err(failed),
    }
}

/// How the rows of a part differ.
fn explain(
    session: &mut Session,
    part: &Comparison,
    asked: &Asked,
    found: &Found,
) -> Result<Vec<Finding>, ConnectionError> {
    let mut total = Sums::default();
    found.values().for_each(|sums| total.merge(sums));
    let expected = part.expected();
    let mut pieces = Vec::new();
    let mut what = Vec::new();
    if part.tells_pieces {
        for (piece, proof) in &part.pieces {
            let mut its = Sums::default();
            for (transaction, sums) in found {
                if part.piece_of(transaction) == Some(*piece) {
                    its.merge(sums);
                }
            }
            if !same(&proof.sums, &its) {
                pieces.push(*piece);
                let (then, now) = (proof.sums.rows, its.rows);
                if then != now {
                    what.push(format!("piece {piece} loaded {}, and {now} were found", rows(then)));
                }
            }
        }
        let others = found.iter().filter(|(transaction, _)| part.piece_of(transaction).is_none());
        let others: u64 = others.map(|(_, sums)| sums.rows).sum();
        if others > 0 {
            what.push(format!("{} were written by others", rows(others)));
        }
        // Named once is enough.
        what.truncate(10);
    } else {
        pieces.extend(part.pieces.iter().map(|(piece, _)| *piece));
    }
    let mut columns = Vec::new();
    let (then, now) = (expected.rows, total.rows);
    if then == now {
        columns = different_columns(session, asked, &expected, &total, &mut what)?;
    } else {
        let difference = rows(then.abs_diff(now));
        let verb = if then.abs_diff(now) == 1 { "is" } else { "are" };
        let how = if now < then { "missing" } else { "too many" };
        what.insert(
            0,
            format!("{difference} {verb} {how}, {then} in the files, {now} in the table"),
        );
    }
    if part.rows != super::comparison::Rows::All && then > now {
        what.push("(a row that was changed since the load counts as missing)".into());
    }
    Ok(vec![Finding {
        table: part.holder.to_string(),
        pieces,
        rows_expected: then,
        rows_found: now,
        columns,
        what,
    }])
}

fn rows(count: u64) -> String {
    format!("{count} row{}", if count == 1 { "" } else { "s" })
}

/// The columns that differ where there are as many rows as there should be.
fn different_columns(
    session: &mut Session,
    asked: &Asked,
    expected: &Sums,
    found: &Sums,
    what: &mut Vec<String>,
) -> Result<Vec<String>, ConnectionError> {
    let mut names = Vec::new();
    let columns = expected.columns.iter().zip(&found.columns).zip(&asked.names).enumerate();
    for (at, ((then, now), name)) in columns {
        if (then.sum, then.nulls) == (now.sum, now.nulls) {
            continue;
        }
        let mut words = format!("column {name} has different values");
        if then.nulls != now.nulls {
            words.push_str(&format!(", {} NULLs, not {}", now.nulls, then.nulls));
        }
        if let (Some(measure), Some(then), Some(now)) =
            (asked.formula.measure(at), then.extent, now.extent)
        {
            for (end, then, now) in [("least", then.0, now.0), ("greatest", then.1, now.1)] {
                if then != now {
                    let (now, then) = shown(session, measure, now, then)?;
                    let of = if measure == Measure::Length { " length" } else { "" };
                    words.push_str(&format!(", the {end}{of} {now}, not {then}"));
                }
            }
        }
        what.insert(names.len(), words);
        names.push(name.clone());
    }
    if !names.is_empty() {
        return Ok(names);
    }
    // Every column has its values, but not in their rows.
    let columns = expected.columns.iter().zip(&found.columns).zip(&asked.names);
    names = columns
        .filter(|((then, now), _)| then.without == now.without)
        .map(|(_, name)| name.clone())
        .collect();
    what.insert(
        0,
        match names.as_slice() {
            [] => "values of several columns are in different rows than in the files".into(),
            names => format!(
                "values of column {} are in different rows than in the files",
                names.join(" or ")
            ),
        },
    );
    Ok(names)
}

/// Two numbers as the values that they measure.
fn shown(
    session: &mut Session,
    measure: Measure,
    one: i64,
    other: i64,
) -> Result<(String, String), ConnectionError> {
    let rows = session.query(&format!(
        "SELECT {} AS one, {} AS other",
        extent::shown_sql(measure, one),
        extent::shown_sql(measure, other)
    ))?;
    let text =
        |name: &str| rows.first().and_then(|row| row.get(name)).unwrap_or_default().to_owned();
    Ok((text("one"), text("other")))
}
