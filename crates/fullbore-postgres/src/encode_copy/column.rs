//! One column of a batch, ready to be written row by row.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, BooleanArray, ListArray};
use arrow_buffer::NullBuffer;
use fullbore_parse::types::FieldType;

use super::SentColumn;
use super::numeric;
use crate::cursor::Place;
use crate::digits;
use crate::small_decimals::Written;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL's calendar begins.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

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
    Decimal64(&'a [i64], digits::Scale),
    SmallDecimal(&'a [i64], &'static Written),
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
    rows: usize,
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
                let scale = digits::Scale::new(*scale);
                let values = array.as_primitive::<Decimal64Type>().values();
                match numeric::small(values, scale, array.nulls()) {
                    Some(written) => Values::SmallDecimal(values, written),
                    None => Values::Decimal64(values, scale),
                }
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
        Self { rows: array.len(), values, nulls: array.nulls() }
    }

    /// Most bytes that all values take, their lengths included.
    pub fn bytes_max(&self) -> usize {
        let rows = self.rows;
        let text = |offsets: &[i32]| (offsets[rows] - offsets[0]) as usize;
        let values = match &self.values {
            Values::Boolean(_) => rows,
            Values::Int16(_) => 2 * rows,
            Values::Int32(_) | Values::Float32(_) | Values::Date(_) => 4 * rows,
            Values::Int64(_) | Values::Float64(_) | Values::Timestamp(_) => 8 * rows,
            Values::Decimal64(..) | Values::SmallDecimal(..) | Values::Decimal128(..) => {
                numeric::BYTES_MAX * rows
            }
            Values::Uuid(_) => 16 * rows,
            Values::Bytes(offsets, _) => text(offsets),
            Values::Jsonb(offsets, _) => rows + text(offsets),
            Values::NumericText(offsets, _) => {
                numeric::TEXT_OVERHEAD_BYTES * rows + text(offsets) / 2
            }
            Values::List(_, items, _) => LIST_HEAD_BYTES * rows + items.bytes_max(),
        };
        4 * rows + values
    }

    /// Writes a row's value with its length before it.
    #[inline(always)]
    pub fn write(&self, row: usize, place: Place) -> Place {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return place.put((-1i32).to_be_bytes());
        }
        match &self.values {
            Values::Int64(values) => with_length(place, 8, values[row].to_be_bytes()),
            Values::Int32(values) => with_length(place, 4, values[row].to_be_bytes()),
            Values::SmallDecimal(values, written) => written.write(values[row], place),
            Values::Decimal64(values, scale) => numeric::write_64(values[row], *scale, place),
            Values::Bytes(offsets, bytes) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                place.put(((end - start) as i32).to_be_bytes()).put_range(bytes, start, end)
            }
            Values::Date(values) => with_length(place, 4, (values[row] - EPOCH_DAYS).to_be_bytes()),
            Values::Timestamp(values) => {
                with_length(place, 8, (values[row] - EPOCH_MICROSECONDS).to_be_bytes())
            }
            Values::Boolean(values) => with_length(place, 1, [u8::from(values.value(row))]),
            Values::Int16(values) => with_length(place, 2, values[row].to_be_bytes()),
            Values::Float32(values) => with_length(place, 4, values[row].to_be_bytes()),
            Values::Float64(values) => with_length(place, 8, values[row].to_be_bytes()),
            Values::Decimal128(values, scale) => numeric::write_128(values[row], *scale, place),
            Values::Jsonb(offsets, bytes) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                let length = (end - start + 1) as i32;
                place.put(length.to_be_bytes()).put([1]).put_range(bytes, start, end)
            }
            Values::Uuid(values) => {
                place.put(16i32.to_be_bytes()).put_range(values, row * 16, row * 16 + 16)
            }
            Values::NumericText(offsets, text) => {
                numeric::write_text(&text[offsets[row] as usize..offsets[row + 1] as usize], place)
            }
            Values::List(list, items, element_oid) => {
                write_list(list, items, *element_oid, row, place)
            }
        }
    }
}

/// Dimensions, flag, element type, and a dimension's length and lower bound.
const LIST_HEAD_BYTES: usize = 5 * 4;

/// An array as `array_send` writes it: dimensions, a flag for NULLs, the element type, then for
/// one dimension its length and lower bound, and the elements.
#[inline(never)]
fn write_list(
    list: &ListArray,
    items: &Column<'_>,
    element_oid: u32,
    row: usize,
    place: Place,
) -> Place {
    let offsets = list.value_offsets();
    let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
    let count = end - start;
    let has_nulls = items.nulls.is_some_and(|nulls| (start..end).any(|row| nulls.is_null(row)));
    place.put_with_length(|place| {
        let place = place
            .put(i32::from(count > 0).to_be_bytes())
            .put(i32::from(has_nulls).to_be_bytes())
            .put(element_oid.to_be_bytes());
        if count == 0 {
            return place;
        }
        let place = place.put((count as i32).to_be_bytes()).put(1i32.to_be_bytes());
        (start..end).fold(place, |place, row| items.write(row, place))
    })
}

#[inline(always)]
fn with_length<const N: usize>(place: Place, length: i32, value: [u8; N]) -> Place {
    place.put(length.to_be_bytes()).put(value)
}
