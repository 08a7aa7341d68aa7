//! The encoder's bytes against slow, obvious ones.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal64Array, Int32Array, Int64Array, StringArray,
};
use proptest::prelude::*;

use super::*;

fn encoded(field_type: FieldType, array: ArrayRef) -> Vec<u8> {
    let sent = SentColumn { field_type, element_oid: 0 };
    let batch = RecordBatch::try_from_iter([("c", array)]).expect("a batch");
    let mut out = Vec::new();
    BinaryEncoder::new(vec![sent]).encode(&batch, &mut out).expect("it encodes");
    out
}

/// A row of one field.
fn row(value: Option<&[u8]>) -> Vec<u8> {
    let mut row = vec![0, 1];
    match value {
        None => row.extend((-1i32).to_be_bytes()),
        Some(value) => {
            row.extend((value.len() as i32).to_be_bytes());
            row.extend(value);
        }
    }
    row
}

/// A decimal by the book: pad both sides to whole groups of four, drop the zero groups outside.
fn numeric_by_the_book(text: &str) -> Vec<u8> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (0x4000u16, rest),
        None => (0, text),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let width = whole.len().div_ceil(4) * 4;
    let whole = format!("{whole:0>width$}");
    let width = fraction.len().div_ceil(4) * 4;
    let all = format!("{whole}{fraction:0<width$}");
    let mut groups: Vec<u16> = (0..all.len() / 4)
        .map(|group| all[4 * group..4 * group + 4].parse().expect("four digits"))
        .collect();
    let mut weight = (whole.len() / 4) as i16 - 1;
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let head = [groups.len() as u16, weight as u16, sign, fraction.len() as u16];
    head.iter().chain(&groups).flat_map(|word| word.to_be_bytes()).collect()
}

/// `units` * 10^-`scale`, written out.
fn decimal_text(units: i64, scale: u8) -> String {
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let point = if scale > 0 { "." } else { "" };
    let sign = if units < 0 { "-" } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

#[test]
fn small_decimals_are_written_as_others_are() {
    let units: Vec<Option<i64>> =
        (0..4096).map(|units| (units % 7 != 3).then_some(units)).collect();
    for scale in 0..=18 {
        for first in [0, 1] {
            // With one that is not small all of them are written another way.
            let values: Vec<_> = [Some(first * 123_456)].into_iter().chain(units.clone()).collect();
            let array = Decimal64Array::from(values.clone())
                .with_precision_and_scale(18, scale as i8)
                .expect("a decimal");
            let all = encoded(FieldType::Decimal { precision: 18, scale }, Arc::new(array));
            let mut rest = all.as_slice();
            for value in values {
                let (head, after) = rest.split_at(6);
                let length = i32::from_be_bytes(head[2..].try_into().expect("four bytes"));
                let (found, after) = after.split_at(length.max(0) as usize);
                let expected = value.map(|units| numeric_by_the_book(&decimal_text(units, scale)));
                match expected {
                    None => assert_eq!(length, -1),
                    Some(expected) => assert_eq!(
                        without_zeros_weight(found.to_vec()),
                        without_zeros_weight(expected),
                        "{value:?}, scale {scale}"
                    ),
                }
                rest = after;
            }
            assert!(rest.is_empty());
        }
    }
}

/// A zero's weight and sign mean nothing (`make_result` in PostgreSQL's numeric.c).
fn without_zeros_weight(mut value: Vec<u8>) -> Vec<u8> {
    if value[..2] == [0, 0] {
        value[2..6].fill(0);
    }
    value
}

fn one_field(encoded: &[u8]) -> Vec<u8> {
    assert_eq!(encoded[..2], [0, 1]);
    let length = i32::from_be_bytes(encoded[2..6].try_into().expect("four bytes"));
    assert_eq!(encoded.len(), 6 + length as usize);
    encoded[6..].to_vec()
}

proptest! {
    #[test]
    fn numerics_of_any_size(text in "-?[0-9]{1,45}(\\.[0-9]{1,45})?") {
        let array = Arc::new(StringArray::from(vec![text.as_str()]));
        let value = one_field(&encoded(FieldType::NumericText { limits: None }, array));
        prop_assert_eq!(without_zeros_weight(value), without_zeros_weight(numeric_by_the_book(&text)));
    }

    #[test]
    fn short_numerics(text in "-?[0-9]{1,18}(\\.[0-9]{0,6})?") {
        let array = Arc::new(StringArray::from(vec![text.as_str()]));
        let value = one_field(&encoded(FieldType::NumericText { limits: None }, array));
        prop_assert_eq!(without_zeros_weight(value), without_zeros_weight(numeric_by_the_book(&text)));
    }

    #[test]
    fn decimals(units in -999_999_999_999_999_999i64..=999_999_999_999_999_999, scale in 0u8..=18) {
        let array = Decimal64Array::from(vec![units])
            .with_precision_and_scale(18, scale as i8)
            .expect("a decimal");
        let value =
            one_field(&encoded(FieldType::Decimal { precision: 18, scale }, Arc::new(array)));
        let text = decimal_text(units, scale);
        prop_assert_eq!(without_zeros_weight(value), without_zeros_weight(numeric_by_the_book(&text)));
    }

    #[test]
    fn whole_numbers(values in prop::collection::vec(any::<Option<i64>>(), 1..50)) {
        let expected: Vec<u8> = values
            .iter()
            .flat_map(|value| row(value.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..])))
            .collect();
        let array = Arc::new(Int64Array::from(values));
        prop_assert_eq!(encoded(FieldType::Int64, array), expected);
    }

    #[test]
    fn texts(values in prop::collection::vec(any::<Option<String>>(), 1..50), from in 0usize..50) {
        let from = from.min(values.len() - 1);
        let expected: Vec<u8> = values[from..]
            .iter()
            .flat_map(|value| row(value.as_deref().map(str::as_bytes)))
            .collect();
        // A slice's first offset is not zero.
        let array = StringArray::from(values);
        let array = Arc::new(array.slice(from, array.len() - from));
        prop_assert_eq!(encoded(FieldType::text(), array), expected);
    }
}

#[test]
fn dates_count_from_2000() {
    let array = Arc::new(Date32Array::from(vec![Some(0), Some(10_957), None]));
    let expected =
        [row(Some(&(-10_957i32).to_be_bytes())), row(Some(&0i32.to_be_bytes())), row(None)];
    assert_eq!(encoded(FieldType::Date, array), expected.concat());
}

#[test]
fn truth_is_one_byte() {
    let array = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    let expected = [row(Some(&[1])), row(None), row(Some(&[0]))];
    assert_eq!(encoded(FieldType::Boolean, array), expected.concat());
}

#[test]
fn rows_follow_one_another() {
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec![Some("x"), None])) as ArrayRef),
    ])
    .expect("a batch");
    let columns = [FieldType::Int32, FieldType::text()]
        .map(|field_type| SentColumn { field_type, element_oid: 0 });
    let mut out = b"before".to_vec();
    BinaryEncoder::new(columns.to_vec()).encode(&batch, &mut out).expect("it encodes");
    let expected = [
        &b"before"[..],
        &[0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'x'],
        &[0, 2, 0, 0, 0, 4, 0, 0, 0, 2, 255, 255, 255, 255],
    ];
    assert_eq!(out, expected.concat());
}
