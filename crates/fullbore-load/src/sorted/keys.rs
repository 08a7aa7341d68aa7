//! The order of rows, as bytes that compare as they do.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, Schema, SortOptions};
use arrow_select::interleave::interleave;

/// Bytes of rows in a block of a run, about.
const BLOCK_BYTES: usize = 256 << 10;

/// Rows that are gathered at a time.
const GATHERED_ROWS: usize = 16_384;

/// A column that rows are put in order by. NULLs come last, or first where it descends, as in PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    pub column: String,
    pub descends: bool,
}

/// Makes the keys of rows.
pub struct Keys {
    places: Vec<usize>,
    converter: RowConverter,
}

impl Keys {
    pub fn new(keys: &[SortKey], schema: &Schema) -> Result<Self, ArrowError> {
        let places =
            keys.iter().map(|key| schema.index_of(&key.column)).collect::<Result<Vec<_>, _>>()?;
        let field = |(key, place): (&SortKey, &usize)| {
            let options = SortOptions { descending: key.descends, nulls_first: key.descends };
            SortField::new_with_options(schema.field(*place).data_type().clone(), options)
        };
        let converter = RowConverter::new(keys.iter().zip(&places).map(field).collect())?;
        Ok(Self { places, converter })
    }

    pub fn of(&self, batch: &RecordBatch) -> Result<Rows, ArrowError> {
        let columns: Vec<ArrayRef> =
            self.places.iter().map(|place| batch.column(*place).clone()).collect();
        self.converter.convert_columns(&columns)
    }

    /// The rows of batches in their order, in blocks.
    pub fn sorted(&self, batches: Vec<RecordBatch>) -> Result<Blocks, ArrowError> {
        let keys = batches.iter().map(|batch| self.of(batch)).collect::<Result<Vec<_>, _>>()?;
        let mut order = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
        for (number, rows) in keys.iter().enumerate() {
            let places = rows.iter().enumerate().map(|(row, key)| Place {
                prefix: prefix(key.as_ref()),
                batch: number as u32,
                row: row as u32,
            });
            order.extend(places);
        }
        let key = |place: &Place| keys[place.batch as usize].row(place.row as usize);
        order.sort_unstable_by(|one, other| {
            // Of rows that are alike the earlier comes first.
            one.prefix
                .cmp(&other.prefix)
                .then_with(|| key(one).cmp(&key(other)))
                .then_with(|| (one.batch, one.row).cmp(&(other.batch, other.row)))
        });
        let bytes: usize = batches.iter().map(bytes_of).sum();
        let rows = (BLOCK_BYTES * order.len()).checked_div(bytes).unwrap_or(1).max(64);
        Ok(Blocks { batches, order: order.into(), gathered: None, at: 0, rows })
    }
}

/// What a batch's values take; batches may share their memory.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
    batch.columns().iter().map(of).sum()
}

/// Where a row is, with the first bytes of its key.
struct Place {
    prefix: u64,
    batch: u32,
    row: u32,
}

fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let count = key.len().min(8);
    first[..count].copy_from_slice(&key[..count]);
    u64::from_be_bytes(first)
}

/// Sorted rows, a block at a time.
pub struct Blocks {
    batches: Vec<RecordBatch>,
    order: VecDeque<Place>,
    /// Rows that blocks are cut from, and where the next one begins: to look at each batch costs something, however few
    /// rows are taken.
    gathered: Option<RecordBatch>,
    at: usize,
    /// Of a block.
    rows: usize,
}

impl Iterator for Blocks {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.gathered.as_ref().is_none_or(|rows| self.at == rows.num_rows()) {
            let count = GATHERED_ROWS.min(self.order.len());
            if count == 0 {
                return None;
            }
            let places = self.order.drain(..count);
            let places: Vec<_> =
                places.map(|place| (place.batch as usize, place.row as usize)).collect();
            match gathered(&self.batches, &places) {
                Ok(rows) => (self.gathered, self.at) = (Some(rows), 0),
                Err(error) => return Some(Err(error)),
            }
        }
        let rows = self.gathered.as_ref()?;
        let count = self.rows.min(rows.num_rows() - self.at);
        let block = rows.slice(self.at, count);
        self.at += count;
        Some(Ok(block))
    }
}

/// These rows of batches as a batch.
pub fn gathered(
    batches: &[RecordBatch],
    places: &[(usize, usize)],
) -> Result<RecordBatch, ArrowError> {
    let schema = batches[0].schema();
    let columns = (0..schema.fields().len()).map(|column| {
        let arrays: Vec<&dyn Array> =
            batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        interleave(&arrays, places)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}
