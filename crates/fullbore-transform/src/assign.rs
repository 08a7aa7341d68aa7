//! What an expression gives as the value of its column, as SQL assigns it: numbers are rounded, texts are read by
//! the rules of files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float64Array, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use fullbore_parse::sql_types::type_name;
use fullbore_parse::types::FieldType;
use fullbore_read::cast;

use crate::words::Words;

/// Why values of a type can't become those of a column, where none of them can.
pub fn refused(given: &DataType, wanted: &FieldType) -> Option<&'static str> {
    use FieldType::{
        Boolean, Bytea, Date, Decimal, Float32, Float64, Int16, Int32, Int64, Json, Jsonb,
        NumericText, Text, Time, Timestamp, TimestampTz,
    };
    let is_number = |wanted: &FieldType| {
        matches!(
            wanted,
            Int16 | Int32 | Int64 | Float32 | Float64 | Decimal { .. } | NumericText { .. }
        )
    };
    let fits = match given {
        // What is text is read as the text of a file is.
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        _ if matches!(wanted, Text { .. } | Json | Jsonb) => true,
        DataType::Boolean => *wanted == Boolean,
        given if given.is_numeric() => is_number(wanted),
        DataType::Date32 | DataType::Date64 => matches!(wanted, Date | Timestamp),
        DataType::Time32(_) | DataType::Time64(_) => *wanted == Time,
        DataType::Timestamp(_, None) => {
            if let TimestampTz { zoneless_is_utc } = wanted {
                let why = "it has no time zone: add AT TIME ZONE 'UTC', or use to_timestamptz()";
                return (!zoneless_is_utc).then_some(why);
            }
            matches!(wanted, Timestamp | Date)
        }
        DataType::Timestamp(_, Some(_)) => matches!(wanted, TimestampTz { .. }),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => *wanted == Bytea,
        _ => false,
    };
    (!fits).then_some("cast it to the column's type")
}

/// The values of a column, as it is sent.
///
/// # Errors
/// Some value is none of the column's.
pub fn assigned(values: &ArrayRef, wanted: &FieldType) -> Result<ArrayRef, Words> {
    let exact = |values: &ArrayRef| cast::typed(values, wanted).map(|cast| cast.array);
    let given = values.data_type();
    match wanted {
        FieldType::Text { characters_max } => within(cast_text(values, wanted)?, *characters_max),
        _ if is_text(given) => read(values, wanted),
        FieldType::Int16 | FieldType::Int32 | FieldType::Int64 => exact(&whole(values)?),
        FieldType::Decimal { .. } if given.is_floating() => {
            exact(&plain_cast(&digits(values)?, &wanted.arrow())?)
        }
        FieldType::Decimal { .. } => exact(values),
        FieldType::NumericText { .. } if given.is_floating() => read(&digits(values)?, wanted),
        FieldType::NumericText { .. } => read(&cast_text(values, wanted)?, wanted),
        FieldType::Float32 | FieldType::Float64 if !given.is_floating() => {
            let wide = plain_cast(values, &DataType::Float64)?;
            exact(&wide)
        }
        FieldType::Date => plain_cast(values, &DataType::Date32),
        _ => exact(values),
    }
}

/// The same as text that the server reads.
pub fn as_text(values: &ArrayRef, wanted: Option<&FieldType>) -> Result<ArrayRef, Words> {
    let Some(wanted) = wanted else { return cast_text(values, &FieldType::text()) };
    let typed = assigned(values, wanted)?;
    cast::as_text(&typed, wanted).map(|cast| cast.array)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn plain_cast(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Words> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, wanted, &options).map_err(|error| error.to_string())
}

