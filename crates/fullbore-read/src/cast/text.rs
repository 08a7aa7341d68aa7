//! Stored values as text, for the server to read.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType,
};
use arrow_array::{Array, ArrayRef, LargeListArray, StringArray, cast::AsArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use fullbore_parse::types::FieldType;

use super::{Cast, SHOWN_BYTES, Unfit, exact, is_text, item_of, json, shown};

/// The array as text that the server reads as a value of the target's type.
pub fn as_text(array: &ArrayRef, target: &FieldType) -> Result<Cast, Unfit> {
    let plain = |array: ArrayRef| Ok(Cast { array, rounded: 0 });
    match (array.data_type(), target) {
        (DataType::Null, _) => plain(new_null_array(&DataType::Utf8, array.len())),
        (stored, FieldType::Json | FieldType::Jsonb) if !is_text(stored) => {
            plain(json::texts(array)?)
        }
        (DataType::Binary | DataType::LargeBinary, FieldType::Bytea | FieldType::Uuid)
        | (DataType::FixedSizeBinary(_), _) => {
            let prefix = if *target == FieldType::Uuid { "" } else { "\\x" };
            let bytes = exact(array, &DataType::LargeBinary)?.array;
            let digits = bytes.as_binary::<i64>().iter().map(|value| {
                let mut text = String::from(prefix);
                for byte in value? {
                    let _ = write!(text, "{byte:02x}");
                }
                Some(text)
            });
            plain(Arc::new(digits.collect::<StringArray>()))
        }
        (stored, target) if item_of(stored).is_some() => {
            let wanted = DataType::LargeList(item_of(stored).expect("it was looked at").clone());
            let lists = exact(array, &wanted)?.array;
            let item = match target {
                FieldType::Array(item) => item,
                // An array of a type that only the server knows.
                other => other,
            };
            as_array_text(lists.as_list::<i64>(), item)
        }
        (DataType::Duration(_) | DataType::Interval(_), _) => plain(Arc::new(intervals(array)?)),
        // The zone is how a moment is shown; its name needs no table of zones so. What the server would
        // round is rounded here, and counted.
        (DataType::Timestamp(_, zone), FieldType::Timestamp | FieldType::TimestampTz { .. }) => {
            let zone = zone.as_ref().map(|_| "+00:00".into());
            let cast = exact(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
            Ok(Cast { array: exact(&cast.array, &DataType::Utf8)?.array, ..cast })
        }
        (DataType::Time64(_), FieldType::Time) => {
            let cast = exact(array, &DataType::Time64(TimeUnit::Microsecond))?;
            Ok(Cast { array: exact(&cast.array, &DataType::Utf8)?.array, ..cast })
        }
        (DataType::Timestamp(unit, Some(_)), _) => {
            let in_utc = DataType::Timestamp(*unit, Some("+00:00".into()));
            exact(&exact(array, &in_utc)?.array, &DataType::Utf8)
        }
        _ => exact(array, &DataType::Utf8),
    }
}

/// Lists as `array_in` reads them: each item in quotes, unless it is a list of its own. Lists of lists are
/// one array of several dimensions, whose parts must all be of one length.
fn as_array_text(lists: &LargeListArray, target: &FieldType) -> Result<Cast, Unfit> {
    let is_nested = item_of(lists.values().data_type()).is_some();
    if is_nested {
        check_rectangular(lists)?;
    }
    let Cast { array: items, rounded } = as_text(lists.values(), target)?;
    let items = items.as_string::<i32>();
    let text = |row: usize| {
        let mut text = String::from("{");
        for at in lists.value_offsets()[row]..lists.value_offsets()[row + 1] {
            let at = at as usize;
            if text.len() > 1 {
                text.push(',');
            }
            match (items.is_null(at), is_nested) {
                (true, _) => text.push_str("NULL"),
                (false, true) => text.push_str(items.value(at)),
                (false, false) => {
                    let value = items.value(at).replace('\\', "\\\\").replace('"', "\\\"");
                    let _ = write!(text, "\"{value}\"");
                }
            }
        }
        text.push('}');
        text
    };
    let texts = (0..lists.len()).map(|row| lists.is_valid(row).then(|| text(row)));
    Ok(Cast { array: Arc::new(texts.collect::<StringArray>()), rounded })
}

/// Refuses lists of lists that no array of the server's can be: an array has the same number of items in
/// each of its parts, at least one, and no part of it is NULL.
fn check_rectangular(lists: &LargeListArray) -> Result<(), Unfit> {
    for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
        let mut shape = Vec::new();
        if let Err(why) = shape_of(&lists.value(row), 0, &mut shape) {
            return Err(format!("{why}; such lists can be loaded into jsonb"));
        }
    }
    Ok(())
}

/// Notes, by depth, how many items a list has, and refuses where that differs.
fn shape_of(list: &ArrayRef, depth: usize, shape: &mut Vec<usize>) -> Result<(), &'static str> {
    match shape.get(depth) {
        None => shape.push(list.len()),
        Some(length) if *length == list.len() => {}
        Some(_) => return Err("lists of different lengths can't form an array"),
    }
    let Some(item) = item_of(list.data_type()) else { return Ok(()) };
    if list.is_empty() && depth == 0 {
        return Ok(());
    }
    let wanted = DataType::LargeList(item.clone());
    let lists = cast_with_options(list, &wanted, &CastOptions::default())
        .map_err(|_| "it is not a list")?;
    let lists = lists.as_list::<i64>();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            return Err("an array can't contain a NULL list");
        }
        if lists.value_length(row) == 0 {
            return Err("an array can't contain an empty list");
        }
        shape_of(&lists.value(row), depth + 1, shape)?;
    }
    Ok(())
}

