//! Rows that come as Arrow's: data of this process, from a program that Fullbore is part of, and what is read of
//! another server.
//!
//! Such a source is named by a URI, `arrow:NAME-ID`, that [`Registered`] gives it as long as it lives: a job
//! stays plain data. The id is drawn, so that no ledger takes one process's data for another's.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::inspected::Inspected;
use super::views;
use crate::constants::PARQUET_BATCH_ROWS;
use crate::error::{Error, Result};

/// What the URI of such data begins with.
pub const SCHEME: &str = "arrow:";

/// Rows of a group that work is cut by: the least that a piece has.
const GROUP_ROWS: usize = 8 * PARQUET_BATCH_ROWS;

/// Rows that somebody else keeps, read from many places side by side.
pub trait RowStretches: Send + Sync {
    /// What messages and lineage call them.
    fn told(&self) -> String;
    /// Its columns.
    fn schema(&self) -> SchemaRef;
    /// Stretches that work is cut by, in their order: how many numbers of rows they take, and about how many bytes
    /// they are.
    fn groups(&self) -> Vec<(u64, u64)>;
    /// Opens the rows with these numbers, these columns of them.
    fn open(self: Arc<Self>, rows: Range<u64>, columns: &[usize]) -> Result<Box<dyn RowBatches>>;
}

/// Rows on their way.
pub trait RowBatches: Send {
    /// The next rows, and the number of the first of them, which ascends; `None` at the end.
    fn next(&mut self) -> Result<Option<(RecordBatch, u64)>>;
}

/// Arrow data of this process.
pub struct ArrowData {
    /// With types that need no lookup: no dictionaries, no runs.
    schema: SchemaRef,
    /// What messages and lineage call it, where that is not its URI.
    told: Option<String>,
    rows: Rows,
}

enum Rows {
    /// All are at hand: they can be read from any place, and more than once.
    Table {
        batches: Vec<RecordBatch>,
        /// The number of the first row of each batch, and the number of all rows.
        starts: Vec<u64>,
        /// The bytes of each batch's values.
        bytes: Vec<u64>,
    },
    /// They are read from where they are, any of them, and more than once.
    Stretches(Arc<dyn RowStretches>),
    /// They come one after the other, once.
    Stream(Mutex<Option<Box<dyn RecordBatchReader + Send>>>),
}

impl ArrowData {
    /// Of batches that share a schema.
    pub fn table(schema: &Schema, batches: Vec<RecordBatch>) -> Self {
        let mut starts = vec![0];
        for batch in &batches {
            starts.push(starts[starts.len() - 1] + batch.num_rows() as u64);
        }
        let bytes = batches.iter().map(bytes_of).collect();
        let rows = Rows::Table { batches, starts, bytes };
        Self { schema: plain_schema(schema), told: None, rows }
    }

    /// Of what gives batches one after the other.
    pub fn stream(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        let schema = plain_schema(&reader.schema());
        Self { schema, told: None, rows: Rows::Stream(Mutex::new(Some(reader))) }
    }

    /// The same, called so in messages and lineage.
    #[must_use]
    pub fn called(mut self, told: &str) -> Self {
        self.told = Some(told.to_owned());
        self
    }

    /// Of rows that somebody else keeps.
    pub fn stretches(rows: Arc<dyn RowStretches>) -> Self {
        Self { schema: rows.schema(), told: Some(rows.told()), rows: Rows::Stretches(rows) }
    }

    /// What messages and lineage call it, where that is not its URI.
    pub fn told(&self) -> Option<String> {
        self.told.clone()
    }

    /// Whether it can be read more than once.
    pub fn is_table(&self) -> bool {
        !matches!(self.rows, Rows::Stream(_))
    }

    /// The bytes of all values of a table; 0 of a stream.
    pub fn bytes(&self) -> u64 {
        match &self.rows {
            Rows::Table { bytes, .. } => bytes.iter().sum(),
            Rows::Stretches(rows) => rows.groups().iter().map(|(_, bytes)| bytes).sum(),
            Rows::Stream(_) => 0,
        }
    }

