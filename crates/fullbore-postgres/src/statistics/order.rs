//! The order of a column's values in a sample, as the server would have it.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType};
use fullbore_parse::types::FieldType;

use crate::verify::column::{SummedColumn, day, moment, time};
use crate::verify::numeric;

/// What decides which value comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The type has none.
    None,
    /// That of numbers, of bytes, of labels.
    OfType,
    /// The server's own, for text of this collation, whose name is quoted.
    Collation(String),
}

/// Longer values are in no list of values (`WIDTH_THRESHOLD` in PostgreSQL's analyze.c).
pub const WIDTH_MAX: usize = 1024;

/// Values of a sample in order; equal ones in the order of their rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    pub rows: Vec<u32>,
    /// Where each group of equal values ends in `rows`.
    pub ends: Vec<u32>,
    /// Values that are too long to be listed.
    pub too_wide: u32,
}

impl Ordered {
    /// The rows of each group of equal values, in order.
    pub fn groups(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.rows[start as usize..*end as usize])
    }
}

/// Puts the values of a column in order. Text of a collation is ordered by its bytes, which is enough to find
/// equal ones.
pub fn ordered(column: &SummedColumn, array: &dyn Array) -> Ordered {
    match &column.field_type {
        FieldType::Text { .. } => {
            let array = array.as_string::<i32>();
            let is_padded = column.padded > 0;
            by_bytes(array, |row| {
                let text = array.value(row).as_bytes();
                if is_padded { without_padding(text) } else { text }
            })
        }
        FieldType::Bytea => {
            let array = array.as_binary::<i32>();
            by_bytes(array, |row| array.value(row))
        }
        FieldType::Uuid => {
            let array = array.as_fixed_size_binary();
            by_bytes(array, |row| array.value(row))
        }
        FieldType::Decimal { precision: 19.., .. } => {
            let values = array.as_primitive::<Decimal128Type>().values();
            let keys: Vec<[u8; 16]> =
                values.iter().map(|value| (value ^ i128::MIN).to_be_bytes()).collect();
            by_bytes(array, |row| &keys[row])
        }
        FieldType::NumericText { limits } => {
            let texts = array.as_string::<i32>();
            let scale = limits.map(|(_, scale)| scale);
            let keys: Vec<Vec<u8>> = (0..array.len())
                .map(|row| match array.is_valid(row) {
                    true => numeric_key(texts.value(row).as_bytes(), scale),
                    false => Vec::new(),
                })
                .collect();
            by_bytes(array, |row| &keys[row])
        }
        FieldType::Json | FieldType::Jsonb | FieldType::Array(_) => Ordered::default(),
        _ => by_numbers(array, &numbers(column, array)),
    }
}

/// Without the spaces that padding adds, which count for nothing.
fn without_padding(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    &text[..end]
}

/// A plain decimal as bytes that compare as it does.
fn numeric_key(text: &[u8], scale: Option<u16>) -> Vec<u8> {
    let mut sent = Vec::new();
    numeric::write_text(text, scale, &mut sent);
    let weight = i16::from_be_bytes([sent[2], sent[3]]);
    let (is_negative, digits) = (sent[4] != 0, &sent[8..]);
    if digits.is_empty() {
        return vec![1];
    }
    let mut key = vec![2];
    key.extend(((weight as u16) ^ 0x8000).to_be_bytes());
    let digits = digits.as_chunks::<2>().0.iter().map(|digit| u16::from_be_bytes(*digit));
    // No digit is 0, so that the end of what has fewer comes before, and turned round after all of them.
    digits.for_each(|digit| key.extend((digit + 1).to_be_bytes()));
    key.extend([0, 0]);
    if is_negative {
        key.iter_mut().for_each(|byte| *byte = !*byte);
        key[0] = 0;
    }
    key
}

/// Values of fixed length as numbers without a sign, in their order.
fn numbers(column: &SummedColumn, array: &dyn Array) -> Vec<u64> {
    fn of<T: ArrowPrimitiveType>(array: &dyn Array, key: impl Fn(T::Native) -> u64) -> Vec<u64> {
        array.as_primitive::<T>().values().iter().map(|value| key(*value)).collect()
    }
    let signed = |value: i64| value as u64 ^ 1 << 63;
    // NaN comes after all others, and zero has no sign.
    let float = |value: f64| {
        let bits =
            if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    };
    let unit = column.unit;
    match &column.field_type {
        FieldType::Boolean => array.as_boolean().values().iter().map(u64::from).collect(),
        FieldType::Int16 => of::<Int16Type>(array, |value| signed(value.into())),
        FieldType::Int32 => of::<Int32Type>(array, |value| signed(value.into())),
        FieldType::Int64 => of::<Int64Type>(array, signed),
        FieldType::Float32 => of::<Float32Type>(array, |value| float(value.into())),
        FieldType::Float64 => of::<Float64Type>(array, float),
        FieldType::Date => of::<Date32Type>(array, |value| signed(day(value).into())),
        FieldType::Time => of::<Time64MicrosecondType>(array, |value| signed(time(value, unit))),
        FieldType::Timestamp | FieldType::TimestampTz { .. } => {
            of::<TimestampMicrosecondType>(array, |value| signed(moment(value, unit)))
        }
        FieldType::Decimal { .. } => of::<Decimal64Type>(array, signed),
        FieldType::Enum { labels } => {
            let values = array.as_string::<i32>();
            let place = |row| {
                let label = values.value(row);
                labels.iter().position(|known| known == label).unwrap_or(labels.len()) as u64
            };
            (0..array.len()).map(|row| if array.is_valid(row) { place(row) } else { 0 }).collect()
        }
        _ => unreachable!("values of other types are ordered by their bytes, or not at all"),
    }
}

