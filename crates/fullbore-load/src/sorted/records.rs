//! Rows as bytes, each by itself: moving one is one copy, however many columns it has.
//!
//! A record is the length of all that follows and the length of its key (four bytes each), the key, and the columns that
//! are not in the key: a bit for each that is NULL, the values of fixed width, then the others, each after its length: a
//! byte, or 255 and four bytes. Keys compare as their rows do, and their columns are made from them again.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch, StringArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_row::{RowConverter, RowParser, Rows, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef, SortOptions};

/// A column that rows are put in order by. NULLs come last, or first where it descends, as in PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    pub column: String,
    pub descends: bool,
}

/// Bytes before a record's key.
const HEAD: usize = 8;

/// How the rows of a table become records, and records its rows.
pub struct Form {
    schema: SchemaRef,
    /// Where the columns of the key are.
    key_places: Vec<usize>,
    keys: Rowed,
    fixed: Vec<Fixed>,
    varying: Vec<Varying>,
    /// Bytes after the key and before the first value of any length.
    fixed_bytes: usize,
}

/// Columns in Arrow's own row format.
struct Rowed {
    converter: RowConverter,
    parser: RowParser,
}

impl Rowed {
    fn new(columns: Vec<SortField>) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(columns)?;
        Ok(Self { parser: converter.parser(), converter })
    }

    fn columns(&self, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, ArrowError> {
        self.converter.convert_rows(rows.iter().map(|row| self.parser.parse(row)))
    }
}

/// A column of values of one width.
struct Fixed {
    place: usize,
    width: usize,
    /// Where its value is, after the key.
    at: usize,
    /// The bit that says NULL.
    bit: usize,
}

/// A column of values of any length.
struct Varying {
    place: usize,
    /// The bit that says NULL, of text and bytes.
    bit: usize,
    /// Of other types, which say it by themselves.
    rowed: Option<Rowed>,
}

/// Values of a varying column, as they are written.
enum Written<'a> {
    Bytes(&'a [i32], &'a [u8]),
    Rows(Rows),
}

