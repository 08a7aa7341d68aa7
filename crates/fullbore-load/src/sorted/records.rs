//! Rows as bytes, each by itself: moving one is one copy, however many columns it has.
//!
//! A record is the length of all that follows it, the length of its key, the key, and the columns that are not in the
//! key: a bit for each that is NULL, and their values. Whole numbers, and what is counted by them (decimals, days,
//! moments), take as many bytes as they need: sorting moves bytes, more than anything else. Values of any length come after
//! their lengths. Keys compare as their rows do, and their columns are made from them again.

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

/// How the rows of a table become records, and records its rows.
pub struct Form {
    schema: SchemaRef,
    /// Where the columns of the key are.
    key_places: Vec<usize>,
    keys: Rowed,
    /// The others.
    columns: Vec<Column>,
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

/// A column that is not in the key.
struct Column {
    place: usize,
    kind: Kind,
}

/// How a column's values are written.
enum Kind {
    /// Whole numbers of so many bytes in memory; bits, as numbers of none.
    Number(usize),
    /// Of so many bytes each, as they are.
    Fixed(usize),
    /// Text or bytes, after their length.
    Bytes,
    /// Of other types, after their length.
    Rowed(Rowed),
}

/// Values of a column, to be written.
enum Written<'a> {
    Numbers(Vec<u64>),
    Fixed(usize, Buffer),
    Bytes(&'a [i32], &'a [u8]),
    Rows(Rows),
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
        let columns = rest.map(|place| {
            Kind::of(schema.field(place).data_type()).map(|kind| Column { place, kind })
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { schema: schema.clone(), key_places: places, keys, columns })
    }

    /// Bytes of the bits that say NULL.
    fn null_bytes(&self) -> usize {
        self.columns.len().div_ceil(8)
    }

    /// Appends the rows of a batch as records.
    pub fn write(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if batch.schema().fields() != self.schema.fields() {
            return Err(ArrowError::SchemaError("not the columns of the table".into()));
        }
        let keys: Vec<ArrayRef> =
            self.key_places.iter().map(|place| batch.column(*place).clone()).collect();
        let keys = self.keys.converter.convert_columns(&keys)?;
        let written = self.columns.iter().map(|column| column.written(batch));
        let written = written.collect::<Result<Vec<_>, _>>()?;
        let mut lengths = vec![self.null_bytes(); batch.num_rows()];
        for values in &written {
            values.measure(&mut lengths);
        }
        // Where what follows each row's key begins.
        let mut starts = Vec::with_capacity(batch.num_rows());
        for (row, values) in lengths.into_iter().enumerate() {
            let key = keys.row(row).data();
            let length = value_bytes(key.len()) + values;
            let mut at = out.len();
            out.resize(at + value_bytes(length), 0);
            write_number(length as u64, out, &mut at);
            write_value(key, out, &mut at);
            starts.push(at);
        }
        for (bit, column) in self.columns.iter().enumerate() {
            let Some(nulls) = batch.column(column.place).nulls() else { continue };
            for (row, start) in starts.iter().enumerate() {
                out[start + bit / 8] |= u8::from(nulls.is_null(row)) << (bit % 8);
            }
        }
        starts.iter_mut().for_each(|start| *start += self.null_bytes());
        for values in &written {
            values.write(&mut starts, out);
        }
        Ok(())
    }

