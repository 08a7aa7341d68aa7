//! Which stored values are for the server to read, as text, rather than cast.

use arrow_schema::DataType;
use fullbore_parse::types::FieldType;

use super::{is_text, item_of};

/// Why values of a stored type are for the server to read, as text, where they are.
pub fn judged_by_server(stored: &DataType, target: &FieldType) -> Option<&'static str> {
    match (stored, target) {
        (DataType::Null, _) | (_, FieldType::Json | FieldType::Jsonb) => None,
        (DataType::Dictionary(_, value), _) => judged_by_server(value, target),
        (stored, FieldType::Array(target)) if item_of(stored).is_some() => {
            let item = item_of(stored).expect("it was looked at");
            match item_of(item.data_type()) {
                Some(_) => Some("stored as lists of lists in the file"),
                None => judged_by_server(item.data_type(), target),
            }
        }
        // As decimals these are rounded and bounded by rules of the server's.
        (stored, FieldType::Decimal { .. }) if stored.is_floating() => {
            Some("stored as binary fractions in the file")
        }
        (stored, FieldType::Float32 | FieldType::Float64) if stored.is_decimal() => {
            Some("stored as decimals in the file")
        }
        // Its digits are taken as they stand: they must be digits.
        (stored, FieldType::NumericText { limits })
            if !(stored.is_integer() || stored.is_decimal() && limits.is_none()) =>
        {
            Some("not stored as a number of exact digits in the file")
        }
        (stored, target) if is_text(stored) && !is_text(&target.arrow()) => {
            Some("stored as text in the file")
        }
        // What such a moment is, the session's TimeZone says.
        (
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64,
            FieldType::TimestampTz { zoneless_is_utc: false },
        ) => Some("stored without a time zone in the file"),
        _ => None,
    }
}

/// Whether stored values are of another kind than a column's: what a number is as a date, or a moment as a number,
/// arrow takes from how it counts them.
pub fn is_of_another_kind(stored: &DataType, target: &FieldType) -> bool {
    match (stored, target) {
        (DataType::Null, _) | (_, FieldType::Json | FieldType::Jsonb) => false,
        (DataType::Dictionary(_, value), _) => is_of_another_kind(value, target),
        (stored, FieldType::Array(target)) => {
            item_of(stored).is_some_and(|item| is_of_another_kind(item.data_type(), target))
        }
        (stored, target) => !is_same_kind(stored, &target.arrow()),
    }
}

/// What values are, however many bits they have.
#[derive(PartialEq)]
enum Kind {
    Number,
    Moment,
    Time,
    Bytes,
    Other,
}

fn kind(stored: &DataType) -> Kind {
    match stored {
        DataType::Boolean => Kind::Number,
        kind if kind.is_numeric() => Kind::Number,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _) => Kind::Moment,
        DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Kind::Bytes,
        _ => Kind::Other,
    }
}

/// Whether a cast keeps what the values mean; as text all do.
fn is_same_kind(stored: &DataType, wanted: &DataType) -> bool {
    is_text(wanted) || kind(stored) == kind(wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn the_server_reads_what_only_it_knows() {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        assert!(judged_by_server(&text, &FieldType::Date).is_some());
        assert!(judged_by_server(&text, &FieldType::text()).is_none());
        let zoneless = DataType::Timestamp(TimeUnit::Microsecond, None);
        let here = |zoneless_is_utc| FieldType::TimestampTz { zoneless_is_utc };
        assert!(judged_by_server(&zoneless, &here(false)).is_some());
        assert!(judged_by_server(&zoneless, &here(true)).is_none());
        assert!(!is_of_another_kind(&DataType::Date32, &FieldType::Timestamp));
        assert!(!is_of_another_kind(&DataType::Int32, &FieldType::text()));
        for (stored, target) in [
            (DataType::Int32, FieldType::Date),
            (DataType::Int64, here(true)),
            (DataType::Int64, FieldType::Time),
            (DataType::Int64, FieldType::Bytea),
            (zoneless, FieldType::Int64),
            (DataType::Date32, FieldType::Decimal { precision: 9, scale: 0 }),
        ] {
            assert!(is_of_another_kind(&stored, &target), "{stored} as {target:?}");
            let item = Arc::new(arrow_schema::Field::new_list_field(stored, true));
            let target = FieldType::Array(Box::new(target));
            assert!(is_of_another_kind(&DataType::List(item), &target));
        }
    }
}