    pub(super) fn inspect(&self) -> Inspected {
        let mut groups = Vec::new();
        if let Rows::Stretches(rows) = &self.rows {
            groups = rows.groups();
        }
        if let Rows::Table { batches, bytes, .. } = &self.rows {
            for (batch, bytes) in batches.iter().zip(bytes) {
                let rows = batch.num_rows();
                for start in (0..rows).step_by(GROUP_ROWS) {
                    let its = GROUP_ROWS.min(rows - start) as u64;
                    let share = u128::from(*bytes) * u128::from(its) / rows as u128;
                    groups.push((its, share as u64));
                }
            }
        }
        Inspected { schema: self.schema.clone(), groups }
    }

    /// Opens it at some rows. `None` of a stream that was opened before.
    pub(super) fn open(self: &Arc<Self>, rows: Range<u64>) -> Option<Cursor> {
        let stream = match &self.rows {
            Rows::Table { .. } | Rows::Stretches(_) => None,
            Rows::Stream(reader) => Some(locked(reader).take()?),
        };
        let (at, end) = (rows.start, rows.end);
        Some(Cursor { data: self.clone(), stream, kept: None, current: None, at, end })
    }
}

impl fmt::Debug for ArrowData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.rows {
            Rows::Table { .. } => "table",
            Rows::Stretches(_) => "kept elsewhere",
            Rows::Stream(_) => "stream",
        };
        write!(f, "Arrow {kind} of {} columns", self.schema.fields().len())
    }
}

/// Why there are no more rows.
#[derive(Debug)]
pub(super) enum CursorError {
    Arrow(ArrowError),
    Source(Error),
}

impl From<ArrowError> for CursorError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl From<Error> for CursorError {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}

/// Reads some rows, a few thousand at a time.
pub(super) struct Cursor {
    data: Arc<ArrowData>,
    stream: Option<Box<dyn RecordBatchReader + Send>>,
    /// Of rows that somebody else keeps, once they are read.
    kept: Option<Box<dyn RowBatches>>,
    /// Of a stream, the batch that came last, and the number of its first row.
    current: Option<(RecordBatch, u64)>,
    at: u64,
    end: u64,
}

impl Cursor {
    /// The next rows of these columns, and the number of the first of them; `None` at the end.
    pub(super) fn next(
        &mut self,
        columns: &[usize],
    ) -> std::result::Result<Option<(RecordBatch, u64)>, CursorError> {
        if let Rows::Stretches(rows) = &self.data.rows {
            let kept = match &mut self.kept {
                Some(kept) => kept,
                kept => kept.insert(rows.clone().open(self.at..self.end, columns)?),
            };
            return Ok(kept.next()?);
        }
        let Some((batch, start)) = self.current()? else { return Ok(None) };
        let first = (self.at - start) as usize;
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let rows = PARQUET_BATCH_ROWS.min(batch.num_rows() - first).min(left);
        let part = batch.project(columns)?.slice(first, rows);
        let number = self.at;
        self.at += rows as u64;
        Ok(Some((plain(&part, &self.data.schema.project(columns)?)?, number)))
    }

    /// The batch that holds the next row, and the number of its first.
    fn current(&mut self) -> std::result::Result<Option<(RecordBatch, u64)>, ArrowError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let Some(stream) = &mut self.stream else {
            let Rows::Table { batches, starts, .. } = &self.data.rows else { return Ok(None) };
            // The last that begins at or before the row: those without rows come before it.
            let after = starts.partition_point(|start| *start <= self.at);
            return Ok(batches.get(after - 1).map(|batch| (batch.clone(), starts[after - 1])));
        };
        loop {
            if let Some((batch, start)) = &self.current
                && self.at < start + batch.num_rows() as u64
            {
                return Ok(Some((batch.clone(), *start)));
            }
            match stream.next() {
                Some(batch) => self.current = Some((batch?, self.at)),
                None => return Ok(None),
            }
        }
    }
}

