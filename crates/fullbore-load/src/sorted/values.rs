//! The columns of records that are not in the key.
//!
//! One bit of each says whether it is NULL. Four bits of each that is a number say how many bytes it takes. Their
//! values follow: whole numbers, and what is counted by them (decimals, days, moments), in as many bytes as they need,
//! since sorting moves bytes, more than anything else; values of any length after their lengths.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch, StringArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_row::{Rows, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use super::bytes::{broken, first_bytes, length_at, value_bytes, write_bytes, write_value};
use super::keys::Rowed;

/// How the columns of a table are written that are not in its key.
pub struct Columns {
    columns: Vec<Column>,
    /// Bytes before the values.
    head_bytes: usize,
}

struct Column {
    /// Among the table's.
    place: usize,
    kind: Kind,
}

/// How a column's values are written.
enum Kind {
    /// Whole numbers of so many bytes in memory. Booleans have none.
    Number(usize, Nibble),
    /// Of so many bytes each, as they are.
    Fixed(usize),
    /// Text or bytes, after their length.
    Bytes,
    /// Of other types, after their length.
    Rowed(Rowed),
}

/// Where a row says how many bytes a number takes.
#[derive(Clone, Copy)]
struct Nibble {
    /// Of its byte, from the row's beginning.
    place: usize,
    shift: usize,
}

/// Values of a column, to be written.
enum Written<'a> {
    Numbers(Vec<u64>, Nibble),
    Fixed(usize, Buffer),
    Bytes(&'a [i32], &'a [u8]),
    Rows(Rows),
}

/// What a row has beside its key: where that begins, where its next value is due, and where it ends.
struct Slot {
    start: usize,
    at: usize,
    end: usize,
}

/// The values of a batch, to be written.
pub struct Batch<'a> {
    columns: &'a Columns,
    batch: &'a RecordBatch,
    written: Vec<Written<'a>>,
}

impl Columns {
    /// Those of a table that have these places.
    pub fn new(schema: &SchemaRef, places: &[usize]) -> Result<Self, ArrowError> {
        let (null_bytes, mut numbers) = (places.len().div_ceil(8), 0);
        let mut columns = Vec::new();
        for place in places {
            let nibble = Nibble { place: null_bytes + numbers / 2, shift: numbers % 2 * 4 };
            let kind = Kind::of(schema.field(*place).data_type(), nibble)?;
            numbers += usize::from(matches!(kind, Kind::Number(..)));
            columns.push(Column { place: *place, kind });
        }
        Ok(Self { columns, head_bytes: null_bytes + numbers.div_ceil(2) })
    }

    pub fn of<'a>(&'a self, batch: &'a RecordBatch) -> Result<Batch<'a>, ArrowError> {
        let written = self.columns.iter().map(|column| column.written(batch));
        Ok(Batch { columns: self, batch, written: written.collect::<Result<_, _>>()? })
    }

    fn slots(&self, rows: &[Range<usize>]) -> Vec<Slot> {
        let slot = |Range { start, end }: &Range<usize>| Slot {
            start: *start,
            at: start + self.head_bytes,
            end: *end,
        };
        rows.iter().map(slot).collect()
    }

    /// Reads the columns into those of their table. `rows`: where among the records each row's part is.
    pub fn read(
        &self,
        records: &[u8],
        rows: &[Range<usize>],
        schema: &SchemaRef,
        into: &mut [Option<ArrayRef>],
    ) -> Result<(), ArrowError> {
        let slots = self.slots(rows);
        if slots.iter().any(|slot| slot.at > slot.end) {
            return Err(broken());
        }
        let mut nulls = vec![0; self.columns.len().div_ceil(8)];
        for slot in &slots {
            let its = &records[slot.start..slot.end];
            nulls.iter_mut().zip(its).for_each(|(nulls, its)| *nulls |= its);
        }
        let mut read = Read { records, slots };
        for (bit, column) in self.columns.iter().enumerate() {
            let has_nulls = nulls[bit / 8] >> (bit % 8) & 1 == 1;
            let nulls = has_nulls.then(|| read.nulls(bit));
            let data_type = schema.field(column.place).data_type();
            into[column.place] = Some(column.kind.read(data_type, &mut read, nulls)?);
        }
        match read.slots.iter().all(|slot| slot.at == slot.end) {
            true => Ok(()),
            false => Err(broken()),
        }
    }
}

