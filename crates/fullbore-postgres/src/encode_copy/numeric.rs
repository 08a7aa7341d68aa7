//! PostgreSQL's numeric in its binary form: 16-bit digit count, weight, sign and display scale,
//! then digits to the base 10,000 (see `numeric_send` in PostgreSQL's numeric.c).

use super::cursor::Cursor;

const NEGATIVE: u16 = 0x4000;
/// Digits of a 64-bit number widened by up to 10^3, to the base 10,000.
const GROUPS_MAX_64: usize = 6;
const GROUPS_MAX_128: usize = 11;

/// Most bytes that a decimal of 64 or 128 bits takes.
pub const BYTES_MAX_64: usize = 8 + 2 * GROUPS_MAX_64;
pub const BYTES_MAX_128: usize = 8 + 2 * GROUPS_MAX_128;

/// Writes length and value of `units` * 10^-`scale`.
#[inline(always)]
pub fn write_64(units: i64, scale: u8, cursor: &mut Cursor<'_>) {
    let fraction_groups = usize::from(scale).div_ceil(4);
    let widen = [1u64, 1000, 100, 10][usize::from(scale) % 4];
    match units.unsigned_abs().checked_mul(widen) {
        Some(value) => {
            let mut groups = [0u16; GROUPS_MAX_64];
            let mut count = 0;
            let mut rest = value;
            while rest != 0 {
                groups[count] = (rest % 10_000) as u16;
                rest /= 10_000;
                count += 1;
            }
            write_groups(&groups, count, fraction_groups, units < 0, scale, cursor);
        }
        None => write_128(i128::from(units), scale, cursor),
    }
}

/// As [`write_64`], for 128 bits.
pub fn write_128(units: i128, scale: u8, cursor: &mut Cursor<'_>) {
    let fraction_groups = usize::from(scale).div_ceil(4);
    let widen = [1u128, 1000, 100, 10][usize::from(scale) % 4];
    let mut groups = [0u16; GROUPS_MAX_128];
    let mut count = 0;
    // 38 digits have no room for three more: the lowest group is made apart.
    let magnitude = units.unsigned_abs();
    let low_unit = 10_000 / widen;
    let (mut rest, mut low) = match widen {
        1 => (magnitude, None),
        _ => (magnitude / low_unit, Some((magnitude % low_unit * widen) as u16)),
    };
    if let Some(low) = low.take() {
        groups[0] = low;
        count = 1;
    }
    while rest != 0 {
        groups[count] = (rest % 10_000) as u16;
        rest /= 10_000;
        count += 1;
    }
    if magnitude == 0 {
        count = 0;
    }
    write_groups(&groups, count, fraction_groups, units < 0, scale, cursor);
}

#[inline(always)]
fn write_groups(
    groups: &[u16],
    count: usize,
    fraction_groups: usize,
    negative: bool,
    scale: u8,
    cursor: &mut Cursor<'_>,
) {
    let mut lowest = 0;
    while lowest < count && groups[lowest] == 0 {
        lowest += 1;
    }
    let mut count = count;
    while count > lowest && groups[count - 1] == 0 {
        count -= 1;
    }
    let digits = count - lowest;
    let weight = if digits == 0 { 0 } else { count as i32 - 1 - fraction_groups as i32 };
    cursor.put(((8 + 2 * digits) as i32).to_be_bytes());
    let sign = if negative && digits > 0 { NEGATIVE } else { 0 };
    let head = (digits as u64) << 48
        | u64::from(weight as u16) << 32
        | u64::from(sign) << 16
        | u64::from(scale);
    cursor.put(head.to_be_bytes());
    for group in groups[lowest..count].iter().rev() {
        cursor.put(group.to_be_bytes());
    }
}

/// The binary form of a plain decimal of any size (`-12.340`), without its length.
///
/// # Panics
/// If the text holds anything but an optional minus, digits and at most one point.
pub fn from_text(text: &[u8], out: &mut Vec<u8>) {
    let (negative, unsigned) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let point = unsigned.iter().position(|b| *b == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&unsigned[..point], &unsigned[point + 1..]),
        None => (unsigned, &[][..]),
    };
    let digit = |place: isize| -> u16 {
        // Place 0 is the digit before the point, -1 the first one after it.
        let byte = if place >= 0 {
            let place = place as usize;
            if place < whole.len() { whole[whole.len() - 1 - place] } else { b'0' }
        } else {
            fraction.get((-place - 1) as usize).copied().unwrap_or(b'0')
        };
        assert!(byte.is_ascii_digit(), "a plain decimal was promised");
        u16::from(byte - b'0')
    };
    let whole_groups = whole.len().div_ceil(4) as isize;
    let fraction_groups = fraction.len().div_ceil(4) as isize;
    // From the highest group to the lowest; group g covers places 4g..4g+4.
    let mut groups: Vec<u16> = (-fraction_groups..whole_groups)
        .rev()
        .map(|group| (0..4).rev().fold(0, |value, place| value * 10 + digit(group * 4 + place)))
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let weight = if groups.is_empty() { 0 } else { whole_groups - 1 - leading as isize };
    let sign = if negative && !groups.is_empty() { NEGATIVE } else { 0 };
    for word in [groups.len() as u16, weight as i16 as u16, sign, fraction.len() as u16] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}
