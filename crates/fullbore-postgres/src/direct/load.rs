//! One table's direct COPYs, within the transaction that made the table.

use fullbore_load::job::DirectIo;
use fullbore_load::plan::KeyBounds;
use fullbore_load::sink::{Refusal, TextRows};
use fullbore_pgwire::{ConnectionError, QualifiedName, ServerMessage, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::observe::clock::{self, Activity};
use fullbore_record::terms::Codec;

use super::check::described;
use super::known::Direct;
use super::{Descriptor, filled};
use crate::encode_direct::{Kind, header};
use crate::error::failed;
use crate::fallback::server_check::{
    JudgeTarget, SKIPS_BAD_ROWS, column_of, copy_context, first_number, judge_at_any_price,
    refusals_told, runs_of,
};
use crate::publish::bounds::RANGE_CHECK;

/// The hint of the NOTICE that tells of a skipped row, and of no other.
const SKIPPED: &str = "fullbore: row skipped";

/// What the COPYs of a piece share.
pub struct DirectLoad {
    copy: String,
    table: QualifiedName,
    /// The table has indexes, which are filled.
    fills: bool,
    /// A COPY was taken.
    has_taken: bool,
    /// The options that hold rows to their range; the first COPY makes a CHECK of them, which holds
    /// those after it.
    range: Option<String>,
    /// So many of the lines sent as text were refused that others find them first.
    refuses_many: bool,
    /// The table for that is made.
    has_sieve: bool,
}

/// Lines sent as text before it is known whether many are refused, ...
const LINES_TRIED: usize = 500;

/// ... which they are from this share on, in percent.
const MANY_PERCENT: usize = 10;

/// A table that lines are sent to before, which asks nothing of them but their types.
const SIEVE: &str = "pg_temp.fullbore_sieve";

impl DirectLoad {
    /// Begins on a table that was just made or truncated; `fills` the indexes that it has.
    pub fn begin(
        session: &mut Session,
        direct: &Direct,
        table: &QualifiedName,
        column_list: &str,
        range: Option<String>,
        fills: bool,
    ) -> Result<Self> {
        let found = described(session, table).map_err(failed)?;
        if let Some(refusal) = found.refusal {
            return Err(changed(table, &refusal.message, refusal.hint));
        }
        if found.hash != direct.descriptor.hash {
            let hint = Some(
                "nothing of this piece was kept; undo the change, then resume the run".to_owned(),
            );
            return Err(changed(table, "its layout changed after the load was planned", hint));
        }
        Self::on(table, column_list, &found, direct.io, range, fills)
    }

    /// The same on a table that was just described.
    pub fn on(
        table: &QualifiedName,
        column_list: &str,
        found: &Descriptor,
        io: DirectIo,
        range: Option<String>,
        fills: bool,
    ) -> Result<Self> {
        let mut copy = format!(
            "COPY {table} ({column_list}) FROM STDIN (FORMAT fullbore, DESCRIPTOR {}, FREEZE",
            quote_literal(&found.hash).map_err(failed)?
        );
        if io != DirectIo::Auto {
            copy.push_str(&format!(", IO '{}'", io.name()));
        }
        if fills {
            copy.push_str(", INDEXES");
        }
        let table = table.clone();
        Ok(Self {
            copy,
            table,
            fills,
            has_taken: false,
            range,
            refuses_many: false,
            has_sieve: false,
        })
    }

    /// All rows are there: builds the indexes. Those whose keys are not unique are invalid, and named.
    pub fn finish(&self, session: &mut Session) -> Result<Option<String>, ConnectionError> {
        if !self.fills {
            return Ok(None);
        }
        clock::enter(Activity::Indexing);
        let finished = filled::finish(session, &self.table);
        clock::enter(Activity::Answering);
        finished
    }

    /// The statement that opens a COPY.
    pub fn copy_sql(&self) -> String {
        format!("{}{})", self.copy, self.range.as_deref().unwrap_or_default())
    }

    /// A COPY was taken: the range has become a CHECK.
    pub fn taken(&mut self) {
        self.has_taken = true;
        self.range = None;
    }

    pub fn has_taken(&self) -> bool {
        self.has_taken
    }

    /// Whether no COPY was taken yet that should have made the CHECK.
    pub fn lacks_check(&self) -> bool {
        self.range.is_some()
    }

    /// Sends rows as text; how many were taken, and those that were refused.
    ///
    /// A line that is refused costs the extension a subtransaction. Servers that skip bad rows by
    /// themselves do it for much less, so where many are bad, COPY into a temporary table finds them
    /// first, and only the others are sent.
    pub fn judge(
        &mut self,
        session: &mut Session,
        target: &JudgeTarget<'_>,
        rows: TextRows<'_>,
    ) -> Result<(u64, Vec<Refusal>), ConnectionError> {
        if session.server_version_num() < SKIPS_BAD_ROWS {
            return self.send(session, target, rows);
        }
        if self.refuses_many {
            return self.sieve(session, target, rows);
        }
        if rows.rows as usize <= LINES_TRIED {
            return self.send(session, target, rows);
        }
        let mut runs = runs_of(rows, LINES_TRIED).into_iter();
        let (_, tried) = runs.next().expect("there are rows");
        let first = TextRows { parts: &tried, rows: LINES_TRIED as u64 };
        let (mut taken, mut refusals) = self.send(session, target, first)?;
        self.refuses_many = refusals.len() * 100 >= LINES_TRIED * MANY_PERCENT;
        let parts: Vec<&[u8]> = runs.flat_map(|(_, parts)| parts).collect();
        let others = TextRows { parts: &parts, rows: rows.rows - first.rows };
        let (more, refused) = match self.refuses_many {
            true => self.sieve(session, target, others)?,
            false => self.send(session, target, others)?,
        };
        taken += more;
        refusals.extend(refused.into_iter().map(|r| Refusal { row: r.row + first.rows, ..r }));
        Ok((taken, refusals))
    }

    /// Lets COPY find the bad rows, and sends the others.
    fn sieve(
        &mut self,
        session: &mut Session,
        target: &JudgeTarget<'_>,
        rows: TextRows<'_>,
    ) -> Result<(u64, Vec<Refusal>), ConnectionError> {
        let made = match self.has_sieve {
            true => format!("TRUNCATE {SIEVE}"),
            false => format!(
                "CREATE TEMP TABLE fullbore_sieve ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA",
                target.column_list, target.table
            ),
        };
        session.execute(&made)?;
        self.has_sieve = true;
        let sieve = JudgeTarget {
            table: SIEVE,
            bare_name: "fullbore_sieve",
            freeze: false,
            is_numbered: false,
            ..*target
        };
        let (_, mut refusals) = judge_at_any_price(session, &sieve, rows)?;
        let mut bad = refusals.iter().map(|refusal| refusal.row).peekable();
        let (mut good, mut places) = (Vec::new(), Vec::new());
        let lines = rows.parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n'));
        for (place, line) in (0u64..).zip(lines) {
            if bad.next_if_eq(&place).is_none() {
                good.extend_from_slice(line);
                places.push(place);
            }
        }
        let parts = [good.as_slice()];
        let sent = TextRows { parts: &parts, rows: places.len() as u64 };
        let (taken, refused) = self.send(session, target, sent)?;
        let place = |row: u64| places.get(row as usize).copied().unwrap_or_default();
        refusals.extend(refused.into_iter().map(|r| Refusal { row: place(r.row), ..r }));
        refusals.sort_by_key(|refusal| refusal.row);
        Ok((taken, refusals))
    }

    fn send(
        &mut self,
        session: &mut Session,
        target: &JudgeTarget<'_>,
        rows: TextRows<'_>,
    ) -> Result<(u64, Vec<Refusal>), ConnectionError> {
        if rows.rows == 0 {
            return Ok((0, Vec::new()));
        }
        session.take_notices();
        session.set_notice_limit(rows.rows as usize + 100);
        let mut copy = session.copy_in(&self.copy_sql())?;
        for part in rows.parts.iter().filter(|part| !part.is_empty()) {
            let lines = memchr::memchr_iter(b'\n', part).count();
            copy.send(&header(Kind::CopyText, Codec::None, lines, part.len(), part))?;
            copy.send(part)?;
        }
        let taken = copy.finish()?;
        self.taken();
        let notices = session.take_notices();
        let refusals = refusals_told(rows, taken, &notices, |notice| skipped(notice, target))?;
        Ok((taken, refusals))
    }
}

/// The options that hold rows to the range of their partition.
pub fn range_options(key: &str, bounds: &KeyBounds) -> Result<String> {
    let mut options = format!(", RANGE_COLUMN {}", quote_literal(key).map_err(failed)?);
    for (option, bound) in [("RANGE_FROM", &bounds.lower), ("RANGE_TO", &bounds.upper)] {
        if let Some(value) = bound.value() {
            options.push_str(&format!(", {option} {}", quote_literal(value).map_err(failed)?));
        }
    }
    options.push_str(&format!(", RANGE_CONSTRAINT '{RANGE_CHECK}'"));
    Ok(options)
}

/// A row that was skipped, by its notice.
fn skipped(notice: &ServerMessage, target: &JudgeTarget<'_>) -> Option<Refusal> {
    if notice.hint.as_deref() != Some(SKIPPED) {
        return None;
    }
    let (line, rest) = first_number(copy_context(notice.where_.as_deref()?, target.bare_name)?)?;
    let (column, value) = column_of(rest, target);
    let detail = notice.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    Some(Refusal {
        row: line.checked_sub(1)?,
        column,
        value,
        constraint: None,
        code: notice.code.clone(),
        reason: format!("{}{detail}", notice.message),
    })
}

fn changed(table: &QualifiedName, how: &str, hint: Option<String>) -> Error {
    Error::Destination {
        message: format!("{table} can no longer be loaded directly: {how}"),
        hint: hint.or_else(|| Some("load with --method copy".into())),
        kind: DestinationFailure::Changed,
    }
}

#[cfg(test)]
mod tests {
    use fullbore_load::plan::KeyEnd;

    use super::*;

    #[test]
    fn ranges_are_options() {
        let bounds = |lower: KeyEnd, upper: KeyEnd| KeyBounds {
            lower,
            upper,
            keys: Default::default(),
            replaces: None,
        };
        assert_eq!(
            range_options("it's", &bounds(KeyEnd::Value("-5".into()), KeyEnd::Max)).unwrap(),
            ", RANGE_COLUMN 'it''s', RANGE_FROM '-5', RANGE_CONSTRAINT 'fullbore_key_range'"
        );
        assert_eq!(
            range_options("k", &bounds(KeyEnd::Min, KeyEnd::Value("2024-01-01 00:00:00".into())))
                .unwrap(),
            ", RANGE_COLUMN 'k', RANGE_TO '2024-01-01 00:00:00', RANGE_CONSTRAINT \
             'fullbore_key_range'"
        );
    }
}
