//! A slow reader of the frames and rows of the direct method, by the words of extension/PROTOCOL.md
//! and of PostgreSQL's documentation of its pages: it shares no code with the encoder.

use super::values::{Tried, Value};

/// A frame: kind, rows, payload.
pub struct Frame<'a> {
    pub kind: u8,
    pub rows: usize,
    pub payload: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> u32 {
    (0..4).map(|n| u32::from(bytes[at + n]) << (8 * n)).sum()
}

/// CRC-32C, a bit at a time.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for bit in bytes.iter().flat_map(|byte| (0..8).map(move |n| u32::from(byte >> n & 1))) {
        let odd = (crc ^ bit) & 1 == 1;
        crc >>= 1;
        if odd {
            crc ^= 0x82f6_3b78;
        }
    }
    !crc
}

/// The frames of a stream that is not packed.
pub fn frames(mut stream: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        assert_eq!(&stream[..4], b"FBF1");
        assert_eq!(stream[5..8], [0, 0, 0], "no codec");
        let bytes = word(stream, 16) as usize;
        assert_eq!(word(stream, 12) as usize, bytes);
        let payload = &stream[24..24 + bytes];
        assert_eq!(word(stream, 20), checksum(payload));
        frames.push(Frame { kind: stream[4], rows: word(stream, 8) as usize, payload });
        stream = &stream[24 + bytes..];
    }
    frames
}

/// The rows of a frame of bodies, each column's value or `None` for NULL.
pub fn rows(
    frame: &Frame<'_>,
    columns: &[Tried],
    body_bytes_max: usize,
) -> Vec<Vec<Option<Value>>> {
    let mut rest = frame.payload;
    let rows = (0..frame.rows)
        .map(|_| {
            let head = u16::from_le_bytes([rest[0], rest[1]]);
            let length = usize::from(head & 0x7fff);
            assert!(length <= body_bytes_max, "{length} bytes are for the toaster");
            let body = &rest[2..2 + length];
            rest = &rest[2 + length..];
            row(body, head & 0x8000 != 0, columns)
        })
        .collect();
    assert!(rest.is_empty(), "bytes after the last row");
    rows
}

fn row(body: &[u8], has_bitmap: bool, columns: &[Tried]) -> Vec<Option<Value>> {
    let bitmap_bytes = if has_bitmap { columns.len().div_ceil(8) } else { 0 };
    // The tuple's header has 23 bytes, and its data begin at a multiple of 8.
    let data_at = (23 + bitmap_bytes).div_ceil(8) * 8 - 23;
    assert!(body[bitmap_bytes..data_at].iter().all(|byte| *byte == 0), "padding of the header");
    let is_there = |column: usize| !has_bitmap || body[column / 8] >> (column % 8) & 1 == 1;
    let extra = (columns.len()..bitmap_bytes * 8).find(|bit| is_there(*bit));
    assert_eq!(extra, None, "a bit behind the last column");
    assert!(!has_bitmap || (0..columns.len()).any(|column| !is_there(column)), "a useless bitmap");

    let data = &body[data_at..];
    let mut at = 0;
    let values = columns
        .iter()
        .enumerate()
        .map(|(number, column)| is_there(number).then(|| value(column, data, &mut at)))
        .collect();
    assert_eq!(at, data.len(), "bytes after the last column");
    values
}

/// Steps over padding, which is zero.
fn align(data: &[u8], at: &mut usize, to: usize) {
    while *at % to != 0 {
        assert_eq!(data[*at], 0, "padding at {at}");
        *at += 1;
    }
}

fn value(column: &Tried, data: &[u8], at: &mut usize) -> Value {
    let fixed = match column.form {
        "bool" => Some(1),
        "int2" => Some(2),
        "int4" | "float4" | "date" | "enum" => Some(4),
        "int8" | "float8" | "time" | "timestamp" | "timestamptz" => Some(8),
        "uuid" => Some(16),
        _ => None,
    };
    if let Some(bytes) = fixed {
        align(data, at, column.align);
        let value = data[*at..*at + bytes].to_vec();
        *at += bytes;
        return Value::Fixed(value);
    }
    // A header of one byte is odd and is never padded; zero is padding before one of four.
    let content = if data[*at] & 1 == 1 {
        assert!(!column.plain, "a short header in a column that is stored plainly");
        let length = usize::from(data[*at] >> 1);
        let content = &data[*at + 1..*at + length];
        *at += length;
        content
    } else {
        align(data, at, column.align);
        let head = word(data, *at);
        assert_eq!(head & 3, 0, "a value of four bytes' header that is not packed");
        let length = (head >> 2) as usize;
        assert!(column.plain || length - 4 > 126, "{length} bytes could have had a short header");
        let content = &data[*at + 4..*at + length];
        *at += length;
        content
    };
    match column.form {
        "numeric" => Value::Numeric(numeric(content)),
        _ => Value::Bytes(content.to_vec()),
    }
}

/// A numeric as the server prints it.
fn numeric(content: &[u8]) -> String {
    let at = |n: usize| u16::from_le_bytes([content[2 * n], content[2 * n + 1]]);
    assert_eq!(content.len() % 2, 0);
    let head = at(0);
    let (is_negative, scale, weight, first) = match head >> 14 {
        // The weight has seven bits, the highest for those below zero.
        2 => {
            let weight = i32::from(head & 0x3f) - if head & 0x40 != 0 { 64 } else { 0 };
            (head & 0x2000 != 0, usize::from(head >> 7 & 0x3f), weight, 1)
        }
        3 => panic!("NaN or infinity"),
        sign => {
            let (scale, weight) = (usize::from(head & 0x3fff), i32::from(at(1) as i16));
            assert!(scale > 63 || !(-64..64).contains(&weight), "the short header would have done");
            (sign == 1, scale, weight, 2)
        }
    };
    let digits: Vec<u16> = (first..content.len() / 2).map(at).collect();
    assert!(digits.iter().all(|digit| *digit < 10_000), "{digits:?}");
    assert!(digits.first() != Some(&0) && digits.last() != Some(&0), "{digits:?}");
    assert!(!digits.is_empty() || (weight == 0 && !is_negative), "zero");

    // Groups of four decimal digits, the first one counting 10,000 to the power of the weight.
    let group = |power: i32| {
        let index = usize::try_from(weight - power).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let whole: String = (0..=weight.max(0)).rev().map(|p| format!("{:04}", group(p))).collect();
    let whole = whole.trim_start_matches('0');
    let groups = scale.div_ceil(4) as i32;
    let last = weight - digits.len() as i32 + 1;
    let fraction: String = (1..=groups).map(|p| format!("{:04}", group(-p))).collect();
    assert!(digits.is_empty() || last >= -groups, "digits behind the scale");
    assert!(fraction[scale..].bytes().all(|digit| digit == b'0'), "digits behind the scale");
    let sign = if is_negative { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{}", &fraction[..scale])
}
