//! From batches to units: cuts batches into runs of about a megabyte, casts their columns to the target's
//! types or to text, and sets rows aside that can't be cast.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use arrow_select::filter::filter_record_batch;
use fullbore_parse::Lane;
use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseShape};

use super::utf8::row_not_utf8;
use super::views::{Cuts, TooLong, cuts, hydrated};
use crate::bad_rows::bad_rows;
use crate::cast::{self, Cast};
use crate::error::{Error, Result};
use crate::fed::{RowFault, Rows};
use crate::parquet::memory::PageMemory;
use crate::source_file::SourceFile;

/// How rows are read.
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
    /// The fields that are read, in order, and the place among them of each column that is loaded.
    pub fn fields(&self) -> (Vec<usize>, Vec<usize>) {
        let columns = &self.shape.columns;
        let mut fields: Vec<usize> = columns.iter().map(|column| column.field).collect();
        fields.sort_unstable();
        fields.dedup();
        let place = |field| fields.binary_search(&field).expect("it is one of them");
        let places = columns.iter().map(|column| place(column.field)).collect();
        (fields, places)
    }

    /// A reading by itself, beside which no other goes on.
    pub fn alone(shape: Arc<ParseShape>, row_bytes_max: usize) -> Self {
        Self { shape, row_bytes_max, memory: Arc::default() }
    }
}

/// A batch that is handed out a run of rows at a time.
struct Decoded {
    batch: RecordBatch,
    first_row: u64,
    runs: VecDeque<Range<usize>>,
    too_long: Vec<TooLong>,
}

/// The batches of one file on their way to units.
pub struct Units {
    source: Arc<SourceFile>,
    /// The file's place among the table's.
    number: usize,
    reading: Reading,
    /// The batches' place of each column that is loaded.
    places: Vec<usize>,
    /// What was taken and is not handed out.
    decoded: Option<Decoded>,
}

impl Units {
    pub fn new(
        source: Arc<SourceFile>,
        number: usize,
        reading: Reading,
        places: Vec<usize>,
    ) -> Self {
        Self { source, number, reading, places, decoded: None }
    }

    /// Takes a batch, once all of the one before is handed out. `first_row`: its first row in the file, from
    /// 0.
    pub fn take(&mut self, batch: RecordBatch, first_row: u64) {
        let Cuts { runs, too_long } = cuts(&batch, self.reading.row_bytes_max as u64);
        self.decoded = Some(Decoded { batch, first_row, runs: runs.into(), too_long });
    }

    /// Hands out the next run of the rows that are decoded.
    pub fn hand_out(&mut self, lane: Lane) -> Result<Option<Rows>> {
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
            let stored = self.stored(batch, *place, name, first)?;
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
            let kept =
                filter_record_batch(batch, &mask).map_err(|error| self.unreadable(&error))?;
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
            .map_err(|error| self.unreadable(&error))?;
        Ok(Rows { batch, file: self.number, numbers, faults: Vec::new(), rounded })
    }

    /// A column of a batch, in memory of its own.
    /// `first` rows stand before it in the file.
    fn stored(
        &self,
        batch: &RecordBatch,
        place: usize,
        name: &str,
        first: u64,
    ) -> Result<ArrayRef> {
        let array = batch
            .columns()
            .get(place)
            .ok_or_else(|| self.unreadable(&format!("column {name:?} is not at the top level")))?;
        let array = hydrated(array).map_err(|error| self.unreadable(&error))?;
        // Texts of a file were checked as they were decoded.
        if self.source.arrow.is_some()
            && let Some(row) = row_not_utf8(&array)
        {
            let words =
                format!("column {name:?}, row {}: text that is not UTF-8", first + row as u64 + 1);
            return Err(self.unreadable(&words));
        }
        Ok(array)
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

    /// What stands for a row in the reject file.
    fn line(&self, batch: &RecordBatch, row: usize) -> Vec<u8> {
        line_of(self.places.iter().map(|place| batch.columns().get(*place)), row)
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Source {
            path: self.source.path.clone(),
            message: format!("has rows that can't be read: {why}"),
            hint: None,
        }
    }
}

/// What stands in the reject file for a row that has no text of its own: the beginnings of its values, as COPY's text.
pub fn line_of<'a>(columns: impl Iterator<Item = Option<&'a ArrayRef>>, row: usize) -> Vec<u8> {
    let mut line = Vec::new();
    for (at, array) in columns.enumerate() {
        if at > 0 {
            line.push(b'\t');
        }
        let Some(array) = array else { continue };
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
        let part = |start, length| {
            let part = stored.slice(start, length);
            // Without the items of the other rows' lists.
            let part = hydrated(&part).unwrap_or(part);
            wanted(&part, target).map(drop)
        };
        let value = |row| cast::shown(stored, row, REJECT_VALUE_BYTES);
        let bad = bad_rows(stored.len(), &part).into_iter();
        let mut unfit: Vec<_> =
            bad.map(|(row, why)| Unfit { row, value: value(row), why }).collect();
        if unfit.is_empty() {
            // All rows by themselves are right: what is wrong is wrong with the first then.
            unfit.push(Unfit { row: 0, value: String::new(), why });
        }
        unfit
    })
}
