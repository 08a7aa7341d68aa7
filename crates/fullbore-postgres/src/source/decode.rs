//! Rows of binary COPY as Arrow's columns (PostgreSQL's documentation of COPY, "Binary Format"; each type's own
//! `..._send` function).

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal64Builder, Decimal128Builder,
    FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::SchemaRef;
use fullbore_parse::types::{DECIMAL64_PRECISION_MAX, FieldType};

use crate::encode_copy::{BINARY_HEADER, EPOCH_DAYS, EPOCH_MICROSECONDS};

/// Why rows can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no binary COPY of these columns.
    Malformed(&'static str),
    /// A value that the column's type has no place for: `infinity`.
    Unfit { column: usize, value: &'static str },
}

type Read<T> = Result<T, Unreadable>;

/// Turns messages of binary COPY into batches.
pub struct Decoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    has_begun: bool,
    /// Rows stand in stretches, each the value of a row of one column.
    is_stretched: bool,
}

impl Decoder {
    /// Of columns in the order of the statement, each by its type; `is_stretched` where the extension gives the rows.
    pub fn new(schema: SchemaRef, types: &[FieldType], is_stretched: bool) -> Self {
        let columns = types.iter().map(Column::new).collect();
        Self { schema, columns, rows: 0, bytes: 0, has_begun: false, is_stretched }
    }

    /// Rows that were taken since the last batch, and bytes of their values.
    pub fn size(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    /// Takes one message: the server sends each of its rows in one, the first with what stands before all rows.
    pub fn take(&mut self, message: &[u8]) -> Read<()> {
        let mut left = message;
        if !self.has_begun {
            left =
                left.strip_prefix(BINARY_HEADER).ok_or(Unreadable::Malformed("another header"))?;
            self.has_begun = true;
        }
        let columns = if self.is_stretched { 1 } else { self.columns.len() };
        while let Some(rest) = row(left, columns)? {
            left = match self.is_stretched {
                true => {
                    let (stretch, rest) = value(rest)?;
                    self.take_stretch(stretch.ok_or(CUT)?)?;
                    rest
                }
                false => self.take_row(rest)?,
            };
        }
        Ok(())
    }

    fn take_stretch(&mut self, mut left: &[u8]) -> Read<()> {
        while !left.is_empty() {
            // No end stands in it: that of all rows is the message's.
            let rest = row(left, self.columns.len())?.ok_or(CUT)?;
            left = self.take_row(rest)?;
        }
        Ok(())
    }

    fn take_row<'a>(&mut self, mut left: &'a [u8]) -> Read<&'a [u8]> {
        for (number, column) in self.columns.iter_mut().enumerate() {
            let (value, rest) = value(left)?;
            left = rest;
            column.push(value).map_err(|error| error.of(number))?;
            self.bytes += value.map_or(0, <[u8]>::len);
        }
        self.rows += 1;
        Ok(left)
    }

    /// The rows since the last batch.
    pub fn batch(&mut self) -> Read<RecordBatch> {
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Read<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|_| Unreadable::Malformed("rows of other columns"))
    }
}

/// What follows the number of a row's columns; none where no row follows.
fn row(left: &[u8], columns: usize) -> Read<Option<&[u8]>> {
    if left.is_empty() {
        return Ok(None);
    }
    let (fields, rest) = left.split_first_chunk().ok_or(CUT)?;
    match i16::from_be_bytes(*fields) {
        -1 => Ok(None),
        fields if usize::try_from(fields) == Ok(columns) => Ok(Some(rest)),
        _ => Err(Unreadable::Malformed("another number of columns")),
    }
}

/// A value, none where it is NULL, and what follows it.
fn value(left: &[u8]) -> Read<(Option<&[u8]>, &[u8])> {
    let (length, rest) = left.split_first_chunk().ok_or(CUT)?;
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        return Ok((None, rest));
    }
    let length = usize::try_from(length).map_err(|_| CUT)?;
    let (value, rest) = rest.split_at_checked(length).ok_or(CUT)?;
    Ok((Some(value), rest))
}

