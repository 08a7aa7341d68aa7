//! The feed of a Parquet file's rows: decodes a few thousand at a time.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Fields;
use bytes::Bytes;
use fullbore_objects::{Pace, Reader};
use fullbore_parse::Lane;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, RowSelection, RowSelector,
};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};

use super::pages::{Bounds, Group, Trouble, WHOLE_BYTES, small_span};
use super::{damaged, footer, wrong};
use crate::columnar::units::{Reading, Units};
use crate::columnar::views::as_views;
use crate::constants::{PAGES_BYTES_MAX, PARQUET_BATCH_ROWS};
use crate::error::{Error, Result};
use crate::fed::Fed;
use crate::opened::Opened;
use crate::source_file::SourceFile;

/// A row group that was asked for as one: its number, where it is, and its bytes as they come.
type Asked = (usize, Range<u64>, Reader);

/// Reads some rows of a file.
pub struct ParquetFeed {
    source: Arc<SourceFile>,
    file: Arc<Opened>,
    metadata: ArrowReaderMetadata,
    levels: FieldLevels,
    mask: ProjectionMask,
    ahead: Option<Asked>,
    reading: Reading,
    /// Row groups that are still to be read, and their rows, counted in the group.
    groups: VecDeque<(usize, Range<u64>)>,
    reader: Option<(ParquetRecordBatchReader, Arc<Bounds>)>,
    /// Rows to decode at a time.
    rows: usize,
    units: Units,
    /// The row that is decoded next.
    next_row: u64,
}

