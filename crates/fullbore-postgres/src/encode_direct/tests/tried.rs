//! Columns that are tried, and values for them made of seeds.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::types::*;
use arrow_array::*;
use fullbore_parse::types::FieldType;

use super::slow::{Slow, slow_numeric, slow_round, units_text};

/// A column that is tried: what it is parsed into, and how the server describes it.
#[derive(Debug, Clone)]
pub struct Tried {
    pub field_type: FieldType,
    pub form: &'static str,
    pub modifier: i32,
    pub align: usize,
    pub plain: bool,
}

pub const LABELS: [&str; 3] = ["sad", "ok", "it's, fine"];

pub fn tried(kind: usize, plain: bool) -> Tried {
    use FieldType::*;
    let decimal = |precision, scale| Decimal { precision, scale };
    let (field_type, form, modifier, align) = match kind {
        0 => (Boolean, "bool", -1, 1),
        1 => (Int16, "int2", -1, 2),
        2 => (Int32, "int4", -1, 4),
        3 => (Int64, "int8", -1, 8),
        4 => (Float32, "float4", -1, 4),
        5 => (Float64, "float8", -1, 8),
        6 => (Date, "date", -1, 4),
        7 => (Time, "time", 3, 8),
        8 => (Timestamp, "timestamp", -1, 8),
        9 => (TimestampTz { zoneless_is_utc: true }, "timestamptz", 0, 8),
        10 => (Uuid, "uuid", -1, 1),
        11 => (FieldType::text(), "text", -1, 4),
        12 => (Text { characters_max: Some(150) }, "bpchar", 154, 4),
        13 => (Bytea, "bytea", -1, 4),
        14 => (decimal(15, 2), "numeric", 0, 4),
        15 => (decimal(18, 7), "numeric", 0, 4),
        16 => (decimal(38, 9), "numeric", 0, 4),
        17 => (NumericText { limits: None }, "numeric", -1, 4),
        18 => (NumericText { limits: Some((200, 100)) }, "numeric", 0, 4),
        19 => (Enum { labels: LABELS.map(str::to_owned).to_vec().into() }, "enum", -1, 4),
        20 => (decimal(3, 2), "numeric", 0, 4),
        21 => (decimal(3, 3), "numeric", 0, 4),
        _ => (Json, "json", -1, 4),
    };
    Tried { field_type, form, modifier, align, plain }
}

pub const KINDS: usize = 23;

/// A value that is neither NULL nor, yet, a column's: numbers and text made of a seed.
pub fn number(seed: u64) -> i64 {
    // Of every size: the seed's upper bits say how many of the lower ones count.
    let value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
    value >> (seed % 64)
}

pub fn text(seed: u64) -> String {
    let length = match seed % 8 {
        0 => 0,
        1..=4 => seed as usize / 8 % 30,
        5 => 120 + seed as usize / 8 % 12,
        6 => seed as usize / 8 % 600,
        _ => seed as usize / 8 % 2500,
    };
    (0..length).map(|at| ['a', 'é', '愛', '𝄞', 'z'][(seed as usize + at * at) % 5]).collect()
}

