//! The feed of rows: decodes a few thousand at a time, and hands them out in units of about a megabyte, in
//! the target's types or as text.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Fields, Schema};
use arrow_select::filter::filter_record_batch;
use fullbore_parse::Lane;
use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseShape};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, RowSelection, RowSelector,
};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};

use super::memory::PageMemory;
use super::pages::{Bounds, Group, Trouble};
use super::views::{Cuts, TooLong, as_views, cuts, hydrated};
use super::{damaged, open};
use crate::cast::{self, Cast};
use crate::constants::{PAGES_BYTES_MAX, PARQUET_BATCH_ROWS};
use crate::error::{Error, Result};
use crate::feed::{Fed, RowFault, Rows};
use crate::source_file::FileRange;
use crate::source_file::SourceFile;

/// How rows of Parquet files are read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What is loaded of a file's columns, and as what.
    pub shape: Arc<ParseShape>,
    /// Bytes that a row may have.
    pub row_bytes_max: usize,
    /// What the pages of all feeds take.
    pub memory: Arc<PageMemory>,
}

impl Reading {
    /// A reading by itself, beside which no other goes on.
    pub fn alone(shape: Arc<ParseShape>, row_bytes_max: usize) -> Self {
        Self { shape, row_bytes_max, memory: Arc::default() }
    }
}

/// Reads some rows of a file.
pub struct ParquetFeed {
    source: Arc<SourceFile>,
    file: Arc<File>,
    metadata: ArrowReaderMetadata,
    levels: FieldLevels,
    reading: Reading,
    /// The projection's place of each column that is loaded.
    places: Vec<usize>,
    /// Row groups that are still to be read, and their rows, counted in the group.
    groups: VecDeque<(usize, Range<u64>)>,
    reader: Option<(ParquetRecordBatchReader, Arc<Bounds>)>,
    /// Rows to decode at a time.
    rows: usize,
    /// What was decoded and is not handed out.
    decoded: Option<Decoded>,
    /// The file's place among the table's, and the row that is decoded next.
    number: usize,
    next_row: u64,
}

/// A batch that is handed out a run of rows at a time.
struct Decoded {
    batch: RecordBatch,
    first_row: u64,
    runs: VecDeque<Range<usize>>,
    too_long: Vec<TooLong>,
}

impl ParquetFeed {
    /// Opens a file, the table's `number`th, at some of its rows, counted from 0.
    pub fn open(
        source: Arc<SourceFile>,
        number: usize,
        rows: Range<u64>,
        reading: &Reading,
    ) -> Result<Self> {
        let file = source.open()?;
        let metadata = open(&file).map_err(|error| damaged(&source, error))?;
        let shape = &reading.shape;
        let mut roots: Vec<usize> = shape.columns.iter().map(|column| column.field).collect();
        roots.sort_unstable();
        roots.dedup();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let views: Fields = metadata.schema().fields().iter().map(as_views).collect();
        let levels = parquet_to_arrow_field_levels(metadata.parquet_schema(), mask, Some(&views))
            .map_err(|error| damaged(&source, error))?;
        // The projection keeps the file's order and drops the rest.
        let place = |field| roots.binary_search(&field).expect("it is one of them");
        let places = shape.columns.iter().map(|column| place(column.field)).collect();
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
            file: Arc::new(file),
            metadata,
            levels,
            reading: reading.clone(),
            places,
            groups,
            reader: None,
            rows: PARQUET_BATCH_ROWS,
            decoded: None,
            number,
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
            if let Some(rows) = self.hand_out(lane)? {
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
                        None => return Err(damaged(&self.source, error)),
                    }
                }
            }
        }
    }

    fn open_reader(
        &self,
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
                _ => Err(damaged(&self.source, error)),
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
        let Cuts { runs, too_long } = cuts(&batch, self.reading.row_bytes_max as u64);
        self.decoded = Some(Decoded { batch, first_row, runs: runs.into(), too_long });
    }

    /// Hands out the next run of the rows that are decoded.
    fn hand_out(&mut self, lane: Lane) -> Result<Option<Rows>> {
        let Some(decoded) = &mut self.decoded else { return Ok(None) };
        let too_long = std::mem::take(&mut decoded.too_long);
        let (batch, first) = (decoded.batch.clone(), decoded.first_row);
        let run = decoded.runs.pop_front();
        if decoded.runs.is_empty() {
            self.decoded = None;
        }
        let faults: Vec<RowFault> =
            too_long.iter().map(|found| self.too_long(&batch, first, found)).collect();
        let Some(run) = run else {
            // No row is left but those.
            let batch = self.cast(&batch.slice(0, 0), 0, lane)?.batch;
            return Ok(Some(Rows {
                batch,
                file: self.number,
                numbers: Vec::new(),
                faults,
                rounded: 0,
            }));
        };
        let start = first + run.start as u64;
        let mut rows = self.cast(&batch.slice(run.start, run.len()), start, lane)?;
        rows.faults.extend(faults);
        Ok(Some(rows))
    }

    /// The columns that are loaded of rows, of which `first` stand before them in the file; rows that
    /// have a value that can't be loaded are left out, as faults.
    fn cast(&self, batch: &RecordBatch, first: u64, lane: Lane) -> Result<Rows> {
        let mut numbers: Vec<u64> = (first..).take(batch.num_rows()).collect();
        let mut bad: Vec<Option<RowFault>> = Vec::new();
        let mut arrays = Vec::with_capacity(self.places.len());
        let mut rounded = 0;
        for (place, column) in self.places.iter().zip(&self.reading.shape.columns) {
            let name = &self.reading.shape.field_names[column.field];
            let stored = self.stored(batch, *place, name)?;
            match cast_column(&stored, &column.field_type, lane) {
                Ok(Cast { array, rounded: its }) => {
                    rounded += its;
                    arrays.push(array);
                }
                Err(found) => {
                    bad.resize_with(batch.num_rows(), || None);
                    for Unfit { row, value, why } in found {
                        let number = first + row as u64;
                        bad[row].get_or_insert_with(|| RowFault {
                            row: number,
                            column: Some(column.name.clone()),
                            value: Some(value),
                            reason: why,
                            raw: self.line(batch, row),
                        });
                    }
                }
            }
        }
        if !bad.is_empty() {
            let mask: BooleanArray = bad.iter().map(|fault| Some(fault.is_none())).collect();
            let kept = filter_record_batch(batch, &mask).map_err(|e| damaged(&self.source, e))?;
            let mut rows = self.cast(&kept, first, lane)?;
            let mut is_kept = bad.iter().map(Option::is_none);
            numbers.retain(|_| is_kept.next().unwrap_or(true));
            rows.numbers = numbers;
            rows.faults = bad.into_iter().flatten().collect();
            return Ok(rows);
        }
        let fields = self.reading.shape.columns.iter().zip(&arrays);
        let fields =
            fields.map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|error| damaged(&self.source, error))?;
        Ok(Rows { batch, file: self.number, numbers, faults: Vec::new(), rounded })
    }

    /// A column of a batch, in memory of its own.
    fn stored(&self, batch: &RecordBatch, place: usize, name: &str) -> Result<ArrayRef> {
        let array = batch.columns().get(place).ok_or_else(|| {
            damaged(&self.source, format!("column {name:?} is not at the top level"))
        })?;
        hydrated(array).map_err(|error| damaged(&self.source, error))
    }

    /// The fault of a row that is longer than it may be.
    fn too_long(&self, batch: &RecordBatch, first: u64, found: &TooLong) -> RowFault {
        let most = self.reading.row_bytes_max;
        let columns = &self.reading.shape.columns;
        let column = found.column.and_then(|column| {
            let at = self.places.iter().position(|place| *place == column)?;
            columns.get(at)
        });
        let what = if column.is_some() { "value" } else { "row" };
        RowFault {
            row: first + found.row as u64,
            column: column.map(|column| column.name.clone()),
            value: None,
            reason: format!(
                "{what} of {} bytes; at most {most} are allowed (--max-field-bytes)",
                found.bytes
            ),
            raw: self.line(batch, found.row),
        }
    }

    /// What stands for a row in the reject file: the beginnings of its values, as COPY's text.
    fn line(&self, batch: &RecordBatch, row: usize) -> Vec<u8> {
        let mut line = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            if at > 0 {
                line.push(b'\t');
            }
            let Some(array) = batch.columns().get(*place) else { continue };
            if array.is_null(row) {
                line.extend_from_slice(b"\\N");
                continue;
            }
            let text = cast::shown(array, row, REJECT_LINE_VALUE_BYTES);
            write_copy_text(text.as_bytes(), &mut line);
        }
        line.push(b'\n');
        line
    }
}

