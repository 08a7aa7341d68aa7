//! Stored values as JSON: what the server's own `to_json` makes of values of the same kind.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

use super::Unfit;

/// Each value as a text of JSON.
pub fn texts(array: &ArrayRef) -> Result<ArrayRef, Unfit> {
    let values = Values::of(array.as_ref())?;
    let mut out = Vec::new();
    let mut texts = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        if values.is_null(row) {
            texts.push(None);
            continue;
        }
        out.clear();
        values.write(row, &mut out);
        texts.push(Some(String::from_utf8(out.clone()).expect("JSON is text")));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

/// Values by the way they are written.
enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    /// Numbers, as their digits.
    Digits(ArrayFormatter<'a>, Option<NullBuffer>),
    /// By 64 bits; those of fewer are the same numbers, written as short as they can be.
    Float64(&'a [f64], Option<NullBuffer>),
    Float32(Cow<'a, [f32]>, Option<NullBuffer>),
    Text(&'a StringArray),
    Bytes(&'a dyn Array, ArrayFormatter<'a>),
    /// All other values, as text.
    Shown(ArrayFormatter<'a>, Option<NullBuffer>),
    Struct(Vec<(String, Values<'a>)>, Option<NullBuffer>),
    /// The ends of each list among the items.
    List(Vec<usize>, Box<Values<'a>>, Option<NullBuffer>),
    Map(Vec<usize>, Box<Values<'a>>, Box<Values<'a>>, Option<NullBuffer>),
}

const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_timestamp_tz_format(None);

impl<'a> Values<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, Unfit> {
        let nulls = array.nulls().cloned();
        let formatter =
            || ArrayFormatter::try_new(array, &OPTIONS).map_err(|error| error.to_string());
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>().values(), nulls),
            DataType::Float32 => {
                Self::Float32(Cow::Borrowed(array.as_primitive::<Float32Type>().values()), nulls)
            }
            DataType::Float16 => {
                let values = array.as_primitive::<Float16Type>().values();
                Self::Float32(values.iter().map(|value| value.to_f32()).collect(), nulls)
            }
            kind if kind.is_numeric() => Self::Digits(formatter()?, nulls),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
                Self::Bytes(array, formatter()?)
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let columns = fields
                    .iter()
                    .zip(columns)
                    .map(|(field, column)| Ok((field.name().clone(), Self::of(column.as_ref())?)));
                Self::Struct(columns.collect::<Result<_, Unfit>>()?, nulls)
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let ends = list.value_offsets().iter().map(|end| *end as usize).collect();
                Self::List(ends, Box::new(Self::of(list.values().as_ref())?), nulls)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let ends = list.value_offsets().iter().map(|end| *end as usize).collect();
                Self::List(ends, Box::new(Self::of(list.values().as_ref())?), nulls)
            }
            DataType::FixedSizeList(_, each) => {
                let list = array.as_fixed_size_list();
                let ends = (0..=array.len()).map(|row| row * *each as usize).collect();
                Self::List(ends, Box::new(Self::of(list.values().as_ref())?), nulls)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let ends = map.value_offsets().iter().map(|end| *end as usize).collect();
                let (keys, values) = (Self::of(map.keys())?, Self::of(map.values())?);
                Self::Map(ends, Box::new(keys), Box::new(values), nulls)
            }
            _ => Self::Shown(formatter()?, nulls),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        let nulls = match self {
            Self::Null => return true,
            Self::Boolean(values) => values.nulls(),
            Self::Text(values) => values.nulls(),
            Self::Bytes(values, _) => values.nulls(),
            Self::Digits(_, nulls)
            | Self::Float64(_, nulls)
            | Self::Float32(_, nulls)
            | Self::Shown(_, nulls)
            | Self::Struct(_, nulls)
            | Self::List(_, _, nulls)
            | Self::Map(_, _, _, nulls) => nulls.as_ref(),
        };
        nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            Self::Null => {}
            Self::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            Self::Digits(digits, _) => {
                out.extend_from_slice(digits.value(row).to_string().as_bytes())
            }
            Self::Float64(values, _) if values[row].is_finite() => write_json(&values[row], out),
            Self::Float64(values, _) => write_json(not_finite(values[row]), out),
            Self::Float32(values, _) if values[row].is_finite() => write_json(&values[row], out),
            Self::Float32(values, _) => write_json(not_finite(values[row].into()), out),
            Self::Text(values) => write_json(values.value(row), out),
            Self::Bytes(_, digits) => write_json(&format!("\\x{}", digits.value(row)), out),
            Self::Shown(text, _) => write_json(&text.value(row).to_string(), out),
            Self::Struct(columns, _) => {
                let members = columns.iter().map(|(name, values)| (name.clone(), values, row));
                write_object(members, out);
            }
            Self::List(ends, items, _) => {
                out.push(b'[');
                for at in ends[row]..ends[row + 1] {
                    if at > ends[row] {
                        out.push(b',');
                    }
                    items.write(at, out);
                }
                out.push(b']');
            }
            Self::Map(ends, keys, values, _) => {
                let members =
                    (ends[row]..ends[row + 1]).map(|at| (keys.key(at), values.as_ref(), at));
                write_object(members, out);
            }
        }
    }

    /// A map's key as an object's.
    fn key(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values.value(row).to_owned(),
            Self::Digits(text, _) | Self::Shown(text, _) => text.value(row).to_string(),
            other => {
                let mut text = Vec::new();
                other.write(row, &mut text);
                String::from_utf8(text).expect("JSON is text")
            }
        }
    }
}

fn write_object<'v>(
    members: impl Iterator<Item = (String, &'v Values<'v>, usize)>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (number, (name, values, row)) in members.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_json(&name, out);
        out.push(b':');
        values.write(row, out);
    }
    out.push(b'}');
}