fn by_numbers(array: &dyn Array, keys: &[u64]) -> Ordered {
    let rows = (0..array.len()).filter(|row| array.is_valid(*row));
    let mut sorted: Vec<(u64, u32)> = rows.map(|row| (keys[row], row as u32)).collect();
    sorted.sort_unstable();
    grouped(&sorted, 0, |one, other| one.0 == other.0)
}

fn by_bytes<'a>(array: &dyn Array, value: impl Fn(usize) -> &'a [u8]) -> Ordered {
    let valid = || (0..array.len()).filter(|row| array.is_valid(*row));
    let rows = valid().filter(|row| value(*row).len() <= WIDTH_MAX);
    let mut sorted: Vec<(u64, u32)> =
        rows.map(|row| (first_bytes(value(row)), row as u32)).collect();
    let of = |row: u32| value(row as usize);
    sorted.sort_unstable_by(|one, other| {
        let by_value = || of(one.1).cmp(of(other.1));
        one.0.cmp(&other.0).then_with(by_value).then(one.1.cmp(&other.1))
    });
    let too_wide = valid().count() - sorted.len();
    grouped(&sorted, too_wide as u32, |one, other| one.0 == other.0 && of(one.1) == of(other.1))
}

/// The first bytes of a value, in the order of the whole.
fn first_bytes(value: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = value.len().min(8);
    first[..length].copy_from_slice(&value[..length]);
    u64::from_be_bytes(first)
}

fn grouped(
    sorted: &[(u64, u32)],
    too_wide: u32,
    is_same: impl Fn((u64, u32), (u64, u32)) -> bool,
) -> Ordered {
    let mut found = Ordered { too_wide, ..Ordered::default() };
    for (at, entry) in sorted.iter().enumerate() {
        if at > 0 && !is_same(sorted[at - 1], *entry) {
            found.ends.push(at as u32);
        }
        found.rows.push(entry.1);
    }
    if !sorted.is_empty() {
        found.ends.push(sorted.len() as u32);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int32Array, StringArray};

    use super::*;

    fn column(field_type: FieldType, padded: usize) -> SummedColumn {
        SummedColumn { name: "c".into(), field_type, unit: 1, padded, element_oid: 0 }
    }

    fn rows(field_type: FieldType, padded: usize, array: ArrayRef) -> Vec<Vec<u32>> {
        let ordered = ordered(&column(field_type, padded), array.as_ref());
        ordered.groups().map(<[u32]>::to_vec).collect()
    }

    #[test]
    fn numbers_come_in_their_order_and_equal_ones_in_that_of_rows() {
        let values: ArrayRef =
            Arc::new(Int32Array::from(vec![Some(3), None, Some(-7), Some(3), Some(0)]));
        assert_eq!(rows(FieldType::Int32, 0, values), [vec![2], vec![4], vec![0, 3]]);
        let values: ArrayRef = Arc::new(Float64Array::from(vec![
            f64::NAN,
            -0.0,
            1.5,
            f64::NEG_INFINITY,
            0.0,
            -2.0,
            f64::INFINITY,
        ]));
        let expected = [vec![3], vec![5], vec![1, 4], vec![2], vec![6], vec![0]];
        assert_eq!(rows(FieldType::Float64, 0, values), expected);
    }

    #[test]
    fn decimals_of_any_size_come_in_their_order() {
        let texts = ["-123456.7", "-1", "-0.5", "0", "0.00001", "0.5", "9999", "10000", "10000.5"];
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let found = rows(FieldType::NumericText { limits: None }, 0, values);
        assert_eq!(found.concat(), (0..texts.len() as u32).collect::<Vec<_>>());
        let values: ArrayRef = Arc::new(StringArray::from(vec!["-1.0001", "-1", "-1.00"]));
        let found = rows(FieldType::NumericText { limits: None }, 0, values);
        assert_eq!(found, [vec![0], vec![1, 2]]);
    }

    #[test]
    fn padding_counts_for_nothing_and_what_is_too_long_is_left_out() {
        let long = "x".repeat(WIDTH_MAX + 1);
        let texts = vec!["ab ", "ab", "a", "abcdefgh2", "abcdefgh1", long.as_str()];
        let values: ArrayRef = Arc::new(StringArray::from(texts));
        let expected = [vec![2], vec![0, 1], vec![4], vec![3]];
        assert_eq!(rows(FieldType::text(), 12, values.clone()), expected);
        let plain = ordered(&column(FieldType::text(), 0), values.as_ref());
        assert_eq!((plain.ends.len(), plain.too_wide), (5, 1));
    }
}
