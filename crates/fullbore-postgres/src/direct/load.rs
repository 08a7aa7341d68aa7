//! One table's direct COPYs, within the transaction that made the table.

use fullbore_core::destination::{Refusal, TextRows};
use fullbore_core::error::{DestinationFailure, Error, Result};
use fullbore_core::job::{Codec, DirectIo};
use fullbore_core::plan::KeyBounds;

use super::choice::Direct;
use super::probe::descriptor;
use crate::connection::{ConnectionError, QualifiedName, ServerMessage, Session, quote_literal};
use crate::encode_direct::{Kind, header};
use crate::error::failed;
use crate::judge::{JudgeTarget, column_of, first_number, refusals_told};
use crate::publish::partitions::RANGE_CHECK;

/// The hint of the NOTICE that tells of a skipped row, and of no other.
const SKIPPED: &str = "fullbore: row skipped";

/// What the COPYs of a piece share.
pub struct DirectLoad {
    copy: String,
    /// The options that hold rows to their range; the first COPY makes a CHECK of them, which holds
    /// those after it.
    range: Option<String>,
}

impl DirectLoad {
    /// Begins on a table that was just made or truncated.
    pub fn begin(
        session: &mut Session,
        direct: &Direct,
        table: &QualifiedName,
        column_list: &str,
        range: Option<String>,
    ) -> Result<Self> {
        let found = descriptor(session, table).map_err(failed)?;
        if let Some(refusal) = found.refusal {
            return Err(changed(table, &refusal.message, refusal.hint));
        }
        if found.hash != direct.descriptor.hash {
            let hint = Some("nothing of this piece was kept; load again".to_owned());
            return Err(changed(
                table,
                "its shape is no longer the one that was planned for",
                hint,
            ));
        }
        let mut copy = format!(
            "COPY {table} ({column_list}) FROM STDIN (FORMAT fullbore, DESCRIPTOR {}, FREEZE",
            quote_literal(&found.hash).map_err(failed)?
        );
        if direct.io != DirectIo::Auto {
            copy.push_str(&format!(", IO '{}'", direct.io.name()));
        }
        Ok(Self { copy, range })
    }

    /// The statement that opens a COPY.
    pub fn copy_sql(&self) -> String {
        format!("{}{})", self.copy, self.range.as_deref().unwrap_or_default())
    }

    /// A COPY was taken: the range has become a CHECK.
    pub fn taken(&mut self) {
        self.range = None;
    }

    /// Whether no COPY was taken yet that should have made the CHECK.
    pub fn lacks_check(&self) -> bool {
        self.range.is_some()
    }

    /// Sends rows as text; how many were taken, and those that were refused.
    pub fn judge(
        &mut self,
        session: &mut Session,
        target: &JudgeTarget<'_>,
        rows: TextRows<'_>,
    ) -> Result<(u64, Vec<Refusal>), ConnectionError> {
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
        if !matches!(bound.as_str(), "MINVALUE" | "MAXVALUE") {
            options.push_str(&format!(", {option} {}", without_cast(bound)));
        }
    }
    options.push_str(&format!(", RANGE_CONSTRAINT '{RANGE_CHECK}'"));
    Ok(options)
}

/// A literal as [`crate::Target::literal`] writes it, `'1'::bigint`, without its type: the
/// extension reads it as its column's.
fn without_cast(literal: &str) -> &str {
    literal.rfind("'::").map_or(literal, |end| &literal[..=end])
}

/// A row that was skipped, by its notice.
fn skipped(notice: &ServerMessage, target: &JudgeTarget<'_>) -> Option<Refusal> {
    if notice.hint.as_deref() != Some(SKIPPED) {
        return None;
    }
    // `COPY name, line 3, column a: "x"`.
    let context = notice.where_.as_deref()?.lines().find(|line| line.starts_with("COPY "))?;
    let after_name = context.strip_prefix("COPY ")?.strip_prefix(target.bare_name)?;
    let (line, rest) = first_number(after_name)?;
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
        message: format!("{table} can't be loaded directly any more: {how}"),
        hint: hint.or_else(|| Some("load with --method copy".into())),
        kind: DestinationFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_options() {
        let bounds = |lower: &str, upper: &str| KeyBounds {
            lower: lower.into(),
            upper: upper.into(),
            keys: Default::default(),
            replaces: None,
        };
        assert_eq!(
            range_options("it's", &bounds("'-5'::bigint", "MAXVALUE")).unwrap(),
            ", RANGE_COLUMN 'it''s', RANGE_FROM '-5', RANGE_CONSTRAINT 'fullbore_key_range'"
        );
        assert_eq!(
            range_options("k", &bounds("MINVALUE", "'2024-01-01 00:00:00'::timestamp(3)")).unwrap(),
            ", RANGE_COLUMN 'k', RANGE_TO '2024-01-01 00:00:00', RANGE_CONSTRAINT \
             'fullbore_key_range'"
        );
    }
}