/// Bytes of a value that are kept of a row that is rejected before it was made text.
const REJECT_LINE_VALUE_BYTES: usize = 5 * REJECT_VALUE_BYTES;

/// A row that can't be cast: its value, and why.
struct Unfit {
    row: usize,
    value: String,
    why: String,
}

/// A column as the lane wants it; where values are in the way, all rows that have such.
fn cast_column(stored: &ArrayRef, target: &FieldType, lane: Lane) -> Result<Cast, Vec<Unfit>> {
    let wanted = match lane {
        Lane::Binary => cast::typed,
        Lane::Text => cast::as_text,
    };
    wanted(stored, target).map_err(|why| {
        let mut unfit = Vec::new();
        halve(stored, 0, &|part| wanted(part, target).map(drop), &mut unfit);
        if unfit.is_empty() {
            // All rows by themselves are right: what is wrong is wrong with the first then.
            unfit.push(Unfit { row: 0, value: String::new(), why });
        }
        unfit
    })
}

/// Finds all rows that can't be cast, in time that grows with their number.
fn halve(
    array: &ArrayRef,
    first: usize,
    cast: &dyn Fn(&ArrayRef) -> Result<(), cast::Unfit>,
    unfit: &mut Vec<Unfit>,
) {
    let Err(why) = cast(array) else { return };
    if array.len() <= 1 {
        let value = cast::shown(array, 0, REJECT_VALUE_BYTES);
        unfit.push(Unfit { row: first, value, why });
        return;
    }
    let half = array.len() / 2;
    for (start, end) in [(0, half), (half, array.len())] {
        // Without the items of the other half's lists.
        let part = array.slice(start, end - start);
        let part = hydrated(&part).unwrap_or(part);
        halve(&part, first + start, cast, unfit);
    }
}

/// Reads ranges of rows of files, one after the other.
pub struct RowFeed {
    files: Vec<Arc<SourceFile>>,
    ranges: VecDeque<FileRange>,
    reading: Reading,
    open: Option<ParquetFeed>,
}

impl RowFeed {
    pub fn new(files: Vec<Arc<SourceFile>>, ranges: Vec<FileRange>, reading: Reading) -> Self {
        Self { files, ranges: ranges.into(), reading, open: None }
    }

    /// The next rows, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        loop {
            let feed = match &mut self.open {
                Some(feed) => feed,
                None => {
                    let Some(range) = self.ranges.pop_front() else { return Ok(Fed::End) };
                    let source = self.files[range.file].clone();
                    let rows = range.start..range.end;
                    self.open.insert(ParquetFeed::open(source, range.file, rows, &self.reading)?)
                }
            };
            match feed.next(lane)? {
                Fed::End => self.open = None,
                fed => return Ok(fed),
            }
        }
    }
}
