//! Columns as text, for a server that reads lines. Numbers and moments are written here: Arrow's casts, which format
//! each value by itself, took 9.5 s of a processor for a GB of lineitem's text.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use fullbore_parse::calendar::civil;
use fullbore_read::error::Result;

use crate::sent::{cast, defect};

/// 0000-01-01 and 10000-01-01, in days since 1970: a year between them has four digits.
const FOUR_DIGITS: std::ops::Range<i64> = -719_528..2_932_897;

const DAY: i64 = 86_400_000_000;

/// Every column of a batch as text: booleans as 0 and 1, bytes as hexadecimal digits.
pub fn texts(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(text).collect::<Result<Vec<_>, _>>();
    let columns = columns.map_err(|error| defect(&error))?;
    let names = batch.schema();
    let fields = names.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| defect(&error))
}

fn text(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Int16 => written::<Int16Type>(column, 6, integer),
        DataType::Int32 => written::<Int32Type>(column, 8, integer),
        DataType::Int64 => written::<Int64Type>(column, 8, integer),
        // A scale below zero does not come of any type of ours.
        DataType::Decimal64(_, scale @ 0..) => {
            written::<Decimal64Type>(column, 12, |out, value| {
                decimal(out, value.into(), *scale as usize);
            })
        }
        DataType::Decimal128(_, scale @ 0..) => {
            written::<Decimal128Type>(column, 24, |out, value| decimal(out, value, *scale as usize))
        }
        DataType::Date32 if have_four_digits(column.as_primitive::<Date32Type>(), 1) => {
            written::<Date32Type>(column, 10, |out, days| date(out, days.into()))
        }
        DataType::Timestamp(TimeUnit::Microsecond, None)
            if have_four_digits(column.as_primitive::<TimestampMicrosecondType>(), DAY) =>
        {
            written::<TimestampMicrosecondType>(column, 26, moment)
        }
        DataType::Binary => Ok(Arc::new(hexadecimal(column))),
        DataType::Boolean => {
            cast(column, &DataType::Int8).and_then(|column| cast(&column, &DataType::Utf8))
        }
        _ => cast(column, &DataType::Utf8),
    }
}

/// The texts of a column, about so many bytes each.
fn written<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    bytes_each: usize,
    write: impl Fn(&mut Vec<u8>, T::Native),
) -> Result<ArrayRef, ArrowError> {
    let array = column.as_primitive::<T>();
    let mut texts = Vec::with_capacity(array.len() * bytes_each);
    let mut ends = Vec::with_capacity(array.len() + 1);
    ends.push(0);
    for (row, value) in array.values().iter().enumerate() {
        if array.is_valid(row) {
            write(&mut texts, *value);
        }
        // A block's texts are far below 2 GiB.
        ends.push(texts.len() as i32);
    }
    let ends = OffsetBuffer::new(ends.into());
    let made = StringArray::try_new(ends, Buffer::from_vec(texts), array.nulls().cloned())?;
    Ok(Arc::new(made))
}

fn have_four_digits<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &PrimitiveArray<T>,
    day: i64,
) -> bool {
    // Where a value is NULL, anything may stand.
    array.iter().flatten().all(|value| FOUR_DIGITS.contains(&value.into().div_euclid(day)))
}

fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn decimal(out: &mut Vec<u8>, value: i128, scale: usize) {
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    let mut buffer = itoa::Buffer::new();
    // Twice as fast where they fit.
    let digits = match u64::try_from(magnitude) {
        Ok(short) => buffer.format(short),
        Err(_) => buffer.format(magnitude),
    };
    let digits = digits.as_bytes();
    if scale == 0 {
        return out.extend_from_slice(digits);
    }
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    out.push(b'.');
    out.resize(out.len() + scale - fraction.len(), b'0');
    out.extend_from_slice(fraction);
}

fn date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    let [[a, b], [c, d]] = [two(year / 100), two(year % 100)];
    let [[m, n], [x, y]] = [two(month), two(day)];
    out.extend_from_slice(&[a, b, c, d, b'-', m, n, b'-', x, y]);
}

fn moment(out: &mut Vec<u8>, microseconds: i64) {
    date(out, microseconds.div_euclid(DAY));
    let of_day = microseconds.rem_euclid(DAY);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let [[a, b], [c, d], [e, f]] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(two);
    out.extend_from_slice(&[b' ', a, b, b':', c, d, b':', e, f]);
    if fraction > 0 {
        let [[a, b], [c, d], [e, f]] =
            [fraction / 10_000, fraction / 100 % 100, fraction % 100].map(two);
        out.extend_from_slice(&[b'.', a, b, c, d, e, f]);
    }
}

/// A number below 100 as two digits.
fn two(number: i64) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

fn hexadecimal(array: &ArrayRef) -> StringArray {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    array.as_binary::<i32>().iter().map(|bytes| bytes.map(digits)).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Date32Array, Decimal64Array, Decimal128Array, TimestampMicrosecondArray};
    use proptest::prelude::*;

    use super::*;

    fn texts(array: ArrayRef) -> Vec<Option<String>> {
        let made = text(&array).expect("texts");
        made.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn cast_texts(array: &ArrayRef) -> Vec<Option<String>> {
        let made = cast(array, &DataType::Utf8).expect("texts");
        made.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    proptest! {
        #[test]
        fn they_are_those_of_arrow(
            numbers in prop::collection::vec(prop::option::of(any::<i64>()), 1..50),
            wide in any::<i128>(),
            scale in 0_i8..=18,
        ) {
            let array: ArrayRef = Arc::new(arrow_array::Int64Array::from(numbers.clone()));
            prop_assert_eq!(texts(array.clone()), cast_texts(&array));
            let short = numbers.iter().map(|number| number.map(|n| n % 1_000_000_000_000_000_000));
            let array = Decimal64Array::from_iter(short);
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(18, scale).expect("fits"));
            prop_assert_eq!(texts(array.clone()), cast_texts(&array));
            let wide = wide % 10_i128.pow(38);
            let array = Decimal128Array::from(vec![Some(wide), None]);
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(38, scale).expect("fits"));
            prop_assert_eq!(texts(array.clone()), cast_texts(&array));
            let days = numbers.iter().map(|number| number.map(|n| (n % 4_000_000) as i32));
            let array: ArrayRef = Arc::new(Date32Array::from_iter(days));
            prop_assert_eq!(texts(array.clone()), cast_texts(&array));
        }
    }

    #[test]
    fn moments_have_six_digits_or_none() {
        let moments = vec![Some(0), Some(-1), Some(1_500_000), None, Some(253_402_300_799_999_999)];
        assert_eq!(
            texts(Arc::new(TimestampMicrosecondArray::from(moments))),
            [
                Some("1970-01-01 00:00:00"),
                Some("1969-12-31 23:59:59.999999"),
                Some("1970-01-01 00:00:01.500000"),
                None,
                Some("9999-12-31 23:59:59.999999"),
            ]
            .map(|text| text.map(str::to_owned))
        );
    }
}
