//! One reject: as it is known to the run, as it is kept until its line is known, and as it is told.

use serde::{Deserialize, Serialize};

use super::source_row::SourceRow;
use crate::constants::REJECT_VALUE_BYTES;
use crate::destination::Refusal;
use crate::plan::{Format, TablePlan};
use crate::source::feed::RowFault;

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

    pub fn refused(row: SourceRow, refusal: Refusal) -> Self {
        Self {
            row,
            column: refusal.column,
            value: refusal.value,
            constraint: refusal.constraint,
            code: Some(refusal.code),
            reason: refusal.reason,
        }
    }
}

/// One line of the reason file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reason {
    pub table: String,
    pub file: String,
    /// Line of the file, from 1; none for sources without lines.
    pub line: Option<u64>,
    /// None for sources without lines.
    pub byte_offset: Option<u64>,
    /// Row of a Parquet file, from 1.
    pub row: Option<u64>,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub code: Option<String>,
    pub reason: String,
}

/// What is spooled until line numbers are known.
#[derive(Serialize, Deserialize)]
pub struct Kept {
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

impl Kept {
    /// What is kept of a reject, and the record itself.
    pub fn of(table: usize, range_start: Option<u64>, reject: Reject) -> (Vec<u8>, Self) {
        let Reject { row, column, value, constraint, code, reason } = reject;
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
        };
        (row.raw, kept)
    }

    pub fn reason(self, table: &TablePlan, line: Option<u64>) -> Reason {
        let is_parquet = table.format == Format::Parquet;
        Reason {
            table: table.name.clone(),
            file: table.files[self.file].path.display().to_string(),
            line,
            byte_offset: (!is_parquet).then_some(self.offset),
            row: is_parquet.then_some(self.offset + 1),
            column: self.column,
            value: self.value,
            constraint: self.constraint,
            code: self.code,
            reason: self.reason,
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
