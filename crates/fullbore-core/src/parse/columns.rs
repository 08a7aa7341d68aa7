//! From rows to typed columns: one pass per column, no decision per field that could be made once.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use super::array;
use super::block::Block;
use super::dialect::Dialect;
use super::index::{FieldIndex, OFFSET, SPECIAL};
use super::numbers::{self, Span};
use super::rows::Rows;
use super::temporal;
use super::text::{self, Decoded};
use super::types::{DECIMAL64_PRECISION_MAX, FieldType};
use crate::constants::BLOCK_PADDING;

/// The rows of one block, as the column passes see them.
pub struct Input<'a> {
    pub block: &'a Block,
    pub index: &'a FieldIndex,
    pub rows: &'a Rows,
    pub dialect: &'a Dialect,
}

/// A set of row numbers.
#[derive(Debug, Default)]
pub struct RowSet {
    words: Vec<u64>,
    count: usize,
}

impl RowSet {
    pub fn reset(&mut self, rows: usize) {
        self.words.clear();
        self.words.resize(rows.div_ceil(64), 0);
        self.count = 0;
    }

    #[cold]
    pub fn insert(&mut self, row: usize) {
        let bit = 1 << (row % 64);
        self.count += usize::from(self.words[row / 64] & bit == 0);
        self.words[row / 64] |= bit;
    }

    pub fn contains(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// NULLs of a column under construction: nothing is kept until the first one.
#[derive(Default)]
struct Nulls {
    valid: Vec<u8>,
}

impl Nulls {
    #[inline(never)]
    fn insert(&mut self, row: usize, rows: usize) {
        if self.valid.is_empty() {
            self.valid.resize(rows.div_ceil(8), 0xff);
        }
        self.valid[row / 8] &= !(1 << (row % 8));
    }

    fn finish(self, rows: usize) -> Option<NullBuffer> {
        (!self.valid.is_empty())
            .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.valid), 0, rows)))
    }
}

/// Turns columns of text into arrays; keeps what it decodes fields into.
#[derive(Default)]
pub struct ColumnParser {
    /// `[padding][decoded field][padding]`
    decoded: Vec<u8>,
}

/// One field on its way to a value.
enum Raw<'a> {
    Null,
    Value(Span<'a>),
    NotText,
}

impl ColumnParser {
    /// Parses one field of every row. Rows whose field is not in canonical form are put into
    /// `odd`; their value in the array is arbitrary.
    pub fn parse(
        &mut self,
        input: &Input<'_>,
        field: usize,
        field_type: &FieldType,
        odd: &mut RowSet,
    ) -> ArrayRef {
        match field_type {
            FieldType::Int16 => self.primitive::<Int16Type>(input, field, odd, |span| {
                i16::try_from(numbers::integer(span)?).ok()
            }),
            FieldType::Int32 => self.primitive::<Int32Type>(input, field, odd, |span| {
                i32::try_from(numbers::integer(span)?).ok()
            }),
            FieldType::Int64 => self.primitive::<Int64Type>(input, field, odd, numbers::integer64),
            FieldType::Float32 => self
                .primitive::<Float32Type>(input, field, odd, |span| numbers::float32(span.bytes())),
            FieldType::Float64 => self
                .primitive::<Float64Type>(input, field, odd, |span| numbers::float64(span.bytes())),
            FieldType::Decimal { precision, scale } if *precision <= DECIMAL64_PRECISION_MAX => {
                let (precision, scale) = (*precision, *scale);
                let values = self.values::<Decimal64Type>(input, field, odd, |span| {
                    numbers::decimal64(span, precision, scale)
                });
                Arc::new(values.with_data_type(field_type.arrow()))
            }
            FieldType::Decimal { precision, scale } => {
                let (precision, scale) = (*precision, *scale);
                let values = self.values::<Decimal128Type>(input, field, odd, |span| {
                    numbers::decimal128(span, precision, scale)
                });
                Arc::new(values.with_data_type(field_type.arrow()))
            }
            FieldType::Date => {
                self.primitive::<Date32Type>(input, field, odd, |span| temporal::date(span.bytes()))
            }
            FieldType::Time => self.primitive::<Time64MicrosecondType>(input, field, odd, |span| {
                temporal::time(span.bytes())
            }),
            FieldType::Timestamp => {
                self.primitive::<TimestampMicrosecondType>(input, field, odd, |span| {
                    temporal::timestamp(span.bytes())
                })
            }
            FieldType::TimestampTz { zoneless_is_utc } => {
                let values = self.values::<TimestampMicrosecondType>(input, field, odd, |span| {
                    temporal::timestamp_tz(span.bytes(), *zoneless_is_utc)
                });
                Arc::new(values.with_data_type(field_type.arrow()))
            }
            FieldType::Boolean => self.booleans(input, field, odd),
            FieldType::Uuid => self.uuids(input, field, odd),
            FieldType::Text { characters_max: None } | FieldType::Json | FieldType::Jsonb => {
                self.strings(input, field, odd, |_| true)
            }
            FieldType::Text { characters_max } => {
                self.strings(input, field, odd, |value| text::fits(value, *characters_max))
            }
            FieldType::NumericText { limits } => {
                self.strings(input, field, odd, |value| numbers::is_plain_decimal(value, *limits))
            }
            FieldType::Enum { labels } => self.strings(input, field, odd, |value| {
                labels.iter().any(|label| label.as_bytes() == value)
            }),
            FieldType::Bytea => self.byte_strings(input, field, odd),
            FieldType::Array(item) => self.arrays(input, field, item, odd),
        }
    }

