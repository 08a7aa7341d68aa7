//! One column of a batch, ready to be written row by row.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, BooleanArray, ListArray};
use arrow_buffer::NullBuffer;

use super::SentColumn;
use super::cursor::Cursor;
use super::numeric;
use fullbore_core::parse::types::FieldType;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL's calendar begins.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// A column's values by the way they are written.
enum Values<'a> {
    Boolean(&'a BooleanArray),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Date(&'a [i32]),
    Timestamp(&'a [i64]),
    Decimal64(&'a [i64], u8),
    Decimal128(&'a [i128], u8),
    Bytes(&'a [i32], &'a [u8]),
    /// As bytes, after the byte that tells the version of the format.
    Jsonb(&'a [i32], &'a [u8]),
    NumericText(&'a [i32], &'a [u8]),
    Uuid(&'a [u8]),
    List(&'a ListArray, Box<Column<'a>>, u32),
}

/// A column and its NULLs.
pub struct Column<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Column<'a> {
    /// # Panics
    /// If the array is not of the Arrow type that [`FieldType::arrow`] names.
    pub fn new(sent: &SentColumn, array: &'a dyn Array) -> Self {
        let values = match &sent.field_type {
            FieldType::Boolean => Values::Boolean(array.as_boolean()),
            FieldType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            FieldType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            FieldType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            FieldType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            FieldType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            FieldType::Date => Values::Date(array.as_primitive::<Date32Type>().values()),
            FieldType::Time => {
                Values::Int64(array.as_primitive::<Time64MicrosecondType>().values())
            }
            FieldType::Timestamp | FieldType::TimestampTz { .. } => {
                Values::Timestamp(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            FieldType::Decimal { precision, scale } if *precision <= 18 => {
                Values::Decimal64(array.as_primitive::<Decimal64Type>().values(), *scale)
            }
            FieldType::Decimal { scale, .. } => {
                Values::Decimal128(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            FieldType::NumericText { .. } => {
                let array = array.as_string::<i32>();
                Values::NumericText(array.value_offsets(), array.value_data())
            }
            FieldType::Jsonb => {
                let array = array.as_string::<i32>();
                Values::Jsonb(array.value_offsets(), array.value_data())
            }
            FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. } => {
                let array = array.as_string::<i32>();
                Values::Bytes(array.value_offsets(), array.value_data())
            }
            FieldType::Bytea => {
                let array = array.as_binary::<i32>();
                Values::Bytes(array.value_offsets(), array.value_data())
            }
            FieldType::Uuid => Values::Uuid(array.as_fixed_size_binary().value_data()),
            FieldType::Array(item) => {
                let list = array.as_list::<i32>();
                let element = SentColumn { field_type: (**item).clone(), element_oid: 0 };
                let items = Self::new(&element, list.values().as_ref());
                Values::List(list, Box::new(items), sent.element_oid)
            }
        };
        Self { values, nulls: array.nulls() }
    }

    /// Most bytes of a value, those that vary with its content left out.
    pub fn fixed_bytes_max(&self) -> usize {
        match self.values {
            Values::Boolean(_) | Values::Jsonb(..) => 1,
            Values::Int16(_) => 2,
            Values::Int32(_) | Values::Float32(_) | Values::Date(_) => 4,
            Values::Int64(_) | Values::Float64(_) | Values::Timestamp(_) => 8,
            Values::Decimal64(..) => numeric::BYTES_MAX_128,
            Values::Decimal128(..) => numeric::BYTES_MAX_128,
            Values::Uuid(_) => 16,
            Values::Bytes(..) | Values::NumericText(..) | Values::List(..) => 0,
        }
    }

    /// Bytes of all values that vary with their content, where that is known beforehand.
    pub fn variable_bytes(&self) -> usize {
        match self.values {
            Values::Bytes(offsets, _) | Values::Jsonb(offsets, _) => {
                (offsets[offsets.len() - 1] - offsets[0]) as usize
            }
            _ => 0,
        }
    }

    /// Writes a row's value with its length before it.
    #[inline(always)]
    pub fn write(&self, row: usize, cursor: &mut Cursor<'_>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            cursor.put((-1i32).to_be_bytes());
            return;
        }
        match &self.values {
            Values::Int64(values) => with_length(cursor, 8, values[row].to_be_bytes()),
            Values::Int32(values) => with_length(cursor, 4, values[row].to_be_bytes()),
            Values::Decimal64(values, scale) => numeric::write_64(values[row], *scale, cursor),
            Values::Bytes(offsets, bytes) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                cursor.put(((end - start) as i32).to_be_bytes());
                cursor.put_range(bytes, start, end);
            }
            Values::Date(values) => {
                with_length(cursor, 4, (values[row] - EPOCH_DAYS).to_be_bytes());
            }
            Values::Timestamp(values) => {
                with_length(cursor, 8, (values[row] - EPOCH_MICROSECONDS).to_be_bytes());
            }
            Values::Boolean(values) => with_length(cursor, 1, [u8::from(values.value(row))]),
            Values::Int16(values) => with_length(cursor, 2, values[row].to_be_bytes()),
            Values::Float32(values) => with_length(cursor, 4, values[row].to_be_bytes()),
            Values::Float64(values) => with_length(cursor, 8, values[row].to_be_bytes()),
            Values::Decimal128(values, scale) => numeric::write_128(values[row], *scale, cursor),
            Values::Jsonb(offsets, bytes) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                cursor.put(((end - start + 1) as i32).to_be_bytes());
                cursor.put([1]);
                cursor.put_range(bytes, start, end);
            }
            Values::Uuid(values) => {
                cursor.put(16i32.to_be_bytes());
                cursor.put_range(values, row * 16, row * 16 + 16);
            }
            Values::NumericText(..) | Values::List(..) => self.write_unforeseen(row, cursor),
        }
    }

    #[inline(never)]
    fn write_unforeseen(&self, row: usize, cursor: &mut Cursor<'_>) {
        let mut value = Vec::new();
        match &self.values {
            Values::NumericText(offsets, text) => {
                let text = &text[offsets[row] as usize..offsets[row + 1] as usize];
                numeric::from_text(text, &mut value);
            }
            Values::List(list, items, element_oid) => {
                let offsets = list.value_offsets();
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                write_list(items, start, end, *element_oid, &mut value);
            }
            _ => unreachable!("only called for these"),
        }
        cursor.put((value.len() as i32).to_be_bytes());
        cursor.put_unforeseen(&value);
    }
}

/// An array as `array_send` writes it: dimensions, a flag for NULLs, the element type, then for
/// one dimension its length and lower bound, and the elements.
fn write_list(items: &Column<'_>, start: usize, end: usize, element_oid: u32, out: &mut Vec<u8>) {
    let count = end - start;
    let has_nulls = items.nulls.is_some_and(|nulls| (start..end).any(|row| nulls.is_null(row)));
    let dimensions = i32::from(count > 0);
    out.extend_from_slice(&dimensions.to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&element_oid.to_be_bytes());
    if count == 0 {
        return;
    }
    out.extend_from_slice(&(count as i32).to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    let mut room = count * (4 + items.fixed_bytes_max());
    if let Values::Bytes(offsets, _) | Values::Jsonb(offsets, _) = items.values {
        room += (offsets[end] - offsets[start]) as usize;
    }
    let mut cursor = Cursor::new(out, room);
    for row in start..end {
        items.write(row, &mut cursor);
    }
    cursor.finish();
}

#[inline(always)]
fn with_length<const N: usize>(cursor: &mut Cursor<'_>, length: i32, value: [u8; N]) {
    cursor.put(length.to_be_bytes());
    cursor.put(value);
}