pub fn decimal_text(seed: u64, fraction_max: usize) -> String {
    let digits = |count: usize, salt: u64| -> String {
        let digit = |at: usize| number(seed ^ salt ^ at as u64).unsigned_abs() / 7 % 10;
        let sparse = seed.is_multiple_of(3);
        (0..count).map(|at| if sparse && at % 7 != 3 { 0 } else { digit(at) }.to_string()).collect()
    };
    let whole = digits(1 + (seed >> 8) as usize % 90, 1);
    let fraction = digits((seed >> 16) as usize % (fraction_max + 1), 2);
    let sign = if seed.is_multiple_of(2) { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

pub const DAY: i64 = 86_400_000_000;

/// Builds a column of these seeds, `None` for NULL, and each value's bytes.
pub fn column(tried: &Tried, seeds: &[Option<u64>]) -> (ArrayRef, Vec<Option<Slow>>) {
    macro_rules! primitive {
        ($type:ty, $value:expr, $bytes:expr, $align:expr) => {{
            let values: Vec<_> = seeds.iter().map(|seed| seed.map($value)).collect();
            let array = PrimitiveArray::<$type>::from(values.clone());
            let array = array.with_data_type(tried.field_type.arrow());
            let bytes = |value| Slow::Fixed($bytes(value).to_vec(), $align);
            (Arc::new(array) as ArrayRef, values.into_iter().map(|v| v.map(bytes)).collect())
        }};
    }
    let texts = |make: &dyn Fn(u64) -> String, slow: &dyn Fn(&str) -> Slow| {
        let values: Vec<Option<String>> = seeds.iter().map(|seed| seed.map(make)).collect();
        let slow = values.iter().map(|value| value.as_deref().map(slow)).collect();
        (Arc::new(StringArray::from(values)) as ArrayRef, slow)
    };
    let plain = |text: &str| Slow::Varlena(text.as_bytes().to_vec());
    let stamp = |seed: u64| number(seed) % (300_000 * DAY);
    match tried.form {
        "bool" => {
            let values: Vec<Option<bool>> = seeds.iter().map(|s| s.map(|s| s % 2 == 1)).collect();
            let slow =
                values.iter().map(|v| v.map(|v| Slow::Fixed(vec![u8::from(v)], 1))).collect();
            (Arc::new(BooleanArray::from(values)), slow)
        }
        "int2" => primitive!(Int16Type, |s| number(s) as i16, i16::to_le_bytes, 2),
        "int4" => primitive!(Int32Type, |s| number(s) as i32, i32::to_le_bytes, 4),
        "int8" => primitive!(Int64Type, number, i64::to_le_bytes, 8),
        "float4" => primitive!(Float32Type, |s| number(s) as f32 / 3.0, f32::to_le_bytes, 4),
        "float8" => primitive!(Float64Type, |s| number(s) as f64 / 3.0, f64::to_le_bytes, 8),
        "date" => {
            let days = |s| (number(s) % 1_000_000) as i32;
            primitive!(Date32Type, days, |v: i32| (v - 10_957).to_le_bytes(), 4)
        }
        "time" => primitive!(
            Time64MicrosecondType,
            |s| stamp(s).rem_euclid(DAY),
            |v| slow_round(v, 1000).to_le_bytes(),
            8
        ),
        "timestamp" => primitive!(
            TimestampMicrosecondType,
            stamp,
            |v: i64| (v - 10_957 * DAY).to_le_bytes(),
            8
        ),
        "timestamptz" => primitive!(
            TimestampMicrosecondType,
            stamp,
            |v: i64| slow_round(v - 10_957 * DAY, 1_000_000).to_le_bytes(),
            8
        ),
        "uuid" => {
            let bytes = |seed: u64| (u128::from(seed) << 64 | u128::from(!seed)).to_be_bytes();
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for seed in seeds {
                match seed {
                    Some(seed) => builder.append_value(bytes(*seed)).unwrap(),
                    None => builder.append_null(),
                }
            }
            let slow = seeds.iter().map(|s| s.map(|s| Slow::Fixed(bytes(s).to_vec(), 1)));
            (Arc::new(builder.finish()), slow.collect())
        }
        "bytea" => {
            let values: Vec<Option<Vec<u8>>> =
                seeds.iter().map(|seed| seed.map(|seed| text(seed).into_bytes())).collect();
            let slow = values.iter().map(|value| value.clone().map(Slow::Varlena)).collect();
            (Arc::new(BinaryArray::from_iter(values)), slow)
        }
        "bpchar" => texts(&|seed| text(seed).chars().take(150).collect(), &|value| {
            Slow::Varlena(format!("{value:<150}").into_bytes())
        }),
        "enum" => texts(&|seed| LABELS[seed as usize % 3].into(), &|value| {
            let at = LABELS.iter().position(|label| *label == value).unwrap();
            Slow::Fixed((16_500 + at as u32).to_le_bytes().to_vec(), 4)
        }),
        "numeric" => match &tried.field_type {
            FieldType::Decimal { precision, scale } if *precision <= 18 => {
                let limit = 10i64.pow(u32::from(*precision));
                let scale = usize::from(*scale);
                let value = |seed| match precision {
                    // Small ones, of which none is below zero, are written another way.
                    ..=3 => number(seed).rem_euclid(limit),
                    _ => number(seed) % limit,
                };
                let values: Vec<_> = seeds.iter().map(|seed| seed.map(value)).collect();
                let slow = values
                    .iter()
                    .map(|v| v.map(|v| slow_numeric(&units_text(v.into(), scale), Some(scale))));
                let slow = slow.collect();
                let array = Decimal64Array::from(values);
                (Arc::new(array.with_data_type(tried.field_type.arrow())), slow)
            }
            FieldType::Decimal { scale, .. } => {
                let scale = usize::from(*scale);
                let wide = |s: u64| i128::from(number(s)) * i128::from(number(!s)) % 10i128.pow(38);
                let values: Vec<_> = seeds.iter().map(|seed| seed.map(wide)).collect();
                let slow = values
                    .iter()
                    .map(|v| v.map(|v| slow_numeric(&units_text(v, scale), Some(scale))));
                let slow = slow.collect();
                let array = Decimal128Array::from(values);
                (Arc::new(array.with_data_type(tried.field_type.arrow())), slow)
            }
            FieldType::NumericText { limits } => {
                let scale = limits.map(|(_, scale)| usize::from(scale));
                texts(&|seed| decimal_text(seed, 100), &move |value| slow_numeric(value, scale))
            }
            other => unreachable!("{other:?}"),
        },
        _ => texts(&text, &plain),
    }
}
