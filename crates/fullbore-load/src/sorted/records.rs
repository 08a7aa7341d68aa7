//! Rows as bytes, each by itself: moving one is one copy, however many columns it has.
//!
//! A record is the length of all that follows it, the length of its key, the key, and the columns that are not in the
//! key ([`Columns`]). Keys compare as their rows do, and their columns are made from them again.

use std::ops::Range;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::SortField;
use arrow_schema::{ArrowError, SchemaRef, SortOptions};

use super::bytes::{broken, length_at, value_bytes, write_length, write_value};
use super::keys::{Rowed, SortKey};
use super::values::Columns;

/// How the rows of a table become records, and records its rows.
pub struct Form {
    schema: SchemaRef,
    /// Where the columns of the key are.
    key_places: Vec<usize>,
    keys: Rowed,
    /// The others.
    columns: Columns,
}

impl Form {
    pub fn new(keys: &[SortKey], schema: &SchemaRef) -> Result<Self, ArrowError> {
        let places =
            keys.iter().map(|key| schema.index_of(&key.column)).collect::<Result<Vec<_>, _>>()?;
        let sorted = keys.iter().zip(&places).map(|(key, place)| {
            let options = SortOptions { descending: key.descends, nulls_first: key.descends };
            SortField::new_with_options(schema.field(*place).data_type().clone(), options)
        });
        let keys = Rowed::new(sorted.collect())?;
        let rest = (0..schema.fields().len()).filter(|place| !places.contains(place));
        let columns = Columns::new(schema, &rest.collect::<Vec<_>>())?;
        Ok(Self { schema: schema.clone(), key_places: places, keys, columns })
    }

    /// Appends the rows of a batch as records.
    pub fn write(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if batch.schema().fields() != self.schema.fields() {
            return Err(ArrowError::SchemaError("not the columns of the table".into()));
        }
        let keys: Vec<ArrayRef> =
            self.key_places.iter().map(|place| batch.column(*place).clone()).collect();
        let keys = self.keys.rows(&keys)?;
        let values = self.columns.of(batch)?;
        // What follows each row's key.
        let mut rest = Vec::with_capacity(batch.num_rows());
        for (row, bytes) in values.lengths().into_iter().enumerate() {
            let key = keys.row(row).data();
            let length = value_bytes(key.len()) + bytes;
            let mut at = out.len();
            out.resize(at + value_bytes(length), 0);
            write_length(length, out, &mut at);
            write_value(key, out, &mut at);
            rest.push(at..out.len());
        }
        values.write(&rest, out);
        Ok(())
    }

    /// The rows of records that follow one another.
    pub fn read(&self, records: &[u8]) -> Result<RecordBatch, ArrowError> {
        let (mut keys, mut rest, mut end) = (Vec::new(), Vec::new(), 0);
        for (_, record) in Record::each(records) {
            keys.push(&records[record.key.clone()]);
            rest.push(record.key.end..record.end);
            end = record.end;
        }
        if end != records.len() {
            return Err(broken());
        }
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.schema.fields().len()];
        for (place, column) in self.key_places.iter().zip(self.keys.columns(&keys)?) {
            columns[*place] = Some(column);
        }
        self.columns.read(records, &rest, &self.schema, &mut columns)?;
        RecordBatch::try_new(self.schema.clone(), columns.into_iter().flatten().collect())
    }
}

/// Where a record's parts are among others.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub key: Range<usize>,
    pub end: usize,
}

impl Record {
    /// The one that begins here, where the bytes have all of it.
    pub fn at(bytes: &[u8], mut at: usize) -> Option<Self> {
        let length = length_at(bytes, &mut at)?;
        let end = at.checked_add(length)?;
        let of_key = length_at(bytes, &mut at)?;
        let key = at..at.checked_add(of_key)?;
        (key.end <= end && end <= bytes.len()).then_some(Self { key, end })
    }

    /// Those that follow one another, with where each begins.
    pub fn each(bytes: &[u8]) -> impl Iterator<Item = (usize, Self)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let record = Self::at(bytes, next)?;
            let at = std::mem::replace(&mut next, record.end);
            Some((at, record))
        })
    }

    /// How long the first one is, where that can be seen.
    pub fn length(bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        let length = length_at(bytes, &mut at)?;
        at.checked_add(length)
    }
}
