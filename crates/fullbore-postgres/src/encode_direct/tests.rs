//! The encoder against a slow and obvious one that shares no code with it.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{Field, Schema};
use fullbore_core::parse::types::{FieldType, ParseColumn, ParseShape};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::direct::Descriptor;
use crate::encode_copy::SentColumn;

const BODY_BYTES_MAX: usize = 2009;

/// A column that is tried: what it is parsed into, and how the server describes it.
#[derive(Debug, Clone)]
struct Tried {
    field_type: FieldType,
    form: &'static str,
    modifier: i32,
    align: usize,
    plain: bool,
}

const LABELS: [&str; 3] = ["sad", "ok", "it's, fine"];

fn tried(kind: usize, plain: bool) -> Tried {
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
        _ => (Json, "json", -1, 4),
    };
    Tried { field_type, form, modifier, align, plain }
}

const KINDS: usize = 21;

/// A value that is neither NULL nor, yet, a column's: numbers and text made of a seed.
fn number(seed: u64) -> i64 {
    // Of every size: the seed's upper bits say how many of the lower ones count.
    let value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
    value >> (seed % 64)
}

fn text(seed: u64) -> String {
    let length = match seed % 8 {
        0 => 0,
        1..=4 => seed as usize / 8 % 30,
        5 => 120 + seed as usize / 8 % 12,
        6 => seed as usize / 8 % 600,
        _ => seed as usize / 8 % 2500,
    };
    (0..length).map(|at| ['a', 'é', '愛', '𝄞', 'z'][(seed as usize + at * at) % 5]).collect()
}

