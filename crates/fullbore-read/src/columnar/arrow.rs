//! The feed of Arrow data of this process.

use std::ops::Range;
use std::sync::Arc;

use fullbore_parse::Lane;

use super::data::{Cursor, CursorError};
use super::units::{Reading, Units};
use crate::error::{Error, Result};
use crate::fed::Fed;
use crate::source_file::SourceFile;

/// Hands out some rows.
pub struct ArrowFeed {
    source: Arc<SourceFile>,
    cursor: Cursor,
    /// The columns that are read, in the data's order.
    columns: Vec<usize>,
    units: Units,
}

impl ArrowFeed {
    /// Opens data, the table's `number`th, at some of its rows, counted from 0.
    pub fn open(
        source: Arc<SourceFile>,
        number: usize,
        rows: Range<u64>,
        reading: &Reading,
    ) -> Result<Self> {
        let opened = source.arrow.as_ref().and_then(|data| data.open(rows));
        let Some(cursor) = opened else {
            return Err(Error::Source {
                path: source.path.clone(),
                message: "is a stream, which can be read only once".into(),
                hint: Some("load it from a table, or write it to a file first".into()),
            });
        };
        let (columns, places) = reading.fields();
        let units = Units::new(source.clone(), number, reading.clone(), places);
        Ok(Self { source, cursor, columns, units })
    }

    /// The next rows, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        loop {
            if let Some(rows) = self.units.hand_out(lane)? {
                return Ok(Fed::Rows(rows));
            }
            let next = self.cursor.next(&self.columns).map_err(|error| match error {
                CursorError::Source(error) => error,
                CursorError::Arrow(error) => Error::Source {
                    path: self.source.path.clone(),
                    message: format!("gave no more rows: {error}"),
                    hint: None,
                },
            })?;
            match next {
                Some((batch, first_row)) => self.units.take(batch, first_row),
                None => return Ok(Fed::End),
            }
        }
    }
}