impl Written<'_> {
    fn value(&self, row: usize) -> &[u8] {
        match self {
            Self::Bytes(ends, bytes) => &bytes[ends[row] as usize..ends[row + 1] as usize],
            Self::Rows(rows) => rows.row(row).data(),
        }
    }
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
        let rest: Vec<usize> =
            (0..schema.fields().len()).filter(|place| !places.contains(place)).collect();
        let (mut fixed, mut varying) = (Vec::new(), Vec::new());
        let mut at = rest.len().div_ceil(8);
        for (bit, place) in rest.into_iter().enumerate() {
            let data_type = schema.field(place).data_type();
            if let Some(width) = width(data_type) {
                fixed.push(Fixed { place, width, at, bit });
                at += width;
                continue;
            }
            let rowed = match data_type {
                DataType::Utf8 | DataType::Binary => None,
                other => Some(Rowed::new(vec![SortField::new(other.clone())])?),
            };
            varying.push(Varying { place, bit, rowed });
        }
        Ok(Self {
            schema: schema.clone(),
            key_places: places,
            keys,
            fixed_bytes: at,
            fixed,
            varying,
        })
    }

    /// Appends the rows of a batch as records.
    pub fn write(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if batch.schema().fields() != self.schema.fields() {
            return Err(ArrowError::SchemaError("not the columns of the table".into()));
        }
        let keys: Vec<ArrayRef> =
            self.key_places.iter().map(|place| batch.column(*place).clone()).collect();
        let keys = self.keys.converter.convert_columns(&keys)?;
        let varying = self.varying.iter().map(|column| column.written(batch));
        let varying = varying.collect::<Result<Vec<_>, _>>()?;
        // Where what follows each row's key begins.
        let mut starts = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let key = keys.row(row).data();
            let values: usize = varying
                .iter()
                .map(|column| column.value(row).len())
                .map(|length| length + length_bytes(length))
                .sum();
            let length = 4 + key.len() + self.fixed_bytes + values;
            let length = u32::try_from(length).map_err(|_| too_long())?;
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
            starts.push(out.len());
            out.resize(out.len() + self.fixed_bytes + values, 0);
        }
        for column in &self.fixed {
            column.write(batch.column(column.place), &starts, out);
        }
        let fixed = self.fixed.iter().map(|column| (column.place, column.bit));
        let varying_bits = self.varying.iter().filter(|column| column.rowed.is_none());
        for (place, bit) in fixed.chain(varying_bits.map(|column| (column.place, column.bit))) {
            let Some(nulls) = batch.column(place).nulls() else { continue };
            for (row, start) in starts.iter().enumerate() {
                out[start + bit / 8] |= u8::from(nulls.is_null(row)) << (bit % 8);
            }
        }
        for (row, start) in starts.iter().enumerate() {
            let mut at = start + self.fixed_bytes;
            for column in &varying {
                let value = column.value(row);
                at += write_length(value.len(), &mut out[at..]);
                out[at..at + value.len()].copy_from_slice(value);
                at += value.len();
            }
        }
        Ok(())
    }

    /// The rows of records that follow one another.
    pub fn read(&self, records: &[u8]) -> Result<RecordBatch, ArrowError> {
        let (mut keys, mut rows, mut end) = (Vec::new(), Vec::new(), 0);
        for (_, record) in Record::each(records) {
            let row = &records[record.key.end..record.end];
            if row.len() < self.fixed_bytes {
                return Err(broken());
            }
            keys.push(&records[record.key]);
            rows.push(row);
            end = record.end;
        }
        if end != records.len() {
            return Err(broken());
        }
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.schema.fields().len()];
        for (place, column) in self.key_places.iter().zip(self.keys.columns(&keys)?) {
            columns[*place] = Some(column);
        }
        let nulls = |bit: usize| {
            let valid = rows.iter().map(|row| row[bit / 8] >> (bit % 8) & 1 == 0);
            Some(valid.collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
        };
        for column in &self.fixed {
            let data_type = self.schema.field(column.place).data_type();
            columns[column.place] = Some(column.read(data_type, &rows, nulls(column.bit))?);
        }
        let mut ends = vec![self.fixed_bytes; rows.len()];
        for column in &self.varying {
            let mut values = Vec::with_capacity(rows.len());
            for (row, end) in rows.iter().zip(&mut ends) {
                let length = length_at(row, *end).ok_or_else(broken)?;
                let start = *end + length_bytes(length);
                *end = start + length;
                values.push(row.get(start..*end).ok_or_else(broken)?);
            }
            let data_type = self.schema.field(column.place).data_type();
            columns[column.place] = Some(match &column.rowed {
                Some(rowed) => rowed.columns(&values)?.pop().ok_or_else(broken)?,
                None => texts(data_type, &values, nulls(column.bit))?,
            });
        }
        RecordBatch::try_new(self.schema.clone(), columns.into_iter().flatten().collect())
    }
}

impl Fixed {
    fn write(&self, column: &ArrayRef, starts: &[usize], out: &mut [u8]) {
        if let Some(bits) = column.as_boolean_opt() {
            for (row, start) in starts.iter().enumerate() {
                out[start + self.at] = u8::from(bits.value(row));
            }
            return;
        }
        let data = column.to_data();
        let values = &data.buffers()[0].as_slice()[data.offset() * self.width..];
        match self.width {
            2 => self.copy::<2>(values, starts, out),
            4 => self.copy::<4>(values, starts, out),
            8 => self.copy::<8>(values, starts, out),
            _ => self.copy::<16>(values, starts, out),
        }
    }

    fn copy<const WIDTH: usize>(&self, values: &[u8], starts: &[usize], out: &mut [u8]) {
        for (value, start) in values.as_chunks::<WIDTH>().0.iter().zip(starts) {
            out[start + self.at..][..WIDTH].copy_from_slice(value);
        }
    }