    /// Hands every row's field to `take`, decoded where it needs to be.
    #[inline(always)]
    fn each(&mut self, input: &Input<'_>, field: usize, mut take: impl FnMut(usize, Raw<'_>)) {
        let separators = input.rows.separators(input.index);
        let padded = input.block.padded();
        let null = input.dialect.null.as_slice();
        let stride = input.rows.stride;
        let mut at = field;
        for row in 0..input.rows.count {
            let start = (separators[at] & OFFSET) as usize + 1;
            let separator = separators[at + 1];
            let end = (separator & OFFSET) as usize;
            at += stride;
            // One call of `take`, so that it is inlined.
            let raw = if separator & SPECIAL != 0 {
                self.special(padded, start, end, input.dialect)
            } else if end - start == null.len() && (null.is_empty() || &padded[start..end] == null)
            {
                Raw::Null
            } else {
                Raw::Value(Span::new(padded, start, end))
            };
            take(row, raw);
        }
    }

    #[inline(never)]
    fn special<'b>(
        &'b mut self,
        padded: &'b [u8],
        start: usize,
        end: usize,
        dialect: &Dialect,
    ) -> Raw<'b> {
        let raw = &padded[start..end];
        if text::simply_quoted(raw, dialect) {
            return Raw::Value(Span::new(padded, start + 1, end - 1));
        }
        self.decoded.clear();
        self.decoded.resize(BLOCK_PADDING, 0);
        match text::decode(raw, dialect, &mut self.decoded) {
            Decoded::Null => Raw::Null,
            Decoded::NotText => Raw::NotText,
            Decoded::Value => {
                let end = self.decoded.len();
                self.decoded.resize(end + BLOCK_PADDING, 0);
                Raw::Value(Span::new(&self.decoded, BLOCK_PADDING, end))
            }
        }
    }

    #[inline(always)]
    fn values<T: ArrowPrimitiveType>(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        mut parse: impl FnMut(Span<'_>) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let rows = input.rows.count;
        let mut values = vec![T::Native::default(); rows];
        let mut nulls = Nulls::default();
        self.each(input, field, |row, raw| match raw {
            Raw::Value(span) => match parse(span) {
                Some(value) => values[row] = value,
                None => odd.insert(row),
            },
            Raw::Null => nulls.insert(row, rows),
            Raw::NotText => odd.insert(row),
        });
        PrimitiveArray::new(ScalarBuffer::from(values), nulls.finish(rows))
    }

    #[inline(always)]
    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        parse: impl FnMut(Span<'_>) -> Option<T::Native>,
    ) -> ArrayRef {
        Arc::new(self.values::<T>(input, field, odd, parse))
    }

    fn booleans(&mut self, input: &Input<'_>, field: usize, odd: &mut RowSet) -> ArrayRef {
        let rows = input.rows.count;
        let mut bits = vec![0u8; rows.div_ceil(8)];
        let mut nulls = Nulls::default();
        self.each(input, field, |row, raw| match raw {
            Raw::Null => nulls.insert(row, rows),
            Raw::NotText => odd.insert(row),
            Raw::Value(span) => match text::boolean(span.bytes()) {
                Some(value) => bits[row / 8] |= u8::from(value) << (row % 8),
                None => odd.insert(row),
            },
        });
        let values = BooleanBuffer::new(Buffer::from_vec(bits), 0, rows);
        Arc::new(BooleanArray::new(values, nulls.finish(rows)))
    }

    fn uuids(&mut self, input: &Input<'_>, field: usize, odd: &mut RowSet) -> ArrayRef {
        let rows = input.rows.count;
        let mut bytes = MutableBuffer::with_capacity(rows * 16);
        let mut nulls = Nulls::default();
        self.each(input, field, |row, raw| {
            let value = match raw {
                Raw::Null => {
                    nulls.insert(row, rows);
                    None
                }
                Raw::Value(span) => {
                    let value = text::uuid(span.bytes());
                    if value.is_none() {
                        odd.insert(row);
                    }
                    value
                }
                Raw::NotText => {
                    odd.insert(row);
                    None
                }
            };
            bytes.extend_from_slice(&value.unwrap_or([0; 16]));
        });
        Arc::new(FixedSizeBinaryArray::new(16, bytes.into(), nulls.finish(rows)))
    }

    #[inline(always)]
    fn strings(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        is_canonical: impl Fn(&[u8]) -> bool,
    ) -> ArrayRef {
        let (offsets, data, nulls) = self.variable(input, field, odd, |span, data| {
            let canonical = is_canonical(span.bytes());
            if canonical {
                append(span, data);
            }
            canonical
        });
        // SAFETY: the block's text is UTF-8 (a block that is not has its broken records set aside
        // first), fields are cut at ASCII bytes, and what was decoded by number was checked.
        Arc::new(unsafe { StringArray::new_unchecked(offsets, data, nulls) })
    }

    fn byte_strings(&mut self, input: &Input<'_>, field: usize, odd: &mut RowSet) -> ArrayRef {
        let (offsets, data, nulls) =
            self.variable(input, field, odd, |span, data| text::bytea(span.bytes(), data));
        Arc::new(BinaryArray::new(offsets, data, nulls))
    }

    #[inline(always)]
    fn variable(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        mut parse: impl FnMut(Span<'_>, &mut Vec<u8>) -> bool,
    ) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let rows = input.rows.count;
        let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
        // A guess from the average field; the vector grows where it was too small.
        let mut data = Vec::with_capacity(input.block.len() / input.rows.stride.max(1) * 2 + SHORT);
        let mut nulls = Nulls::default();
        offsets.push(0);
        self.each(input, field, |row, raw| {
            match raw {
                Raw::Null => nulls.insert(row, rows),
                Raw::NotText => odd.insert(row),
                Raw::Value(span) => {
                    if !parse(span, &mut data) {
                        odd.insert(row);
                    }
                }
            }
            offsets.push(data.len() as i32);
        });
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        (offsets, Buffer::from_vec(data), nulls.finish(rows))
    }

    fn arrays(
        &mut self,
        input: &Input<'_>,
        field: usize,
        item: &FieldType,
        odd: &mut RowSet,
    ) -> ArrayRef {
        let rows = input.rows.count;
        let mut builder = array::ListParser::new(item, rows);
        self.each(input, field, |row, raw| match raw {
            Raw::Null => builder.push_null(),
            Raw::NotText => {
                builder.push_null();
                odd.insert(row);
            }
            Raw::Value(span) => {
                if !builder.push(span.bytes()) {
                    builder.push_null();
                    odd.insert(row);
                }
            }
        });
        builder.finish(odd)
    }
}

/// Fields up to this many bytes are copied with one fixed-size move.
const SHORT: usize = 32;

/// Appends a field's bytes; short ones without a call to `memcpy`.
#[inline(always)]
fn append(span: Span<'_>, data: &mut Vec<u8>) {
    let bytes = span.bytes();
    match span.following::<SHORT>() {
        Some(fixed) if bytes.len() <= SHORT => {
            data.reserve(SHORT);
            let len = data.len();
            data.extend_from_slice(fixed);
            data.truncate(len + bytes.len());
        }
        _ => data.extend_from_slice(bytes),
    }
}