fn write_json(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("plain data becomes JSON");
}

/// What JSON has no numbers for.
fn not_finite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{
        BinaryArray, Decimal128Array, Float64Array, Int64Array, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn nested_values_are_written_as_the_server_writes_them() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a, \"b\""), None, Some("é\n")]);
        lists.append_value(Vec::<Option<&str>>::new());
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        maps.keys().append_value("k");
        maps.values().append_value(1);
        maps.append(true).expect("even");
        maps.append(false).expect("even");
        let decimals = Decimal128Array::from(vec![Some(123_456_789_012_345_678_901), None]);
        let columns: [(&str, ArrayRef); 7] = [
            ("n", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, -1]))),
            ("d", Arc::new(decimals.with_precision_and_scale(30, 2).expect("fits"))),
            ("f", Arc::new(Float64Array::from(vec![0.1, f64::NEG_INFINITY]))),
            ("l", Arc::new(lists.finish())),
            ("m", Arc::new(maps.finish())),
            ("b", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b""]))),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![1, 0]).with_timezone("+00:00"))),
        ];
        let fields = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let arrays = columns.iter().map(|(_, column)| column.clone()).collect();
        let nulls = NullBuffer::from(vec![true, true]);
        let all: ArrayRef = Arc::new(StructArray::new(fields.collect(), arrays, Some(nulls)));
        let found = texts(&all).expect("JSON");
        let found = found.as_string::<i32>();
        assert_eq!(
            found.value(0),
            "{\"n\":9007199254740993,\"d\":1234567890123456789.01,\"f\":0.1,\
             \"l\":[\"a, \\\"b\\\"\",null,\"é\\n\"],\"m\":{\"k\":1},\"b\":\"\\\\x00ff\",\
             \"t\":\"1970-01-01T00:00:00.000001Z\"}"
        );
        assert_eq!(
            found.value(1),
            "{\"n\":-1,\"d\":null,\"f\":\"-Infinity\",\"l\":[],\"m\":null,\"b\":\"\\\\x\",\
             \"t\":\"1970-01-01T00:00:00Z\"}"
        );
    }
}