    fn read(
        &self,
        data_type: &DataType,
        rows: &[&[u8]],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        if *data_type == DataType::Boolean {
            let bits = rows.iter().map(|row| row[self.at] != 0).collect();
            return Ok(Arc::new(BooleanArray::new(bits, nulls)));
        }
        let values = match self.width {
            2 => self.gather::<2>(rows),
            4 => self.gather::<4>(rows),
            8 => self.gather::<8>(rows),
            _ => self.gather::<16>(rows),
        };
        let array = ArrayData::builder(data_type.clone())
            .len(rows.len())
            .add_buffer(values)
            .nulls(nulls)
            .align_buffers(true);
        Ok(make_array(array.build()?))
    }

    fn gather<const WIDTH: usize>(&self, rows: &[&[u8]]) -> Buffer {
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let mut value = [0; WIDTH];
            value.copy_from_slice(&row[self.at..][..WIDTH]);
            values.push(value);
        }
        Buffer::from_vec(values.into_flattened())
    }
}

impl Varying {
    fn written<'a>(&self, batch: &'a RecordBatch) -> Result<Written<'a>, ArrowError> {
        let column = batch.column(self.place);
        if let Some(rowed) = &self.rowed {
            return Ok(Written::Rows(
                rowed.converter.convert_columns(std::slice::from_ref(column))?,
            ));
        }
        Ok(match column.as_string_opt::<i32>() {
            Some(texts) => Written::Bytes(texts.value_offsets(), texts.value_data()),
            None => {
                let bytes = column.as_binary::<i32>();
                Written::Bytes(bytes.value_offsets(), bytes.value_data())
            }
        })
    }
}

/// A column of text or bytes.
fn texts(
    data_type: &DataType,
    values: &[&[u8]],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let mut bytes = Vec::with_capacity(values.iter().map(|value| value.len()).sum());
    for value in values {
        bytes.extend_from_slice(value);
    }
    if i32::try_from(bytes.len()).is_err() {
        return Err(too_long());
    }
    let ends = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
    let bytes = Buffer::from_vec(bytes);
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(ends, bytes, nulls)?),
        _ => Arc::new(BinaryArray::try_new(ends, bytes, nulls)?),
    })
}

/// Bytes of a value, where all of a type have the same. Bits are bytes here.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(16) => Some(16),
        other => other.primitive_width().filter(|width| matches!(width, 2 | 4 | 8 | 16)),
    }
}

pub fn broken() -> ArrowError {
    ArrowError::IpcError("its rows are not as they were written".into())
}

fn too_long() -> ArrowError {
    ArrowError::InvalidArgumentError("a row is too long to be sorted".into())
}

/// A length that a byte holds is less than this.
const LONG: usize = 255;

/// What a length takes.
fn length_bytes(length: usize) -> usize {
    if length < LONG { 1 } else { 5 }
}

fn write_length(length: usize, out: &mut [u8]) -> usize {
    if length < LONG {
        out[0] = length as u8;
    } else {
        out[0] = LONG as u8;
        out[1..5].copy_from_slice(&(length as u32).to_le_bytes());
    }
    length_bytes(length)
}

fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    match usize::from(*bytes.get(at)?) {
        LONG => number_at(bytes, at + 1).filter(|length| *length >= LONG),
        length => Some(length),
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*number) as usize)
}

/// Where a record's parts are among others.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub key: Range<usize>,
    pub end: usize,
}

impl Record {
    /// The one that begins here, where the bytes have all of it.
    pub fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let end = at + 4 + number_at(bytes, at)?;
        let key = at + HEAD..at + HEAD + number_at(bytes, at + 4)?;
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

    /// How long the one that begins here is, where that can be seen.
    pub fn length(bytes: &[u8], at: usize) -> Option<usize> {
        number_at(bytes, at).map(|length| length + 4)
    }
}