impl ParquetFeed {
    /// Opens a file, the table's `number`th, at some of its rows, counted from 0.
    pub fn open(
        source: Arc<SourceFile>,
        number: usize,
        rows: Range<u64>,
        reading: &Reading,
    ) -> Result<Self> {
        let file = Arc::new(source.open()?);
        let metadata = footer(&source, &file)?;
        // The projection keeps the file's order and drops the rest.
        let (roots, places) = reading.fields();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let views: Fields = metadata.schema().fields().iter().map(as_views).collect();
        let levels =
            parquet_to_arrow_field_levels(metadata.parquet_schema(), mask.clone(), Some(&views))
                .map_err(|error| damaged(&source, error))?;
        let mut groups = VecDeque::new();
        let mut begins = 0;
        for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
            let ends = begins + u64::try_from(group.num_rows()).unwrap_or(0);
            let wanted = rows.start.max(begins)..rows.end.min(ends);
            if !wanted.is_empty() {
                groups.push_back((number, wanted.start - begins..wanted.end - begins));
            }
            begins = ends;
        }
        Ok(Self {
            file,
            metadata,
            levels,
            mask,
            ahead: None,
            reading: reading.clone(),
            units: Units::new(source.clone(), number, reading.clone(), places),
            groups,
            reader: None,
            rows: PARQUET_BATCH_ROWS,
            next_row: rows.start,
            source,
        })
    }

    #[cfg(test)]
    pub fn rows_at_a_time(&self) -> usize {
        self.rows
    }

    /// The next rows, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        loop {
            if let Some(rows) = self.units.hand_out(lane)? {
                return Ok(Fed::Rows(rows));
            }
            let Some((group, rows)) = self.groups.front().cloned() else {
                self.source.check_unchanged(&self.file)?;
                return Ok(Fed::End);
            };
            let (reader, bounds) = match &mut self.reader {
                Some(open) => open,
                None => {
                    let opened = self.open_reader(group, rows)?;
                    self.reader.insert(opened)
                }
            };
            match reader.next() {
                Some(Ok(batch)) => self.take(batch),
                None => {
                    let missing =
                        self.groups.pop_front().map_or(0, |(_, rows)| rows.end - rows.start);
                    if missing > 0 {
                        let group = group + 1;
                        return Err(damaged(
                            &self.source,
                            format!("row group {group} lacks {missing} of its rows"),
                        ));
                    }
                    self.reader = None;
                }
                Some(Err(error)) => {
                    let trouble = bounds.take_trouble();
                    // What it holds is given back.
                    self.reader = None;
                    match trouble {
                        Some(Trouble::FewerRows(rows)) => self.rows = rows,
                        Some(Trouble::Later) => return Ok(Fed::Later),
                        Some(Trouble::TooMuch(what)) => return Err(self.too_much(&what)),
                        None => return Err(wrong(&self.source, error)),
                    }
                }
            }
        }
    }

    /// The row groups behind the one that is read, by their rows.
    pub fn groups_left(&self) -> Vec<Range<u64>> {
        let mut begins = self.next_row;
        let ends = self.groups.iter().map(|(_, rows)| {
            begins += rows.end - rows.start;
            begins
        });
        let ends: Vec<u64> = ends.collect();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Leaves out the group that begins with a row, and those behind it; false where it is not there.
    pub fn end_before_group(&mut self, row: u64) -> bool {
        let found = self.groups_left().iter().position(|rows| rows.start == row);
        if let Some(at) = found {
            self.groups.truncate(at + 1);
        }
        found.is_some()
    }

    /// All of a small row group of an object, while the one after it is on its way.
    fn fetch_whole(&mut self, group: usize) -> Result<Option<(u64, Bytes)>> {
        let asked = match self.ahead.take().filter(|(number, ..)| *number == group) {
            Some(asked) => Some(asked),
            None => self.ask(group)?,
        };
        if let Some((next, _)) = self.groups.get(1) {
            self.ahead = self.ask(*next)?;
        }
        let Some((_, span, mut reader)) = asked else { return Ok(None) };
        let mut bytes = vec![0; (span.end - span.start) as usize];
        reader.read_exact(&mut bytes).map_err(|error| self.source.unreadable(error))?;
        Ok(Some((span.start, bytes.into())))
    }

    /// Asks for a row group as one, if it is a small one of an object.
    fn ask(&self, group: usize) -> Result<Option<Asked>> {
        let Some(object) = &self.source.object else { return Ok(None) };
        let stored = self.metadata.metadata().row_group(group);
        let span = small_span(stored, |leaf| self.mask.leaf_included(leaf));
        let Some(span) = span.map_err(|error| wrong(&self.source, error))? else { return Ok(None) };
        let mut reader = Reader::new(object, span.clone(), Pace::Steady(WHOLE_BYTES));
        reader.begin();
        Ok(Some((group, span, reader)))
    }

    fn open_reader(
        &mut self,
        group: usize,
        rows: Range<u64>,
    ) -> Result<(ParquetRecordBatchReader, Arc<Bounds>)> {
        let leaves = self.metadata.parquet_schema().num_columns();
        let most = PAGES_BYTES_MAX.max(4 * self.reading.row_bytes_max as u64);
        let bounds = Bounds::new(self.rows, most, leaves, self.reading.memory.clone());
        let bounds = Arc::new(bounds);
        let pages = Group {
            file: self.file.clone(),
            metadata: self.metadata.metadata().clone(),
            number: group,
            columns: self.reading.fields().0.len(),
            whole: self.fetch_whole(group)?,
            bounds: bounds.clone(),
        };
        let wanted = [
            RowSelector::skip(rows.start as usize),
            RowSelector::select((rows.end - rows.start) as usize),
        ];
        let selection = RowSelection::from(wanted.to_vec());
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &self.levels,
            &pages,
            self.rows,
            Some(selection),
        );
        match reader {
            Ok(reader) => Ok((reader, bounds)),
            Err(error) => match bounds.take_trouble() {
                Some(Trouble::TooMuch(what)) => Err(self.too_much(&what)),
                _ => Err(wrong(&self.source, error)),
            },
        }
    }

    fn too_much(&self, what: &str) -> Error {
        Error::Source {
            path: self.source.path.clone(),
            message: format!("row {} or after: {what}", self.next_row + 1),
            hint: Some(format!(
                "if that is right, raise --max-field-bytes ({} now): pages may take four times as much, and \
                 memory grows by it",
                self.reading.row_bytes_max
            )),
        }
    }

    fn take(&mut self, batch: RecordBatch) {
        let count = batch.num_rows() as u64;
        let first_row = self.next_row;
        self.next_row += count;
        let is_done = self.groups.front_mut().is_none_or(|(_, rows)| {
            rows.start += count;
            rows.is_empty()
        });
        if is_done {
            self.groups.pop_front();
            self.reader = None;
            // What follows may be shorter again.
            self.rows = (4 * self.rows).min(PARQUET_BATCH_ROWS);
        }
        self.units.take(batch, first_row);
    }
}
