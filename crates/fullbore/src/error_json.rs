//! An error as data, for programs.

use fullbore_read::error::{Error, Position, RejectedRow};
use schemars::JsonSchema;
use serde::Serialize;

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDetails {
    /// `usage`, `read`, `write`, `source`, `source-changed`, `rejects`, `destination`, `client` or
    /// `interrupted`.
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
            Error::TooManyRejects { first, .. } => {
                ("rejects", first.as_ref().map(|row| &row.file), first.as_deref())
            }
            Error::Unterminated { row } => ("rejects", Some(&row.file), Some(row.as_ref())),
            Error::Destination { .. } => ("destination", None, None),
            Error::Client { .. } => ("client", None, None),
            Error::Interrupted => ("interrupted", None, None),
        };
        let position =
            |wanted: fn(Position) -> Option<u64>| rejected.and_then(|row| wanted(row.place));
        let text = |of: fn(&RejectedRow) -> Option<String>| rejected.and_then(of);
        Self {
            kind,
            file: path.map(|path| path.display().to_string()),
            line: position(
                |place| if let Position::Line(line) = place { Some(line) } else { None },
            ),
            row: position(|place| if let Position::Row(row) = place { Some(row) } else { None }),
            byte_offset: position(|place| {
                if let Position::Byte(offset) = place { Some(offset) } else { None }
            }),
            column: text(|row| row.column.clone()),
            value: text(|row| row.value.clone()),
            reason: text(|row| Some(row.reason.clone())),
            hint: error.hint().map(str::to_owned),
        }
    }
}
