//! An error as data, for programs.

use fullbore_read::error::{DestinationFailure, Error, Position};
use schemars::JsonSchema;
use serde::Serialize;

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDetails {
    /// `usage`, `read`, `write`, `source`, `source-changed`, `rejects`, `destination`, `taken-over`,
    /// `rolling-back` (by another part of the load, which says why), `client` or `interrupted`.
    kind: &'static str,
    /// The file that it is about.
    file: Option<String>,
    /// Line, from 1, of text.
    line: Option<u64>,
    /// Row, from 1, of Parquet and Arrow.
    row: Option<u64>,
    /// Byte, from 0, where a file is so large that its lines were not counted.
    byte_offset: Option<u64>,
    column: Option<String>,
    value: Option<String>,
    /// Why the row was rejected.
    reason: Option<String>,
    /// What can be done.
    hint: Option<String>,
}

impl ErrorDetails {
    pub fn of(error: &Error) -> Self {
        let (kind, path, rejected) = match error {
            Error::Usage { .. } => ("usage", None, None),
            Error::Read { path, .. } => ("read", Some(path), None),
            Error::Write { path, .. } => ("write", Some(path), None),
            Error::Source { path, .. } => ("source", Some(path), None),
            Error::SourceChanged { path, .. } => ("source-changed", Some(path), None),
            Error::TooManyRejects { first, .. } => ("rejects", None, first.as_ref()),
            Error::Unterminated { row } => ("rejects", None, Some(row)),
            Error::Destination { kind: DestinationFailure::TakenOver, .. } => {
                ("taken-over", None, None)
            }
            Error::Destination { kind: DestinationFailure::RollingBack, .. } => {
                ("rolling-back", None, None)
            }
            Error::Destination { .. } => ("destination", None, None),
            Error::Client { .. } => ("client", None, None),
            Error::Interrupted => ("interrupted", None, None),
        };
        let path = path.or(rejected.map(|row| &row.file));
        let (line, row, byte_offset) = match rejected.map(|row| row.place) {
            None => (None, None, None),
            Some(Position::Line(line)) => (Some(line), None, None),
            Some(Position::Row(row)) => (None, Some(row), None),
            Some(Position::Byte(offset)) => (None, None, Some(offset)),
        };
        Self {
            kind,
            file: path.map(|path| path.display().to_string()),
            line,
            row,
            byte_offset,
            column: rejected.and_then(|row| row.column.clone()),
            value: rejected.and_then(|row| row.value.clone()),
            reason: rejected.map(|row| row.reason.clone()),
            hint: error.hint().map(str::to_owned),
        }
    }
}

/// A refusal before anything was touched, in place of a load's result.
pub fn refusal(error: &Error) -> serde_json::Value {
    serde_json::json!({
        "error": error.to_string(),
        "hint": error.hint(),
        "error_details": ErrorDetails::of(error),
    })
}
