//! Server-side check of non-canonical rows: sent as COPY text, each refused row reported.
//!
//! PostgreSQL 17 and later skip bad rows themselves (`ON_ERROR ignore`) and name their lines in notices;
//! `pg_input_error_info` then returns the reason ([`mod@skipping`]). Before 17, a bad row fails its COPY: each
//! COPY runs under a savepoint, and the next one starts after the line named in the error's context
//! ([`mod@one_by_one`]). If many rows fail, a loop on the server inserts the lines one by one ([`in_a_loop`]).

mod in_a_loop;
mod one_by_one;
mod reasons;
mod skipping;

use fullbore_load::plan::TablePlan;
use fullbore_load::sink::{Refusal, TextRows};
use fullbore_pgwire::{ConnectionError, ServerMessage, Session};

use one_by_one::one_by_one;
use skipping::skipping;

/// The first version that skips bad rows and logs them.
pub const SKIPS_BAD_ROWS: u32 = 170_000;

/// Where the rows go.
pub struct JudgeTarget<'a> {
    pub table: &'a str,
    /// The table's bare name, as it stands in error contexts.
    pub bare_name: &'a str,
    pub column_list: &'a str,
    pub freeze: bool,
    pub columns: &'a TablePlan,
    /// A number stands before the columns in each line, as the first of the column list.
    pub is_numbered: bool,
}

impl JudgeTarget<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.shape.columns.iter().map(|column| column.name.as_str())
    }
}

/// Rows in runs of at most so many, each with the place of its first row.
pub fn runs_of<'a>(rows: TextRows<'a>, rows_max: usize) -> Vec<(u64, Vec<&'a [u8]>)> {
    if rows.rows as usize <= rows_max {
        return vec![(0, rows.parts.to_vec())];
    }
    let mut runs: Vec<(u64, Vec<&[u8]>)> = vec![(0, Vec::new())];
    let (mut place, mut left) = (0, rows_max);
    for part in rows.parts {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', part).map(|at| at + 1) {
            place += 1;
            left -= 1;
            if left == 0 {
                runs.last_mut().expect("there is one").1.push(&part[start..end]);
                runs.push((place, Vec::new()));
                (start, left) = (end, rows_max);
            }
        }
        if start < part.len() {
            runs.last_mut().expect("there is one").1.push(&part[start..]);
        }
    }
    runs.retain(|(_, parts)| !parts.is_empty());
    runs
}

/// The same as [`judge`], also where a row fails by more than its values: an expression of the table
/// can raise an error of its own, which no COPY skips.
pub fn judge_at_any_price(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    session.execute("SAVEPOINT fullbore_judged")?;
    let judged = match judge(session, target, rows) {
        Err(ConnectionError::Server(error)) if !error.is_fatal() => {
            session.execute("ROLLBACK TO SAVEPOINT fullbore_judged")?;
            one_by_one(session, target, rows)?
        }
        judged => judged?,
    };
    session.execute("RELEASE SAVEPOINT fullbore_judged")?;
    Ok(judged)
}

/// Sends the rows; how many were taken, and those that were refused.
pub fn judge(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<(u64, Vec<Refusal>), ConnectionError> {
    if session.server_version_num() >= SKIPS_BAD_ROWS {
        skipping(session, target, rows)
    } else {
        one_by_one(session, target, rows)
    }
}

/// Sends rows that are known to be good: no savepoint, and so no transaction beside the piece's own.
pub fn take(
    session: &mut Session,
    target: &JudgeTarget<'_>,
    rows: TextRows<'_>,
) -> Result<u64, ConnectionError> {
    let freeze = if target.freeze { ", FREEZE" } else { "" };
    let mut copy = session.copy_in(&format!(
        "COPY {} ({}) FROM STDIN (FORMAT text{freeze})",
        target.table, target.column_list
    ))?;
    for part in rows.parts {
        copy.send(part)?;
    }
    copy.finish()
}

fn miscounted(rows: u64, taken: u64, refused: u64) -> ConnectionError {
    ConnectionError::protocol(format!(
        "of {rows} rows, the server accepted {taken} and rejected {refused}"
    ))
}

/// The refusals that notices tell of, `refusal` reading one. Silence would be loss: each row is
/// either in, or told of.
pub fn refusals_told(
    rows: TextRows<'_>,
    taken: u64,
    notices: &[ServerMessage],
    refusal: impl Fn(&ServerMessage) -> Option<Refusal>,
) -> Result<Vec<Refusal>, ConnectionError> {
    let refusals: Vec<Refusal> =
        notices.iter().filter_map(refusal).filter(|refusal| refusal.row < rows.rows).collect();
    if taken + refusals.len() as u64 != rows.rows {
        return Err(miscounted(rows.rows, taken, refusals.len() as u64));
    }
    Ok(refusals)
}

pub fn first_number(text: &str) -> Option<(u64, &str)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - start);
    Some((text[start..start + digits].parse().ok()?, &text[start + digits..]))
}