/// As the server writes such values.
fn cast_text(values: &ArrayRef, wanted: &FieldType) -> Result<ArrayRef, Words> {
    match values.data_type() {
        // The server writes 1 and 1e+20 where arrow has 1.0 and 100000000000000000000.0.
        DataType::Float32 | DataType::Float64 => {
            let shown = |value: f64, short: String| match value {
                value if value.is_nan() => "NaN".to_owned(),
                value if value.is_infinite() => {
                    (if value > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
                }
                _ => short,
            };
            let texts: StringArray = match values.data_type() {
                DataType::Float32 => {
                    let values = values.as_primitive::<Float32Type>();
                    values.iter().map(|v| v.map(|v| shown(v.into(), format!("{v}")))).collect()
                }
                _ => {
                    let values = values.as_primitive::<Float64Type>();
                    values.iter().map(|v| v.map(|v| shown(v, format!("{v}")))).collect()
                }
            };
            Ok(Arc::new(texts))
        }
        DataType::Timestamp(..) => {
            let texts = cast::as_text(values, wanted)?.array;
            let texts = texts.as_string::<i32>().iter().map(|text| {
                text.map(|text| {
                    text.replacen('T', " ", 1).replace("+00:00", "+00").replace('Z', "+00")
                })
            });
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        _ => cast::as_text(values, wanted).map(|cast| cast.array),
    }
}

/// Refuses texts that are longer than the column is; spaces at the end are cut, as SQL has it.
fn within(texts: ArrayRef, characters_max: Option<u32>) -> Result<ArrayRef, Words> {
    let texts = plain_cast(&texts, &DataType::Utf8)?;
    match characters_max {
        Some(most) => cast::within(&texts, most as usize),
        None => Ok(texts),
    }
}

/// Numbers rounded to whole ones, as the server rounds: binary fractions to even ones, decimals away from zero.
fn whole(values: &ArrayRef) -> Result<ArrayRef, Words> {
    match values.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let wide = plain_cast(values, &DataType::Float64)?;
            let rounded: Float64Array =
                wide.as_primitive::<Float64Type>().unary(|value| value.round_ties_even() + 0.0);
            Ok(Arc::new(rounded))
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale > 0 =>
        {
            plain_cast(values, &DataType::Decimal128((*precision).max(1), 0))
        }
        _ => Ok(Arc::clone(values)),
    }
}

/// Binary fractions as the server makes decimals of them: by 15 digits, of a `real` by 6.
fn digits(values: &ArrayRef) -> Result<ArrayRef, Words> {
    let wide = plain_cast(values, &DataType::Float64)?;
    let count = if *values.data_type() == DataType::Float32 { 6 } else { 15 };
    let texts = wide.as_primitive::<Float64Type>().iter().map(|value| {
        let Some(value) = value else { return Ok(None) };
        if !value.is_finite() {
            return Err(format!("{value} is not a decimal"));
        }
        // Rounded to so many digits, then written out.
        let rounded: f64 = format!("{value:.*e}", count - 1).parse().unwrap_or(value);
        Ok(Some(format!("{rounded}")))
    });
    Ok(Arc::new(texts.collect::<Result<StringArray, Words>>()?))
}

/// Texts read as fields of a file are.
fn read(texts: &ArrayRef, wanted: &FieldType) -> Result<ArrayRef, Words> {
    let texts = plain_cast(texts, &DataType::Utf8)?;
    let fields = cast::as_fields(texts.as_string::<i32>().iter(), wanted);
    fields.ok_or_else(|| format!("it is not a valid {}", type_words(wanted)))
}

fn type_words(wanted: &FieldType) -> String {
    use FieldType::{Array, Bytea, Enum, Json, Jsonb, NumericText, Text};
    match wanted {
        NumericText { .. } => "numeric".into(),
        Enum { .. } => "label of the column's type".into(),
        Text { .. } | Bytea | Json | Jsonb | Array(_) => "value of the column's type".into(),
        _ => type_name(wanted),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal128Array, Int64Array};

    use super::*;

    fn floats(values: &[f64]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    fn shown(array: &ArrayRef) -> Vec<String> {
        (0..array.len()).map(|row| cast::shown(array, row, 100)).collect()
    }

    #[test]
    fn numbers_are_rounded_as_the_server_rounds_them() {
        let whole = |values: ArrayRef| shown(&assigned(&values, &FieldType::Int32).unwrap());
        assert_eq!(whole(floats(&[0.5, 1.5, 2.5, -0.5, -1.5])), ["0", "2", "2", "0", "-2"]);
        let decimals = Decimal128Array::from(vec![50, 150, 250, -50, -149]);
        let decimals = Arc::new(decimals.with_precision_and_scale(10, 2).unwrap());
        assert_eq!(whole(decimals.clone()), ["1", "2", "3", "-1", "-1"]);
        let cents = FieldType::Decimal { precision: 10, scale: 1 };
        assert_eq!(shown(&assigned(&(decimals as ArrayRef), &cents).unwrap())[4], "-1.5");
        let cents = FieldType::Decimal { precision: 10, scale: 2 };
        let found = assigned(&floats(&[0.285, 1e-9, 12345.678]), &cents).unwrap();
        assert_eq!(shown(&found), ["0.29", "0.00", "12345.68"]);
        let long: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
        assert!(assigned(&long, &FieldType::Int32).is_err());
    }

    #[test]
    fn texts_are_read_and_measured() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("12.5"), None]));
        let cents = FieldType::Decimal { precision: 10, scale: 2 };
        assert_eq!(shown(&assigned(&texts, &cents).unwrap())[0], "12.50");
        assert!(assigned(&texts, &FieldType::Date).unwrap_err().contains("valid date"));
        let text = |most| FieldType::Text { characters_max: Some(most) };
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["äö  ", "x"]));
        assert_eq!(shown(&assigned(&texts, &text(3)).unwrap()), ["äö ", "x"]);
        assert!(assigned(&texts, &text(1)).unwrap_err().contains("too long"));
        let found = assigned(&floats(&[1.0, 0.1, f64::NAN]), &FieldType::text()).unwrap();
        assert_eq!(shown(&found), ["1", "0.1", "NaN"]);
    }
}