impl Batch<'_> {
    /// How many bytes each row takes.
    pub fn lengths(&self) -> Vec<usize> {
        let mut lengths = vec![self.columns.head_bytes; self.batch.num_rows()];
        self.written.iter().for_each(|values| values.measure(&mut lengths));
        lengths
    }

    /// Writes each row to its part of `out`, where there are zeros.
    pub fn write(&self, rows: &[Range<usize>], out: &mut [u8]) {
        for (bit, column) in self.columns.columns.iter().enumerate() {
            let Some(nulls) = self.batch.column(column.place).nulls() else { continue };
            for (row, Range { start, .. }) in rows.iter().enumerate() {
                out[start + bit / 8] |= u8::from(nulls.is_null(row)) << (bit % 8);
            }
        }
        let mut slots = self.columns.slots(rows);
        for values in &self.written {
            values.write(&mut slots, out);
        }
    }
}

impl Column {
    fn written<'a>(&self, batch: &'a RecordBatch) -> Result<Written<'a>, ArrowError> {
        let column = batch.column(self.place);
        Ok(match &self.kind {
            Kind::Number(0, nibble) => {
                let bits = column.as_boolean().values();
                Written::Numbers(bits.iter().map(u64::from).collect(), *nibble)
            }
            Kind::Number(width, nibble) => {
                Written::Numbers(numbers(*width, &fixed(column, *width)), *nibble)
            }
            Kind::Fixed(width) => Written::Fixed(*width, fixed(column, *width)),
            Kind::Bytes => match column.as_string_opt::<i32>() {
                Some(texts) => Written::Bytes(texts.value_offsets(), texts.value_data()),
                None => {
                    let bytes = column.as_binary::<i32>();
                    Written::Bytes(bytes.value_offsets(), bytes.value_data())
                }
            },
            Kind::Rowed(rowed) => Written::Rows(rowed.rows(std::slice::from_ref(column))?),
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

/// What a number takes without the zeros above it.
fn number_bytes(number: u64) -> usize {
    (71 - number.leading_zeros() as usize) / 8
}

/// The lowest so many bytes of eight; more than eight are only in damaged records.
const MASKS: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut bytes = 0;
    while bytes < 8 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

impl Written<'_> {
    /// Adds what each row's value takes.
    fn measure(&self, lengths: &mut [usize]) {
        match self {
            Self::Numbers(numbers, _) => lengths
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

    /// Writes each row's value where it is due, and goes past it.
    fn write(&self, slots: &mut [Slot], out: &mut [u8]) {
        match self {
            Self::Numbers(numbers, nibble) => {
                for (slot, number) in slots.iter_mut().zip(numbers) {
                    slot.write_number(*number, *nibble, out);
                }
            }
            Self::Fixed(width, values) => {
                for (slot, value) in slots.iter_mut().zip(values.chunks_exact(*width)) {
                    write_bytes(value, out, &mut slot.at);
                }
            }
            Self::Bytes(ends, bytes) => {
                for (slot, ends) in slots.iter_mut().zip(ends.windows(2)) {
                    let value = &bytes[ends[0] as usize..ends[1] as usize];
                    write_value(value, out, &mut slot.at);
                }
            }
            Self::Rows(rows) => {
                for (slot, row) in slots.iter_mut().zip(rows) {
                    write_value(row.data(), out, &mut slot.at);
                }
            }
        }
    }
}

impl Slot {
    /// Writes a number, and how many bytes it takes.
    fn write_number(&mut self, number: u64, nibble: Nibble, out: &mut [u8]) {
        let bytes = number_bytes(number);
        out[self.start + nibble.place] |= (bytes as u8) << nibble.shift;
        // All eight where the row has room for them: its later values are written over those that are too many.
        if self.at + 8 <= self.end {
            out[self.at..self.at + 8].copy_from_slice(&number.to_le_bytes());
            self.at += bytes;
        } else {
            write_bytes(&number.to_le_bytes()[..bytes], out, &mut self.at);
        }
    }
}

/// Rows that are read, column by column.
struct Read<'a> {
    records: &'a [u8],
    slots: Vec<Slot>,
}

impl<'a> Read<'a> {
    fn nulls(&self, bit: usize) -> NullBuffer {
        let valid =
            self.slots.iter().map(|slot| self.records[slot.start + bit / 8] >> (bit % 8) & 1 == 0);
        valid.collect()
    }

    fn numbers<T>(&mut self, nibble: Nibble, convert: impl Fn(i64) -> T) -> Vec<T> {
        let Self { records, slots } = self;
        let numbers = slots.iter_mut().map(|slot| {
            let bytes = records[slot.start + nibble.place] >> nibble.shift & 0xf;
            let eight = first_bytes(records.get(slot.at..).unwrap_or_default());
            slot.at += usize::from(bytes);
            let number = u64::from_le_bytes(eight) & MASKS[usize::from(bytes)];
            convert((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
        });
        numbers.collect()
    }

    /// Values of so many bytes, or after their lengths.
    fn values(&mut self, width: Option<usize>) -> Result<Vec<&'a [u8]>, ArrowError> {
        let records = self.records;
        let values = self.slots.iter_mut().map(|slot| {
            let length = width.or_else(|| length_at(records, &mut slot.at)).ok_or_else(broken)?;
            let start = slot.at;
            slot.at = start.checked_add(length).ok_or_else(broken)?;
            records[..slot.end].get(start..slot.at).ok_or_else(broken)
        });
        values.collect()
    }
}

impl Kind {
    fn of(data_type: &DataType, nibble: Nibble) -> Result<Self, ArrowError> {
        Ok(match data_type {
            DataType::Boolean => Self::Number(0, nibble),
            DataType::Float32 => Self::Fixed(4),
            DataType::Float64 => Self::Fixed(8),
            DataType::FixedSizeBinary(16) => Self::Fixed(16),
            DataType::Utf8 | DataType::Binary => Self::Bytes,
            other => match other.primitive_width() {
                Some(16) => Self::Fixed(16),
                Some(width @ (2 | 4 | 8)) => Self::Number(width, nibble),
                _ => Self::Rowed(Rowed::new(vec![SortField::new(other.clone())])?),
            },
        })
    }

    fn read(
        &self,
        data_type: &DataType,
        read: &mut Read<'_>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let values = match self {
            // A bit is the number that was written.
            Self::Number(0, nibble) => {
                let bits = read.numbers(*nibble, |number| number != 0);
                return Ok(Arc::new(BooleanArray::new(bits.into(), nulls)));
            }
            Self::Number(2, nibble) => {
                Buffer::from_vec(read.numbers(*nibble, |number| number as i16))
            }
            Self::Number(4, nibble) => {
                Buffer::from_vec(read.numbers(*nibble, |number| number as i32))
            }
            Self::Number(_, nibble) => Buffer::from_vec(read.numbers(*nibble, |number| number)),
            Self::Fixed(width) => Buffer::from_vec(read.values(Some(*width))?.concat()),
            Self::Bytes => return texts(data_type, &read.values(None)?, nulls),
            Self::Rowed(rowed) => {
                return rowed.columns(&read.values(None)?)?.pop().ok_or_else(broken);
            }
        };
        let array = ArrayData::builder(data_type.clone())
            .len(read.slots.len())
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
        return Err(ArrowError::InvalidArgumentError(
            "over 2 GiB of values in a column at once".into(),
        ));
    }
    let ends = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
    let bytes = Buffer::from_vec(bytes);
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(ends, bytes, nulls)?),
        _ => Arc::new(BinaryArray::try_new(ends, bytes, nulls)?),
    })
}
