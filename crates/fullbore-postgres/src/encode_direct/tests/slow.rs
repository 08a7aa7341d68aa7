//! The slow and obvious encoder: strings, one digit and one byte at a time.

use super::tried::Tried;

/// A value's bytes in a row: of fixed length with its alignment, or varlena.
pub enum Slow {
    Fixed(Vec<u8>, usize),
    Varlena(Vec<u8>),
}

pub fn slow_numeric(text: &str, column_scale: Option<usize>) -> Slow {
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

pub fn units_text(units: i128, scale: usize) -> String {
    let digits = format!("{:0>1$}", units.unsigned_abs(), scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if units < 0 { "-" } else { "" })
}

/// Half away from zero, by way of decimal places.
pub fn slow_round(value: i64, unit: i64) -> i64 {
    let (magnitude, unit) = (value.unsigned_abs(), unit as u64);
    let units = magnitude / unit + u64::from(magnitude % unit * 2 >= unit);
    (units * unit) as i64 * value.signum()
}

/// A row as `heap_fill_tuple` lays it out, its length before it.
pub fn slow_row(columns: &[Tried], values: &[&Option<Slow>]) -> Vec<u8> {
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

pub fn slow_crc(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