/// Columns in the plain types of a schema.
fn plain(batch: &RecordBatch, schema: &Schema) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => cast(column, field.data_type()),
        })
        .collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
    let fields = schema.fields().iter().map(|field| {
        // What a stream says of its NULLs need not be so.
        Field::new(field.name(), field.data_type().clone(), true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| views::plain(field, &DataType::clone));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The bytes of a batch's values, without what else lies in its buffers.
pub fn bytes_of(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64).sum()
}

static REGISTERED: Mutex<BTreeMap<String, Arc<ArrowData>>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Data that can be named as a source while this lives.
#[derive(Debug)]
pub struct Registered {
    uri: String,
}

impl Registered {
    /// Names data after what it is; `id` is one that no other data has.
    pub fn new(name: &str, id: &str, data: ArrowData) -> Self {
        Self::at(format!("{SCHEME}{name}-{id}"), data)
    }

    /// Names data by a URI of its own.
    pub fn at(uri: String, data: ArrowData) -> Self {
        locked(&REGISTERED).insert(uri.clone(), Arc::new(data));
        Self { uri }
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let data = locked(&REGISTERED).remove(&self.uri);
        // Not under the lock: what it came from may do anything when it is released.
        drop(data);
    }
}

/// The data of a URI.
pub(crate) fn registered(uri: &str) -> Option<Arc<ArrowData>> {
    locked(&REGISTERED).get(uri).cloned()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, RecordBatchIterator};

    use super::*;

    fn batch(numbers: Range<i64>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        RecordBatch::try_from_iter([("n", numbers)]).expect("a batch")
    }

    /// Batches of odd sizes, empty ones among them, of the numbers from 0 up to 30,000.
    fn batches() -> Vec<RecordBatch> {
        let ends = [0, 0, 1, 8_192, 8_192, 8_193, 29_999, 30_000, 30_000];
        ends.windows(2).map(|ends| batch(ends[0]..ends[1])).collect()
    }

    /// The numbers that a cursor gives, each of which has to be its row's.
    fn read(data: &Arc<ArrowData>, rows: Range<u64>) -> Vec<u64> {
        let mut cursor = data.open(rows).expect("opened");
        let mut found = Vec::new();
        while let Some((batch, first)) = cursor.next(&[0]).expect("read") {
            assert!((1..=PARQUET_BATCH_ROWS).contains(&batch.num_rows()));
            assert_eq!(
                first,
                *found.last().map_or(&first, |last: &u64| last) + u64::from(!found.is_empty())
            );
            let numbers = batch.column(0).as_primitive::<Int64Type>().values();
            found.extend(numbers.iter().map(|number| *number as u64));
        }
        found
    }

    #[test]
    fn any_rows_of_a_table_are_read_as_often_as_wanted() {
        let data = Arc::new(ArrowData::table(&batch(0..0).schema(), batches()));
        let all: u64 = data.inspect().groups.iter().map(|(rows, _)| rows).sum();
        assert_eq!((all, data.bytes()), (30_000, 240_000));
        for rows in [0..30_000, 0..1, 8_191..8_194, 29_999..30_000, 5..5, 20_000..40_000] {
            let wanted: Vec<u64> = (rows.start..rows.end.min(30_000)).collect();
            assert_eq!(read(&data, rows.clone()), wanted, "{rows:?}");
        }
    }

    #[test]
    fn a_stream_is_read_once() {
        let schema = batch(0..0).schema();
        let reader = RecordBatchIterator::new(batches().into_iter().map(Ok), schema);
        let data = Arc::new(ArrowData::stream(Box::new(reader)));
        assert_eq!(read(&data, 0..u64::MAX), (0..30_000).collect::<Vec<_>>());
        assert!(data.open(0..u64::MAX).is_none());
    }

    #[test]
    fn data_is_found_by_its_uri_until_it_is_dropped() {
        let data = ArrowData::table(&batch(0..0).schema(), batches());
        let registered_data = Registered::new("Table", "1f", data);
        assert_eq!(registered_data.uri(), "arrow:Table-1f");
        assert!(registered("arrow:Table-1f").is_some());
        drop(registered_data);
        assert!(registered("arrow:Table-1f").is_none());
    }
}
