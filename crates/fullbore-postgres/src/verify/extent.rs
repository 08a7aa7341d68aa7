//! The least and the greatest value of a column, as whole numbers: of numbers, dates and times
//! themselves, of text and bytes their lengths. They prove nothing that the sums do not; they help to
//! find out what happened.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use fullbore_parse::types::FieldType;

use super::column::{SummedColumn, day, moment, time};

/// What a column's extent is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Number,
    /// Units of so many decimal places.
    Decimal {
        scale: u8,
    },
    Day,
    Time,
    /// Microseconds since 2000.
    Moment,
    /// With the zone of UTC.
    Instant,
    /// Bytes of a value.
    Length,
}

/// How a type's values are measured; `None` where they aren't.
pub fn measure(column: &SummedColumn) -> Option<Measure> {
    Some(match &column.field_type {
        FieldType::Int16 | FieldType::Int32 | FieldType::Int64 => Measure::Number,
        FieldType::Decimal { precision, scale } if *precision <= 18 => {
            Measure::Decimal { scale: *scale }
        }
        FieldType::Date => Measure::Day,
        FieldType::Time => Measure::Time,
        FieldType::Timestamp => Measure::Moment,
        FieldType::TimestampTz { .. } => Measure::Instant,
        FieldType::Text { .. } if column.padded > 0 => return None,
        FieldType::Text { .. } | FieldType::Bytea => Measure::Length,
        _ => return None,
    })
}

/// The SQL that measures a value, as `bigint`; NULL of what has no place in the order. `bytes` is
/// what its type's send function gives.
pub fn sql(measure: Measure, column: &str, bytes: &str) -> String {
    match measure {
        Measure::Number => format!("{column}::bigint"),
        Measure::Decimal { scale } => {
            format!("CASE WHEN {column} <> 'NaN' THEN ({column} * 1e{scale})::bigint END")
        }
        Measure::Day => {
            format!("CASE WHEN isfinite({column}) THEN ({column} - date '2000-01-01')::bigint END")
        }
        Measure::Time => format!("(extract(epoch FROM {column}) * 1000000)::bigint"),
        Measure::Moment | Measure::Instant => format!(
            "CASE WHEN isfinite({column})
                  THEN (extract(epoch FROM {column}) * 1000000 - 946684800000000)::bigint END"
        ),
        Measure::Length => format!("octet_length({bytes})::bigint"),
    }
}

/// Of a batch's column.
#[inline(always)]
pub fn of(column: &SummedColumn, array: &dyn Array) -> Option<(i64, i64)> {
    let unit = column.unit;
    match &column.field_type {
        FieldType::Int16 => ends::<Int16Type>(array).map(|(l, h)| (l.into(), h.into())),
        FieldType::Int32 => ends::<Int32Type>(array).map(|(l, h)| (l.into(), h.into())),
        FieldType::Int64 => ends::<Int64Type>(array),
        FieldType::Decimal { precision, .. } if *precision <= 18 => ends::<Decimal64Type>(array),
        FieldType::Date => ends::<Date32Type>(array).map(|(l, h)| (day(l).into(), day(h).into())),
        FieldType::Time => {
            ends::<Time64MicrosecondType>(array).map(|(l, h)| (time(l, unit), time(h, unit)))
        }
        FieldType::Timestamp | FieldType::TimestampTz { .. } => {
            ends::<TimestampMicrosecondType>(array).map(|(l, h)| (moment(l, unit), moment(h, unit)))
        }
        FieldType::Text { .. } if column.padded > 0 => None,
        FieldType::Text { .. } => lengths(array.as_string::<i32>().value_offsets(), array),
        FieldType::Bytea => lengths(array.as_binary::<i32>().value_offsets(), array),
        _ => None,
    }
}

#[inline(always)]
fn ends<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<(T::Native, T::Native)>
where
    T::Native: Ord,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    if array.null_count() == 0 {
        let values = array.values();
        let first = *values.first()?;
        let low = values.iter().fold(first, |low, value| low.min(*value));
        let high = values.iter().fold(first, |high, value| high.max(*value));
        return Some((low, high));
    }
    let values = || array.iter().flatten();
    values().min().zip(values().max())
}

#[inline(always)]
fn lengths(offsets: &[i32], array: &dyn Array) -> Option<(i64, i64)> {
    // Of two slices, and one end after the other: so the compiler makes wide instructions of it.
    let lengths = || offsets[1..].iter().zip(offsets).map(|(end, start)| end - start);
    if array.is_empty() {
        return None;
    }
    if array.null_count() == 0 {
        let (low, high) = (lengths().fold(i32::MAX, i32::min), lengths().fold(0, i32::max));
        return Some((low.into(), high.into()));
    }
    let known = || lengths().enumerate().filter(|(row, _)| array.is_valid(*row));
    let low = known().map(|(_, length)| length).min()?;
    let high = known().map(|(_, length)| length).max()?;
    Some((low.into(), high.into()))
}

/// The SQL that shows a measured number as the value that it stands for.
pub fn shown_sql(measure: Measure, number: i64) -> String {
    match measure {
        Measure::Number => format!("'{number}'"),
        Measure::Decimal { scale } => {
            format!("({number}::numeric / 1e{scale})::numeric(38,{scale})::text")
        }
        Measure::Day => format!("(date '2000-01-01' + {number})::text"),
        Measure::Time => format!("(time '00:00' + {number} * interval '1 microsecond')::text"),
        Measure::Moment => {
            format!("(timestamp '2000-01-01' + {number} * interval '1 microsecond')::text")
        }
        Measure::Instant => {
            format!("(timestamptz '2000-01-01 00:00Z' + {number} * interval '1 microsecond')::text")
        }
        Measure::Length => format!("'{number} bytes'"),
    }
}
