//! One reject: in the run, in its file until its line is known, and in its final JSON form.

use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_parse::dialect::{Dialect, Family, Quotes};
use fullbore_parse::rows::FaultReason;
use fullbore_parse::types::ParseShape;
use fullbore_read::feed::RowFault;
use fullbore_record::Reason;
use serde::{Deserialize, Serialize};

use super::source_row::SourceRow;
use crate::plan::TablePlan;
use crate::sink::Refusal;

/// What to do about rejects, behind an option that would load them.
macro_rules! advice {
    ($option:literal) => {
        concat!(
            $option,
            "correct the rows in the source (the reject file lists them), or allow more with \
             --max-rejects N or P%"
        )
    };
}

/// What to do where there are too many rejects, whatever they are.
pub const HINT: &str = advice!("");

/// What to do where an option would load a row.
fn hint(reason: &FaultReason) -> Option<&'static str> {
    Some(match reason {
        FaultReason::MissingField(_) => advice!("--ragged pad fills missing fields with NULL; or "),
        FaultReason::ExtraField => advice!("--ragged cut drops extra fields; or "),
        FaultReason::NotUtf8(_) => {
            advice!("--encoding NAME, such as windows-1252, reads files that are not UTF-8; or ")
        }
        _ => return None,
    })
}

/// A row refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reject {
    pub row: SourceRow,
    pub column: Option<String>,
    pub value: Option<String>,
    /// The constraint that it breaks, where it is one.
    pub constraint: Option<String>,
    /// The SQLSTATE, where the destination refused it.
    pub code: Option<String>,
    pub reason: String,
    /// How many lines it takes, where it is no row: it may be that many rows. Elsewhere 0.
    pub lines: u64,
    /// Nothing behind it can be read: it ends the load whatever may be rejected.
    pub ends_load: bool,
    /// What to do, where an option would load such a row.
    pub hint: Option<&'static str>,
}

impl Reject {
    pub fn of(row: SourceRow, reason: String) -> Self {
        Self { row, reason, ..Self::default() }
    }

    /// A row of a file of values, one of which can't be loaded.
    pub fn unfit(file: usize, fault: RowFault) -> Self {
        let RowFault { row, column, value, reason, raw } = fault;
        let row = SourceRow { file, offset: row, line: 0, raw };
        Self { row, column, value, reason, ..Self::default() }
    }

    /// A record that is no row.
    pub fn fault(
        row: SourceRow,
        reason: &FaultReason,
        lines: u64,
        shape: &ParseShape,
        dialect: &Dialect,
    ) -> Self {
        let is_lenient = dialect.family == Family::Csv && dialect.quotes == Quotes::Lenient;
        let is_open = *reason == FaultReason::UnterminatedQuote;
        let words = match lines {
            0 | 1 => String::new(),
            // A quote anywhere opens a field there.
            _ if is_lenient => format!(
                " (a record of {lines} lines: a stray quote may join them; with --quotes strict, \
                 only its line is rejected)"
            ),
            _ => format!(" ({lines} lines)"),
        };
        let unfit = match reason {
            FaultReason::Unfit { column, value } => {
                let value = String::from_utf8_lossy(value).into_owned();
                Some((shape.columns[*column].name.clone(), value))
            }
            FaultReason::Json(fault) => {
                let (column, value) = (fault.key.clone(), fault.value.clone());
                return Self { lines, column, value, ..Self::of(row, fault.reason.clone()) };
            }
            _ => None,
        };
        let words = format!("{}{words}", reason.message(shape, row.file));
        let ends_load = is_open && is_lenient && lines > 1;
        let (column, value) = unfit.unzip();
        let hint = hint(reason);
        Self { lines, ends_load, column, value, hint, ..Self::of(row, words) }
    }

    /// How many rows it counts as.
    pub fn counts(&self) -> u64 {
        self.lines.max(1)
    }

    pub fn refused(row: SourceRow, refusal: Refusal) -> Self {
        Self {
            row,
            column: refusal.column,
            value: refusal.value,
            constraint: refusal.constraint,
            code: Some(refusal.code),
            reason: refusal.reason,
            ..Self::default()
        }
    }
}

/// What is spooled until line numbers are known.
#[derive(Serialize, Deserialize)]
pub struct SavedReject {
    pub table: usize,
    pub file: usize,
    pub offset: u64,
    pub line: u64,
    /// Where the range began in which `line` counts; none where it counts in the file.
    pub range_start: Option<u64>,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub code: Option<String>,
    pub reason: String,
    #[serde(default)]
    pub lines: u64,
}

/// Where a kept reject stands.
#[derive(Deserialize)]
pub struct Place {
    pub table: usize,
    pub file: usize,
    pub offset: u64,
}

impl Place {
    pub fn read(json: &[u8]) -> Self {
        serde_json::from_slice(json).expect("written by us")
    }
}

impl SavedReject {
    /// What is kept of a reject, and the record itself.
    pub fn of(table: usize, range_start: Option<u64>, reject: Reject) -> (Vec<u8>, Self) {
        let Reject { row, column, value, constraint, code, reason, lines, .. } = reject;
        let kept = Self {
            table,
            file: row.file,
            offset: row.offset,
            line: row.line,
            range_start,
            column,
            value: value.map(|value| cut(&value)),
            constraint,
            code,
            reason,
            lines,
        };
        (row.raw, kept)
    }

    pub fn reason(self, table: &TablePlan, line: Option<u64>) -> Reason {
        let has_rows = table.format.is_columnar();
        Reason {
            table: table.name.clone(),
            file: table.files[self.file].path.display().to_string(),
            line,
            byte_offset: (!has_rows).then_some(self.offset),
            row: has_rows.then_some(self.offset + 1),
            column: self.column,
            value: self.value,
            constraint: self.constraint,
            code: self.code,
            reason: self.reason,
            lines: Some(self.lines).filter(|lines| *lines > 1),
        }
    }

    pub fn read(json: &[u8]) -> Self {
        serde_json::from_slice(json).expect("written by us")
    }
}

/// A value short enough to be shown, cut between characters.
fn cut(value: &str) -> String {
    let end = value.floor_char_boundary(REJECT_VALUE_BYTES);
    value[..end].to_owned()
}
