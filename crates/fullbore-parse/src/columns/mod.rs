//! From rows to typed columns: one pass per column, no decision per field that could be made once.
//!
//! Columns of numbers, dates and text first go the wide way ([`super::wide`]); rows that it leaves
//! pending are taken one by one.

mod fixed;
mod unfit;
mod variable;

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::block::Block;
use super::dialect::Dialect;
use super::floats;
use super::index::{FieldIndex, OFFSET, SPECIAL};
use super::numbers::{self, Span};
use super::rows::Rows;
use super::temporal;
use super::text::{self, Decoded};
use super::types::{DECIMAL64_PRECISION_MAX, FieldType};
use super::wide::{self, Fields, Pending};
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
    pending: Pending,
}

/// One field on its way to a value.
enum Raw<'a> {
    Null,
    Value(Span<'a>),
    NotText,
}

impl<'a> Input<'a> {
    fn fields(&self, field: usize) -> Fields<'a> {
        let (rows, separators) = (self.rows, self.rows.separators(self.index));
        let padded = self.block.padded();
        Fields::new(padded, separators, field, rows.stride, rows.count, self.dialect)
    }
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
            FieldType::Int16 => typed(
                self.primitive::<Int16Type>(input, field, odd, |span| {
                    i16::try_from(numbers::integer(span)?).ok()
                }),
                field_type,
            ),
            FieldType::Int32 => typed(
                self.wide::<Int32Type, _>(&wide::Integer32, input, field, odd, |span| {
                    i32::try_from(numbers::integer(span)?).ok()
                }),
                field_type,
            ),
            FieldType::Int64 => {
                let parse = numbers::integer64;
                let values = self.wide::<Int64Type, _>(&wide::Integer, input, field, odd, parse);
                typed(values, field_type)
            }
            FieldType::Float32 => typed(
                self.primitive::<Float32Type>(input, field, odd, |span| {
                    floats::float32(span.bytes())
                }),
                field_type,
            ),
            FieldType::Float64 => typed(
                self.primitive::<Float64Type>(input, field, odd, |span| {
                    floats::float64(span.bytes())
                }),
                field_type,
            ),
            FieldType::Decimal { precision, scale } if *precision <= DECIMAL64_PRECISION_MAX => {
                let (precision, scale) = (*precision, *scale);
                let parse = |span: Span<'_>| numbers::decimal64(span, precision, scale);
                let values = match wide::Decimal::new(precision, scale) {
                    Some(kernel) => {
                        self.wide::<Decimal64Type, _>(&kernel, input, field, odd, parse)
                    }
                    None => self.primitive::<Decimal64Type>(input, field, odd, parse),
                };
                typed(values, field_type)
            }
            FieldType::Decimal { precision, scale } => {
                let (precision, scale) = (*precision, *scale);
                let parse = |span: Span<'_>| numbers::decimal128(span, precision, scale);
                let values = match wide::LongDecimal::new(scale) {
                    Some(kernel) => {
                        self.wide::<Decimal128Type, _>(&kernel, input, field, odd, parse)
                    }
                    None => self.primitive::<Decimal128Type>(input, field, odd, parse),
                };
                typed(values, field_type)
            }
            FieldType::Date => typed(
                self.wide::<Date32Type, _>(&wide::Date, input, field, odd, |span| {
                    temporal::date(span.bytes())
                }),
                field_type,
            ),
            FieldType::Time => typed(
                self.primitive::<Time64MicrosecondType>(input, field, odd, |span| {
                    temporal::time(span.bytes())
                }),
                field_type,
            ),
            FieldType::Timestamp => {
                typed(self.timestamps(input, field, odd, temporal::timestamp), field_type)
            }
            FieldType::TimestampTz { zoneless_is_utc: true } => {
                let parse = |field: &[u8]| temporal::timestamp_tz(field, true);
                typed(self.timestamps(input, field, odd, parse), field_type)
            }
            FieldType::TimestampTz { zoneless_is_utc: false } => typed(
                self.primitive::<TimestampMicrosecondType>(input, field, odd, |span| {
                    temporal::timestamp_tz(span.bytes(), false)
                }),
                field_type,
            ),
            FieldType::Boolean => self.booleans(input, field, odd),
            FieldType::Uuid => self.uuids(input, field, odd),
            FieldType::Text { characters_max: None } | FieldType::Json | FieldType::Jsonb => {
                self.text(input, field, odd, None)
            }
            FieldType::Text { characters_max } => self.text(input, field, odd, *characters_max),
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
    fn one_by_one(&mut self, input: &Input<'_>, field: usize, take: impl FnMut(usize, Raw<'_>)) {
        self.pending.all(input.rows.count);
        self.each_pending(input, field, take);
    }

    /// As [`Self::one_by_one`], for the rows that are pending.
    #[inline(always)]
    fn each_pending(
        &mut self,
        input: &Input<'_>,
        field: usize,
        mut take: impl FnMut(usize, Raw<'_>),
    ) {
        let pending = std::mem::take(&mut self.pending);
        pending.each(|row| take(row, self.raw(input, field, row)));
        self.pending = pending;
    }

    /// A row's field, decoded where it needs to be.
    #[inline(always)]
    fn raw<'b>(&'b mut self, input: &Input<'b>, field: usize, row: usize) -> Raw<'b> {
        let separators = input.rows.separators(input.index);
        let padded = input.block.padded();
        let null = input.dialect.null.as_slice();
        let at = row * input.rows.stride + field;
        let start = (separators[at] & OFFSET) as usize + 1;
        let separator = separators[at + 1];
        let end = (separator & OFFSET) as usize;
        if separator & SPECIAL != 0 {
            self.special(padded, start, end, input.dialect)
        } else if end - start == null.len() && (null.is_empty() || &padded[start..end] == null) {
            Raw::Null
        } else {
            Raw::Value(Span::new(padded, start, end))
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
            Decoded::NotText | Decoded::EndMark => Raw::NotText,
            Decoded::Value => {
                let end = self.decoded.len();
                self.decoded.resize(end + BLOCK_PADDING, 0);
                Raw::Value(Span::new(&self.decoded, BLOCK_PADDING, end))
            }
        }
    }
}

/// Decimals and times carry more in their Arrow type than their native one tells.
fn typed<T: ArrowPrimitiveType>(values: PrimitiveArray<T>, field_type: &FieldType) -> ArrayRef {
    Arc::new(values.with_data_type(field_type.arrow()))
}