    /// The rows of records that follow one another.
    pub fn read(&self, records: &[u8]) -> Result<RecordBatch, ArrowError> {
        let (mut keys, mut rows, mut end) = (Vec::new(), Vec::new(), 0);
        for (_, record) in Record::each(records) {
            let row = &records[record.key.end..record.end];
            if row.len() < self.null_bytes() {
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
        let mut read = Read { ends: vec![self.null_bytes(); rows.len()], rows };
        for (bit, column) in self.columns.iter().enumerate() {
            let data_type = self.schema.field(column.place).data_type();
            columns[column.place] = Some(column.kind.read(data_type, &mut read, bit)?);
        }
        RecordBatch::try_new(self.schema.clone(), columns.into_iter().flatten().collect())
    }
}

impl Column {
    fn written<'a>(&self, batch: &'a RecordBatch) -> Result<Written<'a>, ArrowError> {
        let column = batch.column(self.place);
        Ok(match &self.kind {
            Kind::Number(0) => {
                let bits = column.as_boolean().values();
                Written::Numbers(bits.iter().map(u64::from).collect())
            }
            Kind::Number(width) => Written::Numbers(numbers(*width, &fixed(column, *width))),
            Kind::Fixed(width) => Written::Fixed(*width, fixed(column, *width)),
            Kind::Bytes => match column.as_string_opt::<i32>() {
                Some(texts) => Written::Bytes(texts.value_offsets(), texts.value_data()),
                None => {
                    let bytes = column.as_binary::<i32>();
                    Written::Bytes(bytes.value_offsets(), bytes.value_data())
                }
            },
            Kind::Rowed(rowed) => {
                Written::Rows(rowed.converter.convert_columns(std::slice::from_ref(column))?)
            }
        })
    }
}

/// The bytes of a column's values, all of one width.
fn fixed(column: &ArrayRef, width: usize) -> Buffer {
    let data = column.to_data();
    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
}

/// Numbers that are near zero as small ones, also those below it (zigzag).
fn numbers(width: usize, values: &[u8]) -> Vec<u64> {
    let zigzag = |value: i64| ((value << 1) ^ (value >> 63)).cast_unsigned();
    match width {
        2 => values.as_chunks().0.iter().map(|of| zigzag(i16::from_ne_bytes(*of).into())).collect(),
        4 => values.as_chunks().0.iter().map(|of| zigzag(i32::from_ne_bytes(*of).into())).collect(),
        _ => values.as_chunks().0.iter().map(|of| zigzag(i64::from_ne_bytes(*of))).collect(),
    }
}

impl Written<'_> {
    /// Adds what each row's value takes.
    fn measure(&self, lengths: &mut [usize]) {
        match self {
            Self::Numbers(numbers) => lengths
                .iter_mut()
                .zip(numbers)
                .for_each(|(length, number)| *length += number_bytes(*number)),
            Self::Fixed(width, _) => lengths.iter_mut().for_each(|length| *length += width),
            Self::Bytes(ends, _) => {
                lengths.iter_mut().zip(ends.windows(2)).for_each(|(length, ends)| {
                    *length += value_bytes((ends[1] - ends[0]) as usize);
                });
            }
            Self::Rows(rows) => lengths
                .iter_mut()
                .zip(rows)
                .for_each(|(length, row)| *length += value_bytes(row.data().len())),
        }
    }

    /// Writes each row's value where it is due, and goes behind it.
    fn write(&self, starts: &mut [usize], out: &mut [u8]) {
        match self {
            Self::Numbers(numbers) => {
                for (at, number) in starts.iter_mut().zip(numbers) {
                    write_number(*number, out, at);
                }
            }
            Self::Fixed(width, values) => {
                for (at, value) in starts.iter_mut().zip(values.chunks_exact(*width)) {
                    write_bytes(value, out, at);
                }
            }
            Self::Bytes(ends, bytes) => {
                for (at, ends) in starts.iter_mut().zip(ends.windows(2)) {
                    write_value(&bytes[ends[0] as usize..ends[1] as usize], out, at);
                }
            }
            Self::Rows(rows) => {
                for (at, row) in starts.iter_mut().zip(rows) {
                    write_value(row.data(), out, at);
                }
            }
        }
    }
}

/// Rows that are read, column by column.
struct Read<'a> {
    /// What follows the keys.
    rows: Vec<&'a [u8]>,
    /// Where each row's next value begins.
    ends: Vec<usize>,
}

impl<'a> Read<'a> {
    fn nulls(&self, bit: usize) -> Option<NullBuffer> {
        let valid = self.rows.iter().map(|row| row[bit / 8] >> (bit % 8) & 1 == 0);
        Some(valid.collect::<NullBuffer>()).filter(|nulls| nulls.null_count() > 0)
    }

