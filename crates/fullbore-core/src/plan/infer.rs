//! Proposes a schema: for each column the narrowest type that all sampled values have, wide enough
//! for values of the same kind that come later.

use crate::parse::dialect::Dialect;
use crate::parse::reference::{Record, records};
use crate::parse::types::FieldType;
use crate::parse::{numbers, temporal, text};

/// A column and the type it seems to have.
#[derive(Debug, Clone)]
pub struct InferredColumn {
    pub name: String,
    pub field_type: FieldType,
    pub is_nullable: bool,
    /// Why, in a few words.
    pub because: String,
}

/// A kind of value and how it is recognised. Order matters: the first that fits all values wins.
type Kind = (FieldType, &'static str, fn(&[u8]) -> bool);

const KINDS: [Kind; 9] = [
    (FieldType::Boolean, "words for true and false", |v| {
        matches!(v, b"t" | b"f" | b"true" | b"false" | b"TRUE" | b"FALSE" | b"True" | b"False")
    }),
    (FieldType::Int64, "whole numbers", |v| !has_leading_zero(v) && is_int64(v)),
    (FieldType::NumericText { limits: None }, "decimal numbers", |v| {
        !has_leading_zero(v) && numbers::is_plain_decimal(v, None)
    }),
    (FieldType::Float64, "numbers with exponents", |v| {
        !has_leading_zero(v) && numbers::float64(v).is_some()
    }),
    (FieldType::Date, "dates", |v| temporal::date(v).is_some()),
    (FieldType::Timestamp, "dates with a time", |v| temporal::timestamp(v).is_some()),
    (FieldType::TimestampTz { zoneless_is_utc: false }, "dates with time and zone", |v| {
        temporal::timestamp_tz(v, true).is_some()
    }),
    (FieldType::Time, "times", |v| temporal::time(v).is_some()),
    (FieldType::Uuid, "UUIDs", |v| text::uuid(v).is_some()),
];

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|v| !v.starts_with('+') && v.parse::<i64>().is_ok())
}

/// `00123` is a code, not a number: it would lose its zeros.
fn has_leading_zero(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit()
}

/// Infers the columns from samples of whole records; the flag says that one begins with a header.
pub fn infer(
    names: &[String],
    samples: &[(&[u8], bool)],
    dialect: &Dialect,
) -> Vec<InferredColumn> {
    let mut fits = vec![[true; KINDS.len()]; names.len()];
    let mut values = vec![0u64; names.len()];
    let mut nulls = vec![false; names.len()];
    for (sample, has_header) in samples {
        let skipped = usize::from(*has_header);
        for record in records(sample, dialect, names.len()).into_iter().skip(skipped) {
            // A record that is none, or was cut at the sample's end, says nothing.
            let Record::Fields(fields) = record else { continue };
            for (column, value) in fields.into_iter().enumerate() {
                let Some(value) = value else {
                    nulls[column] = true;
                    continue;
                };
                values[column] += 1;
                for (kind, (_, _, is)) in KINDS.iter().enumerate() {
                    fits[column][kind] = fits[column][kind] && is(&value);
                }
            }
        }
    }
    names
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let kind = KINDS.iter().zip(fits[column]).find(|(_, fits)| *fits).map(|(kind, _)| kind);
            let (field_type, what) = match kind {
                Some((field_type, what, _)) if values[column] > 0 => (field_type.clone(), *what),
                Some(_) => (FieldType::text(), "text: no value was seen"),
                None => (FieldType::text(), "text"),
            };
            InferredColumn {
                name: name.clone(),
                field_type,
                is_nullable: nulls[column] || values[column] == 0,
                because: format!("{what}, from {} sampled values", values[column]),
            }
        })
        .collect()
}