/// What a context says of a COPY into a table after the table's name: `, line 3, column a: "x"`. A value
/// may have lines of its own, which come after it. In other languages the name stands elsewhere
/// (`tのCOPY、行 3、列 a: "x"`), and before the lines of functions that are called.
pub fn copy_context<'a>(context: &'a str, bare_name: &str) -> Option<&'a str> {
    let has_number = |rest: &&str| rest.contains(|c: char| c.is_ascii_digit());
    let in_english = |line: &'a str| line.strip_prefix("COPY ")?.strip_prefix(bare_name);
    let after_name = |line: &'a str| line.split_once(bare_name).map(|(_, rest)| rest);
    let copies = |line: &&str| line.contains("COPY");
    let lines = || context.lines();
    lines()
        .find_map(|line| in_english(line).filter(has_number))
        .or_else(|| lines().filter(copies).find_map(|line| after_name(line).filter(has_number)))
        .or_else(|| lines().find_map(|line| after_name(line).filter(has_number)))
}

/// The column that a context names, `, column a: "x"`, and its value. Words of the value may look like a
/// column's name: the first one counts, and of two there the longer.
pub fn column_of(context: &str, target: &JudgeTarget<'_>) -> (Option<String>, Option<String>) {
    let place = |name: &str| {
        let named = [format!(" {name}:"), format!(" {name} :")];
        let within = named.iter().filter_map(|words| context.find(words)).min();
        let last = context.len().saturating_sub(name.len() + 1);
        within.or_else(|| context.ends_with(&format!(" {name}")).then_some(last))
    };
    let column = first_named(target, place);
    let value = column.and_then(|name| context.split_once(&format!(" {name}: ")));
    let value = value.map(|(_, value)| value.trim_matches('"').to_owned());
    (column.map(str::to_owned), value)
}

/// The column whose name stands first in a text, by the place that is found for each.
fn first_named<'a>(
    target: &'a JudgeTarget<'_>,
    place: impl Fn(&str) -> Option<usize>,
) -> Option<&'a str> {
    let found = target.names().filter_map(|name| Some((place(name)?, name)));
    let first = found.min_by_key(|(place, name)| (*place, std::cmp::Reverse(name.len())));
    first.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_copy_whatever_the_value_looks_like() {
        let line = |context: &str, name: &str| {
            copy_context(context, name).and_then(first_number).map(|(line, _)| line)
        };
        let json = "COPY items, line 5, column payload: \"{\n \"items\": [1,\nCOPY items, line 9\"";
        assert_eq!(line(json, "items"), Some(5));
        let raised = "PL/pgSQL function t_check() line 3 at RAISE\nCOPY t, line 7, column a: \"x\"";
        assert_eq!(line(raised, "t"), Some(7));
        assert_eq!(line("tのCOPY、行 3、列 a: \"t 8\"", "t"), Some(3));
        assert_eq!(line("t 복사, 4번째 줄, a 열: \"x\"", "t"), Some(4));
        assert_eq!(line("COPY t2, line 4, column a", "t2"), Some(4));
        assert_eq!(line("SQL function \"f\"", "f"), None);
    }

    #[test]
    fn many_rows_are_judged_a_run_at_a_time() {
        let parts: [&[u8]; 3] = [b"a\nb\nc\n", b"d\n", b"e\nf\ng\n"];
        for rows_max in 1..9 {
            let runs = runs_of(TextRows { parts: &parts, rows: 7 }, rows_max);
            let mut place = 0;
            for (first, parts) in &runs {
                assert_eq!(*first, place);
                let lines = parts.concat().iter().filter(|byte| **byte == b'\n').count();
                assert!((1..=rows_max).contains(&lines), "{lines} of {rows_max}");
                place += lines as u64;
            }
            let all: Vec<&[u8]> = runs.into_iter().flat_map(|(_, parts)| parts).collect();
            assert_eq!(all.concat(), parts.concat());
        }
    }
}