fn decimal_text(seed: u64, fraction_max: usize) -> String {
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

/// A value's bytes in a row: of fixed length with its alignment, or varlena.
enum Slow {
    Fixed(Vec<u8>, usize),
    Varlena(Vec<u8>),
}

fn slow_numeric(text: &str, column_scale: Option<usize>) -> Slow {
    let (sign, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let scale = column_scale.unwrap_or(fraction.len());
    let padded_whole = "0".repeat((4 - whole.len() % 4) % 4) + whole;
    let padded_fraction = fraction.to_owned() + &"0".repeat((4 - fraction.len() % 4) % 4);
    let all = padded_whole.clone() + &padded_fraction;
    let mut digits: Vec<i16> = all
        .as_bytes()
        .chunks(4)
        .map(|c| std::str::from_utf8(c).unwrap().parse().unwrap())
        .collect();
    let mut weight = padded_whole.len() as i32 / 4 - 1;
    while digits.first() == Some(&0) {
        digits.remove(0);
        weight -= 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let (sign, weight) = if digits.is_empty() { (false, 0) } else { (sign, weight) };
    let mut bytes = Vec::new();
    if scale <= 63 && (-64..=63).contains(&weight) {
        let weight_bits = if weight < 0 { 0x40 | (weight + 64) as u16 } else { weight as u16 };
        let head = 0x8000 + if sign { 0x2000 } else { 0 } + scale as u16 * 128 + weight_bits;
        bytes.extend(head.to_le_bytes());
    } else {
        bytes.extend((if sign { 0x4000 } else { 0 } + scale as u16).to_le_bytes());
        bytes.extend((weight as i16).to_le_bytes());
    }
    bytes.extend(digits.iter().flat_map(|digit| digit.to_le_bytes()));
    Slow::Varlena(bytes)
}

fn units_text(units: i128, scale: usize) -> String {
    let digits = format!("{:0>1$}", units.unsigned_abs(), scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if units < 0 { "-" } else { "" })
}

/// Half away from zero, by way of decimal places.
fn slow_round(value: i64, unit: i64) -> i64 {
    let (magnitude, unit) = (value.unsigned_abs(), unit as u64);
    let units = magnitude / unit + u64::from(magnitude % unit * 2 >= unit);
    (units * unit) as i64 * value.signum()
}

const DAY: i64 = 86_400_000_000;

/// Builds a column of these seeds, `None` for NULL, and each value's bytes.
fn column(tried: &Tried, seeds: &[Option<u64>]) -> (ArrayRef, Vec<Option<Slow>>) {
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
                let values: Vec<_> = seeds.iter().map(|s| s.map(|s| number(s) % limit)).collect();
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

/// A row as `heap_fill_tuple` lays it out, its length before it.
fn slow_row(columns: &[Tried], values: &[&Option<Slow>]) -> Vec<u8> {
    let mut data = Vec::new();
    let align = |data: &mut Vec<u8>, to: usize| {
        while !data.len().is_multiple_of(to) {
            data.push(0);
        }
    };
    for (column, value) in columns.iter().zip(values) {
        match value {
            None => {}
            Some(Slow::Fixed(bytes, to)) => {
                align(&mut data, *to);
                data.extend(bytes);
            }
            Some(Slow::Varlena(bytes)) if bytes.len() <= 126 && !column.plain => {
                data.push((bytes.len() as u8 + 1) * 2 + 1);
                data.extend(bytes);
            }
            Some(Slow::Varlena(bytes)) => {
                align(&mut data, 4);
                data.extend((bytes.len() as u32 * 4 + 16).to_le_bytes());
                data.extend(bytes);
            }
        }
    }
    let has_nulls = values.iter().any(|value| value.is_none());
    let mut head = vec![0u8; 23];
    if has_nulls {
        for (at, value) in values.iter().enumerate() {
            if at % 8 == 0 {
                head.push(0);
            }
            if value.is_some() {
                *head.last_mut().unwrap() += 1 << (at % 8);
            }
        }
    }
    align(&mut head, 8);
    let body = [&head[23..], &data].concat();
    let length = body.len() as u16 + if has_nulls { 0x8000 } else { 0 };
    [length.to_le_bytes().to_vec(), body].concat()
}

fn slow_crc(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// The frames of a stream: kind, rows, payload unpacked.
fn frames(mut stream: &[u8]) -> Vec<(u8, usize, Vec<u8>)> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let (header, rest) = stream.split_at(24);
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(&header[..4], b"FBF1");
        assert_eq!(header[6..8], [0, 0]);
        let (payload, rest) = rest.split_at(word(16) as usize);
        assert_eq!(word(20), slow_crc(payload), "the checksum");
        let raw_bytes = word(12) as usize;
        let raw = match header[5] {
            0 => payload.to_vec(),
            1 => lz4_flex::block::decompress(payload, raw_bytes).expect("lz4"),
            2 => zstd::bulk::decompress(payload, raw_bytes).expect("zstd"),
            other => panic!("codec {other}"),
        };
        assert_eq!(raw.len(), raw_bytes);
        assert!(header[4] != b'B' || raw_bytes <= 4 << 20);
        frames.push((header[4], word(8) as usize, raw));
        stream = rest;
    }
    frames
}

fn shape(columns: &[Tried]) -> ParseShape {
    let columns = columns.iter().enumerate();
    ParseShape {
        fields: columns.len(),
        field_names: Vec::new(),
        columns: columns
            .map(|(at, tried)| ParseColumn {
                name: format!("c{at}"),
                field: at,
                field_type: tried.field_type.clone(),
            })
            .collect(),
    }
}

fn descriptor(columns: &[Tried]) -> Descriptor {
    let columns: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| {
            json!({
                "number": at + 1, "name": format!("c{at}"), "type": tried.form, "type_oid": 0,
                "modifier": tried.modifier, "length": -1, "align": tried.align,
                "storage": if tried.plain { "plain" } else { "extended" }, "not_null": false,
                "form": tried.form,
                "labels": LABELS.iter().enumerate().map(|(at, l)| (l, 16_500 + at)).collect::<Vec<_>>(),
            })
        })
        .collect();
    serde_json::from_value(json!({
        "protocol": 1, "extension": "0.2.0", "server": 180_006, "relation": 1, "encoding": "UTF8",
        "block_bytes": 8192, "maxalign": 8, "little_endian": true, "body_bytes_max": BODY_BYTES_MAX,
        "needs_wal": false, "codecs": ["none"], "columns": columns, "refusal": null, "hash": "0",
    }))
    .expect("a descriptor")
}

fn encoder(columns: &[Tried], codec: Codec) -> (DirectEncoder, BinaryEncoder) {
    let layout = Layout::new(&descriptor(columns), &shape(columns)).expect("a layout");
    let sent = |tried: &Tried| SentColumn { field_type: tried.field_type.clone(), element_oid: 0 };
    let copy = || BinaryEncoder::new(columns.iter().map(sent).collect());
    (DirectEncoder::new(Some(layout), copy(), codec), copy())
}

fn batch(columns: &[Tried], arrays: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| Field::new(format!("c{at}"), tried.field_type.arrow(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
}

/// What a value counts before it is laid out: decimal text half of its length, zeros included, so
/// that a row may travel out of band although it would just have fitted.
fn counted(tried: &Tried, array: &ArrayRef, row: usize) -> usize {
    let any = array.as_any();
    match (tried.form, any.downcast_ref::<StringArray>(), any.downcast_ref::<BinaryArray>()) {
        ("enum", ..) | (_, None, None) => 0,
        ("numeric", Some(text), _) => text.value(row).len() / 2,
        (_, Some(text), _) => text.value(row).len(),
        (_, None, Some(bytes)) => bytes.value(row).len(),
    }
}

/// Encodes rows of these seeds and holds every frame to the slow encoder's.
fn check(columns: &[Tried], seeds: &[Vec<Option<u64>>], codec: Codec) {
    let made: Vec<(ArrayRef, Vec<Option<Slow>>)> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| column(tried, &seeds.iter().map(|row| row[at]).collect::<Vec<_>>()))
        .collect();
    let batch = batch(columns, made.iter().map(|(array, _)| array.clone()).collect());
    let (mut direct, mut copy) = encoder(columns, codec);
    let mut stream = vec![];
    direct.encode(&batch, &mut stream).expect("it encodes");

    let (mut bodies, mut out_of_band) = (Vec::new(), Vec::new());
    let (mut rows, mut rows_out_of_band) = (0, 0);
    for row in 0..seeds.len() {
        let values: Vec<&Option<Slow>> = made.iter().map(|(_, slow)| &slow[row]).collect();
        let body = slow_row(columns, &values);
        let counted: usize =
            columns.iter().zip(&made).map(|(tried, made)| counted(tried, &made.0, row)).sum();
        if body.len() - 2 > BODY_BYTES_MAX || counted > BODY_BYTES_MAX {
            copy.encode(&batch.slice(row, 1), &mut out_of_band).expect("it encodes");
            rows_out_of_band += 1;
        } else {
            bodies.extend(body);
            rows += 1;
        }
    }
    let of = |kind: u8| {
        let frames = frames(&stream).into_iter().filter(move |frame| frame.0 == kind);
        frames.fold((0, Vec::new()), |all, frame| (all.0 + frame.1, [all.1, frame.2].concat()))
    };
    assert_eq!(of(b'B'), (rows, bodies));
    assert_eq!(of(b'C'), (rows_out_of_band, out_of_band));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_what_the_slow_encoder_makes_of_them(
        kinds in prop::collection::vec((0..KINDS, prop::bool::weighted(0.1)), 1..14),
        rows in prop::collection::vec(any::<u64>(), 1..40),
        nulls in 0u64..4,
        codec in prop::sample::select(vec![Codec::None, Codec::Lz4, Codec::Zstd]),
    ) {
        let columns: Vec<Tried> =
            kinds.iter().map(|(kind, plain)| tried(*kind, *plain && *kind > 10 && *kind != 19)).collect();
        let seeds: Vec<Vec<Option<u64>>> = rows
            .iter()
            .map(|row| {
                let cell = |at: usize| {
                    let seed = row.wrapping_mul(6_364_136_223_846_793_005).rotate_left(at as u32 * 7 + 5)
                        ^ at as u64;
                    (nulls == 0 || seed % 8 >= nulls).then_some(seed / 8)
                };
                (0..columns.len()).map(cell).collect()
            })
            .collect();
        check(&columns, &seeds, codec);
    }
}

#[test]
fn a_table_of_1600_columns_and_rows_of_nothing_but_nulls() {
    let columns: Vec<Tried> = (0..1600).map(|at| tried(at % 4, false)).collect();
    let rows = [vec![None; 1600], (0..1600).map(|at| (at % 9 == 0).then_some(at)).collect()];
    check(&columns, &rows, Codec::None);
}

#[test]
fn many_rows_make_several_frames() {
    let columns = [tried(3, false), tried(13, false)];
    let rows: Vec<_> = (0..20_000u64).map(|row| vec![Some(row), Some(row * 8 + 6)]).collect();
    check(&columns, &rows, Codec::None);
}

#[test]
fn a_label_that_the_server_did_not_tell_travels_out_of_band() {
    let columns = [tried(19, false), tried(2, false)];
    let labels = StringArray::from(vec![Some("ok"), Some("new"), None]);
    let numbers = Int32Array::from(vec![1, 2, 3]);
    let batch = batch(&columns, vec![Arc::new(labels), Arc::new(numbers)]);
    let mut stream = Vec::new();
    encoder(&columns, Codec::None).0.encode(&batch, &mut stream).unwrap();
    let kinds: Vec<_> = frames(&stream).iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(b'B', 2), (b'C', 1)]);
}

#[test]
fn a_table_without_a_layout_travels_out_of_band() {
    let columns = [tried(2, false)];
    let batch = batch(&columns, vec![Arc::new(Int32Array::from(vec![1, 2]))]);
    let copy = || encoder(&columns, Codec::None).1;
    let mut stream = Vec::new();
    DirectEncoder::new(None, copy(), Codec::None).encode(&batch, &mut stream).unwrap();
    let mut rows = Vec::new();
    copy().encode(&batch, &mut rows).unwrap();
    assert_eq!(frames(&stream), [(b'C', 2, rows)]);
}

#[test]
fn checksums_are_crc_32c() {
    // The check value of the catalogue of CRC algorithms.
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
    assert_eq!(slow_crc(b"123456789"), 0xe306_9283);
}