    fn numbers<T>(&mut self, of: impl Fn(i64) -> T) -> Result<Vec<T>, ArrowError> {
        let rows = self.rows.iter().zip(&mut self.ends);
        let numbers = rows.map(|(row, end)| {
            let number = number_at(row, end).ok_or_else(broken)?;
            Ok(of((number >> 1).cast_signed() ^ -(number & 1).cast_signed()))
        });
        numbers.collect()
    }

    /// Values of so many bytes, or of as many as they say.
    fn values(&mut self, width: Option<usize>) -> Result<Vec<&'a [u8]>, ArrowError> {
        let rows = self.rows.iter().zip(&mut self.ends);
        let values = rows.map(|(row, end)| {
            let length = width.or_else(|| length_at(row, end)).ok_or_else(broken)?;
            let start = *end;
            *end = start.checked_add(length).ok_or_else(broken)?;
            row.get(start..*end).ok_or_else(broken)
        });
        values.collect()
    }
}

impl Kind {
    fn of(data_type: &DataType) -> Result<Self, ArrowError> {
        Ok(match data_type {
            DataType::Boolean => Self::Number(0),
            DataType::Float32 => Self::Fixed(4),
            DataType::Float64 => Self::Fixed(8),
            DataType::FixedSizeBinary(16) => Self::Fixed(16),
            DataType::Utf8 | DataType::Binary => Self::Bytes,
            other => match other.primitive_width() {
                Some(16) => Self::Fixed(16),
                Some(width @ (2 | 4 | 8)) => Self::Number(width),
                _ => Self::Rowed(Rowed::new(vec![SortField::new(other.clone())])?),
            },
        })
    }

    fn read(
        &self,
        data_type: &DataType,
        read: &mut Read<'_>,
        bit: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let nulls = read.nulls(bit);
        let values = match self {
            // A bit is the number that was written.
            Self::Number(0) => {
                let bits = read.numbers(|number| number != 0)?;
                return Ok(Arc::new(BooleanArray::new(bits.into(), nulls)));
            }
            Self::Number(2) => Buffer::from_vec(read.numbers(|number| number as i16)?),
            Self::Number(4) => Buffer::from_vec(read.numbers(|number| number as i32)?),
            Self::Number(_) => Buffer::from_vec(read.numbers(|number| number)?),
            Self::Fixed(width) => Buffer::from_vec(read.values(Some(*width))?.concat()),
            Self::Bytes => return texts(data_type, &read.values(None)?, nulls),
            Self::Rowed(rowed) => {
                return rowed.columns(&read.values(None)?)?.pop().ok_or_else(broken);
            }
        };
        let array = ArrayData::builder(data_type.clone())
            .len(read.rows.len())
            .add_buffer(values)
            .nulls(nulls)
            .align_buffers(true);
        Ok(make_array(array.build()?))
    }
}

/// A column of text or bytes.
fn texts(
    data_type: &DataType,
    values: &[&[u8]],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let bytes = values.concat();
    if i32::try_from(bytes.len()).is_err() {
        return Err(ArrowError::InvalidArgumentError("a row is too long to be sorted".into()));
    }
    let ends = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
    let bytes = Buffer::from_vec(bytes);
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(ends, bytes, nulls)?),
        _ => Arc::new(BinaryArray::try_new(ends, bytes, nulls)?),
    })
}

pub fn broken() -> ArrowError {
    ArrowError::IpcError("its rows are not as they were written".into())
}

/// What a number takes: seven bits a byte, the lowest first (LEB128).
fn number_bytes(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

fn write_number(mut number: u64, out: &mut [u8], at: &mut usize) {
    while number >= 0x80 {
        out[*at] = number as u8 | 0x80;
        *at += 1;
        number >>= 7;
    }
    out[*at] = number as u8;
    *at += 1;
}

fn write_bytes(bytes: &[u8], out: &mut [u8], at: &mut usize) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

/// What so many bytes take with their length before them.
fn value_bytes(length: usize) -> usize {
    number_bytes(length as u64) + length
}

fn write_value(value: &[u8], out: &mut [u8], at: &mut usize) {
    write_number(value.len() as u64, out, at);
    write_bytes(value, out, at);
}

fn number_at(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn length_at(bytes: &[u8], at: &mut usize) -> Option<usize> {
    number_at(bytes, at).map(|length| length as usize)
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
