//! Which stored type goes into which column.

use arrow_cast::can_cast_types;
use arrow_schema::{DataType, TimeUnit};
use fullbore_parse::types::FieldType;

use crate::error::{Error, Result};

/// What a stored column is loaded as, where the target is made from the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAs {
    pub field_type: FieldType,
    /// The SQL type, where it is none of those that fields are parsed into.
    pub sql: Option<&'static str>,
}

/// What a stored column is loaded as, where the target is made from the file: `jsonb` for what is nested,
/// except lists of single values.
pub fn stored_as(name: &str, stored: &DataType) -> Result<StoredAs> {
    let sql = matches!(stored, DataType::Duration(_) | DataType::Interval(_)).then_some("interval");
    let field_type = match sql {
        Some(_) => Some(FieldType::text()),
        None => field_type(stored),
    };
    let field_type = field_type.ok_or_else(|| {
        Error::usage_with_hint(
            format!("column {name:?} is {}, which has no SQL type", words(stored)),
            "load the other columns with --columns, a dash for this one",
        )
    })?;
    Ok(StoredAs { field_type, sql })
}

pub fn field_type(stored: &DataType) -> Option<FieldType> {
    Some(match stored {
        // All its values are NULL.
        DataType::Null => FieldType::text(),
        DataType::Boolean => FieldType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => FieldType::Int16,
        DataType::Int32 | DataType::UInt16 => FieldType::Int32,
        DataType::Int64 | DataType::UInt32 => FieldType::Int64,
        DataType::UInt64 => FieldType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => FieldType::Float32,
        DataType::Float64 => FieldType::Float64,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 && *scale as u8 <= *precision =>
        {
            FieldType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        stored if stored.is_decimal() => FieldType::NumericText { limits: None },
        DataType::Date32 | DataType::Date64 => FieldType::Date,
        DataType::Time32(_) | DataType::Time64(_) => FieldType::Time,
        DataType::Timestamp(_, None) => FieldType::Timestamp,
        DataType::Timestamp(_, Some(_)) => FieldType::TimestampTz { zoneless_is_utc: true },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => FieldType::text(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => FieldType::Bytea,
        DataType::FixedSizeBinary(16) => FieldType::Uuid,
        DataType::FixedSizeBinary(_) => FieldType::Bytea,
        DataType::Dictionary(_, value) => field_type(value)?,
        stored if is_list(stored) => {
            let item = item(stored)?;
            match is_list(item) || is_object(item) {
                // Only arrays whose parts are of one length exist, and none is looked at yet.
                true => FieldType::Jsonb,
                false => FieldType::Array(Box::new(field_type(item)?)),
            }
        }
        stored if is_object(stored) => FieldType::Jsonb,
        _ => return None,
    })
}

pub fn item(stored: &DataType) -> Option<&DataType> {
    match stored {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

pub fn is_list(stored: &DataType) -> bool {
    item(stored).is_some()
}

pub fn is_object(stored: &DataType) -> bool {
    matches!(stored, DataType::Struct(_) | DataType::Map(..))
}

/// Whether values may become the target's; which of them do is looked at one by one.
pub fn can_be(stored: &DataType, wanted: &FieldType) -> bool {
    can_cast_types(stored, &wanted.arrow()) || can_cast_types(stored, &DataType::Utf8)
}

/// Whether values stored so have digits that a column of moments or times does not keep.
pub fn is_finer(stored: &DataType, target: &FieldType) -> bool {
    use FieldType::{Array, Time, Timestamp, TimestampTz};
    match (stored, target) {
        (DataType::Dictionary(_, value), _) => is_finer(value, target),
        (DataType::Timestamp(TimeUnit::Nanosecond, _), Timestamp | TimestampTz { .. })
        | (DataType::Time64(TimeUnit::Nanosecond), Time) => true,
        (stored, Array(target)) => item(stored).is_some_and(|item| is_finer(item, target)),
        _ => false,
    }
}

/// A stored type as Parquet's own tools write it.
pub fn words(stored: &DataType) -> String {
    match stored {
        DataType::Struct(fields) => {
            let members: Vec<String> = fields
                .iter()
                .map(|field| format!("{}: {}", field.name(), words(field.data_type())))
                .collect();
            format!("struct<{}>", members.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("map<{}, {}>", words(fields[0].data_type()), words(fields[1].data_type()))
            }
            _ => "map".into(),
        },
        stored if is_list(stored) => format!("list<{}>", item(stored).map_or("?".into(), words)),
        DataType::Dictionary(_, value) => words(value),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::FixedSizeBinary(bytes) => format!("binary({bytes})"),
        DataType::Boolean => "bool".into(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("decimal({precision}, {scale})"),
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Timestamp(unit, None) => format!("timestamp[{unit}]"),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{unit}, {zone}]"),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time[{unit}]"),
        DataType::Duration(unit) => format!("duration[{unit}]"),
        other => other.to_string().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(item, true)))
    }

    #[test]
    fn what_is_nested_is_named_and_made_jsonb() {
        let object = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
        let lists = list(list(DataType::Int32));
        let span = DataType::Duration(TimeUnit::Microsecond);
        let made = |stored: &DataType| stored_as("p", stored).expect("made");
        assert_eq!(made(&object).field_type, FieldType::Jsonb);
        assert_eq!(made(&lists).field_type, FieldType::Jsonb);
        assert_eq!(made(&span).sql, Some("interval"));
        assert_eq!(words(&list(object)), "list<struct<x: int64>>");
    }
}