const NO_TEXT: Unreadable = Unreadable::Malformed("text that is not UTF-8");
const CUT: Unreadable = Unreadable::Malformed("a row that is cut off");
const WRONG: Unreadable = Unreadable::Malformed("a value of another length");

impl Unreadable {
    /// Where it is of a value: of which column.
    fn of(self, number: usize) -> Self {
        match self {
            Self::Unfit { value, .. } => Self::Unfit { column: number, value },
            other => other,
        }
    }
}

fn unfit(value: &'static str) -> Unreadable {
    Unreadable::Unfit { column: 0, value }
}

/// A column that grows.
enum Column {
    Boolean(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal64(Decimal64Builder, (u8, u8)),
    Decimal128(Decimal128Builder, (u8, u8)),
    /// Looked at as a whole: whether each value is UTF-8 took a tenth of all decoding.
    Text(BinaryBuilder),
    /// A byte for the version stands before it.
    Jsonb(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Bytea(BinaryBuilder),
}

/// The version of jsonb's binary form.
const JSONB_VERSION: u8 = 1;

impl Column {
    fn new(field_type: &FieldType) -> Self {
        match field_type {
            FieldType::Boolean => Self::Boolean(BooleanBuilder::new()),
            FieldType::Int16 => Self::Int16(Int16Builder::new()),
            FieldType::Int32 => Self::Int32(Int32Builder::new()),
            FieldType::Int64 => Self::Int64(Int64Builder::new()),
            FieldType::Float32 => Self::Float32(Float32Builder::new()),
            FieldType::Float64 => Self::Float64(Float64Builder::new()),
            FieldType::Decimal { precision, scale } if *precision <= DECIMAL64_PRECISION_MAX => {
                let builder = Decimal64Builder::new().with_data_type(field_type.arrow());
                Self::Decimal64(builder, (*precision, *scale))
            }
            FieldType::Decimal { precision, scale } => {
                let builder = Decimal128Builder::new().with_data_type(field_type.arrow());
                Self::Decimal128(builder, (*precision, *scale))
            }
            FieldType::Jsonb => Self::Jsonb(BinaryBuilder::new()),
            FieldType::Date => Self::Date(Date32Builder::new()),
            FieldType::Time => Self::Time(Time64MicrosecondBuilder::new()),
            FieldType::Timestamp | FieldType::TimestampTz { .. } => {
                let builder = TimestampMicrosecondBuilder::new();
                Self::Timestamp(builder.with_data_type(field_type.arrow()))
            }
            FieldType::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
            FieldType::Bytea => Self::Bytea(BinaryBuilder::new()),
            // Whatever has no form of its own is asked for as text.
            FieldType::Text { .. }
            | FieldType::NumericText { .. }
            | FieldType::Json
            | FieldType::Enum { .. }
            | FieldType::Array(_) => Self::Text(BinaryBuilder::new()),
        }
    }

    fn push(&mut self, value: Option<&[u8]>) -> Read<()> {
        fn fixed<const N: usize>(value: Option<&[u8]>) -> Read<Option<[u8; N]>> {
            value.map(|value| value.try_into().map_err(|_| WRONG)).transpose()
        }
        match self {
            Self::Boolean(to) => to.append_option(fixed(value)?.map(|[byte]| byte != 0)),
            Self::Int16(to) => to.append_option(fixed(value)?.map(i16::from_be_bytes)),
            Self::Int32(to) => to.append_option(fixed(value)?.map(i32::from_be_bytes)),
            Self::Int64(to) => to.append_option(fixed(value)?.map(i64::from_be_bytes)),
            Self::Float32(to) => to.append_option(fixed(value)?.map(f32::from_be_bytes)),
            Self::Float64(to) => to.append_option(fixed(value)?.map(f64::from_be_bytes)),
            Self::Decimal64(to, limits) => {
                let value = value.map(|value| decimal(value, *limits)).transpose()?;
                let value = value.map(i64::try_from).transpose();
                to.append_option(value.map_err(|_| Unreadable::Malformed("too many digits"))?);
            }
            Self::Decimal128(to, limits) => {
                to.append_option(value.map(|value| decimal(value, *limits)).transpose()?);
            }
            Self::Jsonb(to) => {
                let value = value.map(|value| match value.split_first() {
                    Some((&JSONB_VERSION, rest)) => Ok(rest),
                    _ => Err(Unreadable::Malformed("another version of jsonb")),
                });
                to.append_option(value.transpose()?);
            }
            Self::Date(to) => {
                let days = fixed(value)?.map(i32::from_be_bytes).map(|days| match days {
                    i32::MAX => Err(unfit("infinity")),
                    i32::MIN => Err(unfit("-infinity")),
                    days => days.checked_add(EPOCH_DAYS).ok_or(unfit("a date so late")),
                });
                to.append_option(days.transpose()?);
            }
            Self::Time(to) => to.append_option(fixed(value)?.map(i64::from_be_bytes)),
            Self::Timestamp(to) => {
                let moment = fixed(value)?.map(i64::from_be_bytes).map(|moment| match moment {
                    i64::MAX => Err(unfit("infinity")),
                    i64::MIN => Err(unfit("-infinity")),
                    moment => {
                        moment.checked_add(EPOCH_MICROSECONDS).ok_or(unfit("a moment so late"))
                    }
                });
                to.append_option(moment.transpose()?);
            }
            Self::Uuid(to) => match fixed::<16>(value)? {
                Some(value) => to.append_value(value).map_err(|_| WRONG)?,
                None => to.append_null(),
            },
            Self::Text(to) | Self::Bytea(to) => to.append_option(value),
        }
        Ok(())
    }

    fn finish(&mut self) -> Read<ArrayRef> {
        Ok(match self {
            Self::Boolean(of) => Arc::new(of.finish()),
            Self::Int16(of) => Arc::new(of.finish()),
            Self::Int32(of) => Arc::new(of.finish()),
            Self::Int64(of) => Arc::new(of.finish()),
            Self::Float32(of) => Arc::new(of.finish()),
            Self::Float64(of) => Arc::new(of.finish()),
            Self::Decimal64(of, _) => Arc::new(of.finish()),
            Self::Decimal128(of, _) => Arc::new(of.finish()),
            Self::Text(of) | Self::Jsonb(of) => {
                Arc::new(StringArray::try_from_binary(of.finish()).map_err(|_| NO_TEXT)?)
            }
            Self::Date(of) => Arc::new(of.finish()),
            Self::Time(of) => Arc::new(of.finish()),
            Self::Timestamp(of) => Arc::new(of.finish()),
            Self::Uuid(of) => Arc::new(of.finish()),
            Self::Bytea(of) => Arc::new(of.finish()),
        })
    }
}

/// Digits to the base of 10,000 (`numeric_send`): how many, the weight of the first, the sign, and how many decimal
/// digits are shown.
fn decimal(value: &[u8], (precision, scale): (u8, u8)) -> Read<i128> {
    let (head, digits) = value.split_first_chunk::<8>().ok_or(WRONG)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign) = (usize::from(word(0)), i32::from(word(2) as i16), word(4));
    let is_negative = match sign {
        0 => false,
        0x4000 => true,
        0xc000 => return Err(unfit("NaN")),
        0xd000 => return Err(unfit("infinity")),
        0xf000 => return Err(unfit("-infinity")),
        _ => return Err(Unreadable::Malformed("another sign of a number")),
    };
    if digits.len() != 2 * count || count > 64 {
        return Err(WRONG);
    }
    let exponent = i32::from(scale) + 4 * (weight + 1 - count as i32);
    let is_short = |number: &i64| POWERS.get(usize::from(precision)).is_none_or(|it| number < it);
    if let Some(number) = short_decimal(digits, exponent).filter(is_short) {
        return Ok(i128::from(if is_negative { -number } else { number }));
    }
    let limit = 10i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX);
    let number = long_decimal(digits, exponent).filter(|number| *number < limit);
    let number = number.ok_or(Unreadable::Malformed("too many digits"))?;
    Ok(if is_negative { -number } else { number })
}