/// Spans of time as ISO 8601 has them, which the server reads as intervals.
fn intervals(array: &ArrayRef) -> Result<StringArray, Unfit> {
    let text = |row: usize| -> Option<Result<String, Unfit>> {
        if array.is_null(row) {
            return None;
        }
        let (months, days, nanoseconds) = match array.data_type() {
            DataType::Duration(unit) => {
                let nanoseconds = i128::from(match unit {
                    TimeUnit::Second => array.as_primitive::<DurationSecondType>().value(row),
                    TimeUnit::Millisecond => {
                        array.as_primitive::<DurationMillisecondType>().value(row)
                    }
                    TimeUnit::Microsecond => {
                        array.as_primitive::<DurationMicrosecondType>().value(row)
                    }
                    TimeUnit::Nanosecond => {
                        array.as_primitive::<DurationNanosecondType>().value(row)
                    }
                }) * nanoseconds_of(*unit);
                (0, 0, nanoseconds)
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                (array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0)
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                let found = array.as_primitive::<IntervalDayTimeType>().value(row);
                (0, found.days, i128::from(found.milliseconds) * 1_000_000)
            }
            _ => {
                let found = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                (found.months, found.days, i128::from(found.nanoseconds))
            }
        };
        if nanoseconds % 1000 != 0 {
            let shown = shown(array, row, SHOWN_BYTES);
            return Some(Err(format!("{shown} has nanoseconds, which interval can't store")));
        }
        let sign = if nanoseconds < 0 { "-" } else { "" };
        let (seconds, rest) =
            (nanoseconds.abs() / 1_000_000_000, nanoseconds.abs() % 1_000_000_000);
        Some(Ok(format!("P{months}M{days}DT{sign}{seconds}.{:06}S", rest / 1000)))
    };
    (0..array.len()).map(|row| text(row).transpose()).collect()
}

fn nanoseconds_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, FixedSizeBinaryArray};

    use super::*;

    #[test]
    fn bytes_are_written_as_digits() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"a\\\xff"[..]), None]));
        let text = as_text(&bytes, &FieldType::Bytea).expect("text").array;
        assert_eq!(*text, StringArray::from(vec![Some("\\x615cff"), None]));
        let bytes: ArrayRef =
            Arc::new(FixedSizeBinaryArray::new(16, vec![0x1f_u8; 16].into(), None));
        let text = as_text(&bytes, &FieldType::Uuid).expect("text").array;
        assert_eq!(*text, StringArray::from(vec!["1f".repeat(16)]));
        // What stands behind a text may be stored as mere bytes.
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"abc"[..]]));
        let text = as_text(&bytes, &FieldType::text()).expect("text").array;
        assert_eq!(*text, StringArray::from(vec!["abc"]));
    }
}
