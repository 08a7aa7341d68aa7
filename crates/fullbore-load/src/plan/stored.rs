//! Whether a column of a Parquet file can become a column of the target.

use arrow_schema::DataType;
use fullbore_parse::types::FieldType;
use fullbore_read::columnar::types::{can_be, field_type, is_list, is_object, item, words};

use crate::TargetColumn;
use crate::{Error, Result};

/// Refuses a column of a file for a column of the target that can hold nothing of its kind.
pub fn check_target(name: &str, stored: &DataType, target: &TargetColumn) -> Result<()> {
    let stored = match stored {
        DataType::Dictionary(_, value) => value,
        stored => stored,
    };
    let is_json = matches!(target.field_type, Some(FieldType::Json | FieldType::Jsonb));
    if is_json || *stored == DataType::Null {
        return Ok(());
    }
    let innermost = std::iter::successors(Some(stored), |stored| item(stored)).last();
    let refused = |wanted: &str| {
        let (target_name, type_name) = (&target.name, &target.type_name);
        Err(Error::usage_with_hint(
            format!(
                "column {name:?} is {}, which can't be stored in column {target_name:?} \
                 ({type_name})",
                words(stored)
            ),
            format!(
                "change that column's type to {wanted}, or skip the field with a dash in --columns"
            ),
        ))
    };
    if innermost.is_some_and(is_object) {
        return refused("jsonb");
    }
    // A domain or a type of somebody else's: its name says nothing.
    let is_array = matches!(target.field_type, Some(FieldType::Array(_)))
        || target.field_type.is_none() && target.type_name.ends_with("[]");
    if is_list(stored) != is_array && (is_list(stored) || is_array) && target.field_type.is_some() {
        return match is_list(stored) {
            true => refused("an array or jsonb"),
            // Text may be an array in the server's own notation.
            false if field_type(stored) == Some(FieldType::text()) => Ok(()),
            false => refused("a type of single values"),
        };
    }
    if matches!(stored, DataType::Duration(_) | DataType::Interval(_)) {
        return match target.type_name.starts_with("interval") && !is_array {
            true => Ok(()),
            false => refused("interval"),
        };
    }
    match &target.field_type {
        Some(wanted) if !is_list(stored) && !can_be(stored, wanted) => {
            let sql = field_type(stored).map_or("text", |_| "a type for such values");
            refused(sql)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, TimeUnit};

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(item, true)))
    }

    #[test]
    fn what_is_nested_is_refused_by_its_column() {
        let object = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
        let target = |type_name: &str, field_type| TargetColumn {
            name: "p".into(),
            type_name: type_name.into(),
            field_type,
            is_nullable: true,
            is_generated: false,
            fills_itself: false,
            keeps_rows_text: false,
        };
        let integers = FieldType::Array(Box::new(FieldType::Int32));
        let text = target("text", Some(FieldType::text()));
        let refused = check_target("p", &object, &text).expect_err("no such value");
        assert_eq!(
            refused.to_string(),
            "column \"p\" is struct<x: int64>, which can't be stored in column \"p\" (text)"
        );
        let jsonb = target("jsonb", Some(FieldType::Jsonb));
        let array = target("integer[]", Some(integers));
        let interval = target("interval", None);
        let lists = list(list(DataType::Int32));
        let span = DataType::Duration(TimeUnit::Microsecond);
        for (stored, target, fits) in [
            (&object, &jsonb, true),
            (&list(object.clone()), &jsonb, true),
            (&list(object.clone()), &array, false),
            (&lists, &array, true),
            (&lists, &text, false),
            (&DataType::Int32, &array, false),
            (&span, &interval, true),
            (&span, &text, false),
            (&DataType::Null, &array, true),
        ] {
            let found = check_target("p", stored, target);
            assert_eq!(found.is_ok(), fits, "{} into {}", words(stored), target.type_name);
        }
    }
}
