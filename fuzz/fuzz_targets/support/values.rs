//! Columns of any type and values for them, made of a fuzzer's bytes; each value also as the bytes or
//! the text that a reader of the row has to find.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::types::*;
use arrow_array::*;
use fullbore_parse::types::FieldType;

/// What a reader finds in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// As many bytes as the type has.
    Fixed(Vec<u8>),
    /// The content of a varlena.
    Bytes(Vec<u8>),
    /// A numeric as the server prints it.
    Numeric(String),
    /// A label that the server did not tell: it must travel out of band.
    Unknown,
}

/// A column, as the server describes it.
#[derive(Debug, Clone)]
pub struct Tried {
    pub field_type: FieldType,
    pub form: &'static str,
    pub modifier: i32,
    pub align: usize,
    pub plain: bool,
}

/// The labels that the server tells of, whose object ids follow one another from this one on.
pub const LABELS: [&str; 2] = ["sad", "it's, fine"];
pub const FIRST_LABEL: u32 = 16_500;

const DAY: i64 = 86_400_000_000;
/// Days from 1970 to 2000.
const DAYS: i64 = 10_957;

/// The fuzzer's bytes, taken from the front; when they are used up again, and others, so that a few
/// make many rows.
pub struct Source<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, taken: 0 }
    }

    pub fn byte(&mut self) -> u8 {
        let length = self.bytes.len().max(1);
        let (round, at) = (self.taken / length, self.taken % length);
        self.taken += 1;
        self.bytes.get(at).map_or(0, |byte| byte.wrapping_add((round as u8).wrapping_mul(37)))
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// A number of any size, small ones often.
    fn number(&mut self) -> i64 {
        match self.byte() {
            small @ 0..128 => i64::from(small) - 64,
            wide => i64::from_le_bytes(self.take()) >> (wide & 63),
        }
    }

    /// Bytes of a length that a byte tells; some are repeated, so that few of the fuzzer's make long
    /// values.
    fn bytes(&mut self) -> Vec<u8> {
        let length = self.byte();
        let repeat = if length >= 192 { 1 + usize::from(self.byte()) % 40 } else { 1 };
        let length = usize::from(length % 64);
        let unit: Vec<u8> = (0..length).map(|_| self.byte()).collect();
        unit.repeat(repeat)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// A plain decimal, written in any way that the parser takes for one.
    fn decimal_text(&mut self, fraction_max: usize) -> String {
        let digits = |bytes: Vec<u8>| -> String {
            bytes.iter().map(|byte| char::from(b'0' + byte % 10)).collect()
        };
        let sign = if self.byte() % 2 == 1 { "-" } else { "" };
        let whole = digits(self.bytes());
        let mut fraction = digits(self.bytes());
        fraction.truncate(fraction_max);
        match (whole.is_empty(), fraction.is_empty()) {
            (_, true) => format!("{sign}0{whole}"),
            (true, false) => format!("{sign}.{fraction}"),
            (false, false) => format!("{sign}{whole}.{fraction}"),
        }
    }
}

pub fn tried(source: &mut Source<'_>) -> Tried {
    use FieldType::*;
    let decimal = |precision, scale| Decimal { precision, scale };
    let (kind, plain) = (source.byte() % 21, source.byte() % 8 == 0);
    let digits = i32::from(source.byte() % 7);
    let (field_type, form, modifier, align) = match kind {
        0 => (Boolean, "bool", -1, 1),
        1 => (Int16, "int2", -1, 2),
        2 => (Int32, "int4", -1, 4),
        3 => (Int64, "int8", -1, 8),
        4 => (Float32, "float4", -1, 4),
        5 => (Float64, "float8", -1, 8),
        6 => (Date, "date", -1, 4),
        7 => (Time, "time", digits, 8),
        8 => (Timestamp, "timestamp", digits, 8),
        9 => (TimestampTz { zoneless_is_utc: true }, "timestamptz", digits, 8),
        10 => (Uuid, "uuid", -1, 1),
        11 => (FieldType::text(), "text", -1, 4),
        12 => (Text { characters_max: Some(20) }, "bpchar", 24, 4),
        13 => (Bytea, "bytea", -1, 4),
        14 => (decimal(15, 2), "numeric", 0, 4),
        15 => (decimal(18, digits as u8 * 3), "numeric", 0, 4),
        16 => (decimal(38, digits as u8 * 6), "numeric", 0, 4),
        17 => (NumericText { limits: None }, "numeric", -1, 4),
        18 => (NumericText { limits: Some((200, 15 * digits as u16)) }, "numeric", 0, 4),
        19 => (Enum { labels: LABELS.map(str::to_owned).to_vec().into() }, "enum", -1, 4),
        _ => (Json, "json", -1, 4),
    };
    let is_varlena = matches!(kind, 11..=18 | 20);
    Tried { field_type, form, modifier, align, plain: plain && is_varlena }
}

/// Times of a column with fewer digits, rounded half away from zero.
fn rounded(value: i64, modifier: i32) -> i64 {
    if !(0..6).contains(&modifier) {
        return value;
    }
    let unit = 10i128.pow(6 - modifier as u32);
    let doubled = i128::from(value) * 2;
    let away = if value < 0 { doubled - unit } else { doubled + unit };
    (away / (2 * unit) * unit) as i64
}

/// A plain decimal as the server prints it: no zeros before it, the column's digits after the point.
fn printed(text: &str, scale: Option<usize>) -> String {
    let (minus, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let mut fraction = fraction.to_owned();
    while scale.is_some_and(|scale| fraction.len() < scale) {
        fraction.push('0');
    }
    let is_zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
    let sign = if minus && !is_zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

fn units(units: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>1$}", units.unsigned_abs(), scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if units < 0 { "-" } else { "" };
    printed(&format!("{sign}{whole}.{fraction}"), None)
}

/// A column of so many rows; NULL where a byte says so.
pub fn column(
    tried: &Tried,
    rows: usize,
    source: &mut Source<'_>,
) -> (ArrayRef, Vec<Option<Value>>) {
    macro_rules! column {
        ($array:ty, $make:expr, $found:expr) => {{
            let values: Vec<Option<_>> =
                (0..rows).map(|_| (source.byte() % 5 != 0).then(|| $make(&mut *source))).collect();
            let found = values.iter().map(|value| value.clone().map($found)).collect();
            (<$array>::from_iter(values), found)
        }};
    }
    macro_rules! primitive {
        ($type:ty, $make:expr, $stored:expr) => {{
            let (array, found) = column!(PrimitiveArray<$type>, $make, |value| {
                Value::Fixed($stored(value).to_le_bytes().to_vec())
            });
            let array = array.with_data_type(tried.field_type.arrow());
            (Arc::new(array) as ArrayRef, found)
        }};
    }
    macro_rules! decimals {
        ($type:ty, $make:expr, $scale:expr) => {{
            let (array, found) = column!(PrimitiveArray<$type>, $make, |value| {
                Value::Numeric(units(i128::from(value), $scale))
            });
            (Arc::new(array.with_data_type(tried.field_type.arrow())) as ArrayRef, found)
        }};
    }
    let modifier = tried.modifier;
    let stamp = |source: &mut Source<'_>| source.number() % (i64::MAX / 4);
    match (tried.form, &tried.field_type) {
        ("bool", _) => {
            let make = |source: &mut Source<'_>| source.byte() % 2 == 1;
            let (array, found): (BooleanArray, _) =
                column!(BooleanArray, make, |value| Value::Fixed(vec![u8::from(value)]));
            (Arc::new(array), found)
        }
        ("int2", _) => primitive!(Int16Type, |s: &mut Source<'_>| s.number() as i16, |v| v),
        ("int4", _) => primitive!(Int32Type, |s: &mut Source<'_>| s.number() as i32, |v| v),
        ("int8", _) => primitive!(Int64Type, Source::number, |v| v),
        ("float4", _) => primitive!(
            Float32Type,
            |s: &mut Source<'_>| f32::from_bits(s.number() as u32),
            |v: f32| v.to_bits()
        ),
        ("float8", _) => primitive!(
            Float64Type,
            |s: &mut Source<'_>| f64::from_bits(s.number() as u64),
            |v: f64| v.to_bits()
        ),
        ("date", _) => primitive!(
            Date32Type,
            |s: &mut Source<'_>| (s.number() % 100_000_000) as i32,
            |v: i32| (i64::from(v) - DAYS) as i32
        ),
        ("time", _) => primitive!(
            Time64MicrosecondType,
            |s: &mut Source<'_>| s.number().rem_euclid(DAY),
            |v| rounded(v, modifier)
        ),
        ("timestamp" | "timestamptz", _) => {
            primitive!(TimestampMicrosecondType, stamp, |v| rounded(v - DAYS * DAY, modifier))
        }
        ("uuid", _) => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            let mut found = Vec::new();
            for _ in 0..rows {
                if source.byte() % 5 == 0 {
                    builder.append_null();
                    found.push(None);
                } else {
                    let value: [u8; 16] = source.take();
                    builder.append_value(value).expect("16 bytes");
                    found.push(Some(Value::Fixed(value.to_vec())));
                }
            }
            (Arc::new(builder.finish()), found)
        }
        ("bytea", _) => {
            let (array, found): (BinaryArray, _) =
                column!(BinaryArray, Source::bytes, Value::Bytes);
            (Arc::new(array), found)
        }
        ("bpchar", _) => {
            let make = |s: &mut Source<'_>| s.text().chars().take(20).collect::<String>();
            let padded = |value: String| Value::Bytes(format!("{value:<20}").into_bytes());
            let (array, found): (StringArray, _) = column!(StringArray, make, padded);
            (Arc::new(array), found)
        }
        ("enum", _) => {
            let make = |s: &mut Source<'_>| match s.byte() % 16 {
                0 => "one that the server has but did not tell".to_owned(),
                label => LABELS[usize::from(label) % LABELS.len()].to_owned(),
            };
            let oid = |label: String| match LABELS.iter().position(|known| *known == label) {
                Some(at) => Value::Fixed((FIRST_LABEL + at as u32).to_le_bytes().to_vec()),
                None => Value::Unknown,
            };
            let (array, found): (StringArray, _) = column!(StringArray, make, oid);
            (Arc::new(array), found)
        }
        (_, FieldType::Decimal { precision, scale }) if *precision <= 18 => {
            let limit = 10i64.pow(u32::from(*precision));
            decimals!(Decimal64Type, |s: &mut Source<'_>| s.number() % limit, *scale)
        }
        (_, FieldType::Decimal { scale, .. }) => {
            let wide = |s: &mut Source<'_>| {
                i128::from(s.number()) * i128::from(s.number()) % 10i128.pow(38)
            };
            decimals!(Decimal128Type, wide, *scale)
        }
        (_, FieldType::NumericText { limits }) => {
            let scale = limits.map(|(_, scale)| usize::from(scale));
            let make = |s: &mut Source<'_>| s.decimal_text(scale.unwrap_or(2000));
            let found = |text: String| Value::Numeric(printed(&text, scale));
            let (array, found): (StringArray, _) = column!(StringArray, make, found);
            (Arc::new(array), found)
        }
        _ => {
            let bytes = |text: String| Value::Bytes(text.into_bytes());
            let (array, found): (StringArray, _) = column!(StringArray, Source::text, bytes);
            (Arc::new(array), found)
        }
    }
}
