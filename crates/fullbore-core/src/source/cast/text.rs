//! Stored values as text, for the server to read.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, LargeListArray, StringArray, cast::AsArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, FieldRef};

use super::exact;
use crate::parse::types::FieldType;

/// The array as text that the server reads as a value of the target's type.
pub fn as_text(array: &ArrayRef, target: &FieldType) -> Result<ArrayRef, (Option<usize>, String)> {
    match (array.data_type(), target) {
        (
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
            FieldType::Bytea | FieldType::Uuid,
        )
        | (DataType::FixedSizeBinary(_), _) => {
            let prefix = if *target == FieldType::Uuid { "" } else { "\\x" };
            let bytes = cast_with_options(array, &DataType::LargeBinary, &CastOptions::default())
                .map_err(|error| (None, format!("does not fit text: {error}")))?;
            let digits = bytes.as_binary::<i64>().iter().map(|value| {
                let mut text = String::from(prefix);
                for byte in value? {
                    let _ = write!(text, "{byte:02x}");
                }
                Some(text)
            });
            Ok(Arc::new(digits.collect::<StringArray>()))
        }
        (DataType::List(_) | DataType::LargeList(_), FieldType::Array(item)) => {
            let lists = exact(array, &DataType::LargeList(item_of(array)))?;
            as_array_text(lists.as_list::<i64>(), item)
        }
        // The zone is how a moment is shown; its name needs no table of zones so.
        (DataType::Timestamp(unit, Some(_)), _) => {
            let in_utc = DataType::Timestamp(*unit, Some("+00:00".into()));
            exact(&exact(array, &in_utc)?, &DataType::Utf8)
        }
        _ => exact(array, &DataType::Utf8),
    }
}

/// The field of a list's items.
fn item_of(list: &ArrayRef) -> FieldRef {
    match list.data_type() {
        DataType::List(item) | DataType::LargeList(item) => item.clone(),
        other => unreachable!("{other} is no list"),
    }
}

/// Lists as `array_in` reads them: each item in quotes, unless it is a list of its own.
fn as_array_text(
    lists: &LargeListArray,
    target: &FieldType,
) -> Result<ArrayRef, (Option<usize>, String)> {
    let items = as_text(lists.values(), target).map_err(|(_, message)| (None, message))?;
    let items = items.as_string::<i32>();
    let is_nested = matches!(target, FieldType::Array(_));
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
    Ok(Arc::new(texts.collect::<StringArray>()))
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, FixedSizeBinaryArray};

    use super::*;

    #[test]
    fn bytes_are_written_as_digits() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"a\\\xff"[..]), None]));
        let text = as_text(&bytes, &FieldType::Bytea).expect("text");
        assert_eq!(*text, StringArray::from(vec![Some("\\x615cff"), None]));
        let bytes: ArrayRef =
            Arc::new(FixedSizeBinaryArray::new(16, vec![0x1f_u8; 16].into(), None));
        let text = as_text(&bytes, &FieldType::Uuid).expect("text");
        assert_eq!(*text, StringArray::from(vec!["1f".repeat(16)]));
        // What stands behind a text may be stored as mere bytes.
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"abc"[..]]));
        let text = as_text(&bytes, &FieldType::text()).expect("text");
        assert_eq!(*text, StringArray::from(vec!["abc"]));
    }
}