/// What digits come to, where that has at most 38 of ten; `exponent` is what the last one counts for.
fn long_decimal(digits: &[u8], exponent: i32) -> Option<i128> {
    let mut digits =
        digits.chunks_exact(2).map(|it| i128::from(u16::from_be_bytes([it[0], it[1]])));
    let Some(last) = digits.next_back() else { return Some(0) };
    let before = digits
        .try_fold(0, |number: i128, digit| number.checked_mul(BASE.into())?.checked_add(digit))?;
    // Of the last one only what lies before the scale's end counts: the rest is zeros, and there may be no room for them.
    let unused = exponent.min(0).unsigned_abs();
    let used = 10i128.pow(4u32.checked_sub(unused)?);
    let divisor = i128::from(BASE) / used;
    if last % divisor != 0 {
        return None;
    }
    let number = before.checked_mul(used)?.checked_add(last / divisor)?;
    number.checked_mul(10i128.checked_pow(exponent.max(0).unsigned_abs())?)
}

/// What a digit of the server's counts to.
const BASE: i64 = 10_000;

/// Powers of ten.
const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// What few digits come to, in arithmetic of 64 bits, which takes a fifth of the time; `exponent` is what the last one
/// counts for.
fn short_decimal(digits: &[u8], exponent: i32) -> Option<i64> {
    if digits.len() > 6 || !(-8..=6).contains(&exponent) {
        return None;
    }
    // Below 10^12 as each digit is below 10,000, and below 10^18 with the power; 65,535 in place of 9,999 fits, too.
    let number = digits.chunks_exact(2).fold(0, |number, digit| {
        number * BASE + i64::from(u16::from_be_bytes([digit[0], digit[1]]))
    });
    let power = POWERS[exponent.unsigned_abs() as usize];
    match exponent {
        0.. => number.checked_mul(power),
        _ => (number % power == 0).then(|| number / power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn numbers_are_read_as_the_server_sends_them() {
        for (words, limits, expected) in [
            (&[0, 0, 0, 2][..], (9, 2), 0),
            (&[0, 0, 0, 35], (38, 35), 0),
            (
                &[10, 8, 0, 2, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9900],
                (38, 2),
                10i128.pow(38) - 1,
            ),
            (&[1, 0xffff, 0x4000, 35, 1], (38, 35), -(10i128.pow(31))),
            (&[2, 0, 0, 2, 9_999, 9_900], (18, 2), 999_999),
            (&[5, 3, 0, 2, 9_999, 9_999, 9_999, 9_999, 9_900], (18, 2), 999_999_999_999_999_999),
            (&[1, 0, 0, 2, 7], (9, 2), 700),
            (&[2, 0, 0x4000, 2, 12, 3400], (9, 2), -1234),
            (&[1, 0xffff, 0, 4, 1], (9, 4), 1),
            (&[1, 1, 0, 0, 5], (9, 0), 50_000),
            (&[3, 1, 0, 2, 9999, 9999, 9900], (10, 2), 9_999_999_999),
        ] {
            assert_eq!(decimal(&numeric(words), limits), Ok(expected), "{words:?}");
        }
        for (words, limits) in [
            (&[2, 0, 0, 2][..], (9, 2)),
            (&[1, 0, 0xc000, 0, 1], (9, 2)),
            (&[1, 0xffff, 0, 4, 1], (9, 2)),
            (&[1, 5, 0, 0, 1], (9, 2)),
            (&[1, 0x7fff, 0, 0, 1], (38, 2)),
        ] {
            assert!(decimal(&numeric(words), limits).is_err(), "{words:?}");
        }
    }
}
