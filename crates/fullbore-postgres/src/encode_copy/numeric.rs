//! PostgreSQL's numeric in its binary form: 16-bit digit count, weight, sign and display scale,
//! then digits to the base 10,000 (see `numeric_send` in PostgreSQL's numeric.c).

use super::cursor::Place;

const NEGATIVE: u16 = 0x4000;
/// Digits of a 128-bit number to the base 10,000.
const GROUPS_MAX: usize = 11;

/// Most bytes that a decimal of 128 bits takes.
pub const BYTES_MAX: usize = 8 + 2 * GROUPS_MAX;

/// A scale, and what follows from it for all values of a column.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    scale: u8,
    /// Makes the digits after the point whole groups.
    widen: u32,
    /// The weight of a first group that has none before it in four.
    weight: u16,
    /// Values from here on have more than three groups.
    three_groups: u64,
}

impl Scale {
    pub const fn new(scale: u8) -> Self {
        let widen = [1u32, 1000, 100, 10][scale as usize % 4];
        let weight = 3 - scale.div_ceil(4) as i16;
        Self { scale, widen, weight: weight as u16, three_groups: 1_000_000_000_000 / widen as u64 }
    }
}

/// Digits of a decimal that surely fit 64 bits.
const SHORT_DIGITS: usize = 18;

/// Scales by number, for values that bring their own.
const SCALES: [Scale; SHORT_DIGITS + 1] = {
    let mut scales = [Scale::new(0); SHORT_DIGITS + 1];
    let mut scale = 0;
    while scale <= SHORT_DIGITS {
        scales[scale] = Scale::new(scale as u8);
        scale += 1;
    }
    scales
};

/// Writes length and value of a plain decimal of any size, as [`from_text`] reads it.
#[inline(always)]
pub fn write_text(text: &[u8], place: Place) -> Place {
    // With sign and point.
    if text.len() <= SHORT_DIGITS {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (mut units, mut scale) = (0i64, 0);
        for (at, byte) in digits.iter().enumerate() {
            if *byte == b'.' {
                scale = digits.len() - 1 - at;
            } else {
                debug_assert!(byte.is_ascii_digit(), "a plain decimal was promised");
                units = units * 10 + i64::from(byte - b'0');
            }
        }
        return write_64(if negative { -units } else { units }, SCALES[scale], place);
    }
    write_long_text(text, place)
}

#[inline(never)]
fn write_long_text(text: &[u8], place: Place) -> Place {
    let mut value = Vec::with_capacity(from_text_bytes_max(text.len()));
    from_text(text, &mut value);
    place.put((value.len() as i32).to_be_bytes()).put_range(&value, 0, value.len())
}

/// Writes length and value of `units` * 10^-`scale`.
///
/// Nearly every value has at most three groups, which fit one register: no loop, no branch.
#[inline(always)]
pub fn write_64(units: i64, scale: Scale, place: Place) -> Place {
    let magnitude = units.unsigned_abs();
    if magnitude >= scale.three_groups {
        return write_128(i128::from(units), scale.scale, place);
    }
    let value = magnitude * u64::from(scale.widen);
    let (high, low) = ((value / 100_000_000) as u32, (value % 100_000_000) as u32);
    // 16 bits each, the highest of four empty.
    let groups = u64::from(high) << 32 | u64::from(low / 10_000) << 16 | u64::from(low % 10_000);
    // Groups before and after those that matter; zero counts as having none but leading ones. What
    // weight it gets then is the same to the server, which normalizes it (make_result in
    // PostgreSQL's numeric.c).
    let leading = groups.leading_zeros() / 16;
    let trailing = (groups.trailing_zeros() / 16) & 3;
    let digits = 4 - leading - trailing;
    let weight = scale.weight.wrapping_sub(leading as u16);
    let sign = if units < 0 { NEGATIVE } else { 0 };
    let head = head(digits, weight, sign, scale.scale);
    let shown = (groups << 16) << (16 * (leading - 1));
    place
        .put((8 + 2 * digits).to_be_bytes())
        .put(head.to_be_bytes())
        .put_some(shown.to_be_bytes(), 2 * digits as usize)
}

/// Digit count, weight, sign and display scale.
#[inline(always)]
fn head(digits: u32, weight: u16, sign: u16, scale: u8) -> u64 {
    u64::from(digits) << 48 | u64::from(weight) << 32 | u64::from(sign) << 16 | u64::from(scale)
}

/// As [`write_64`], for 128 bits.
#[inline(never)]
pub fn write_128(units: i128, scale: u8, place: Place) -> Place {
    let fraction_groups = usize::from(scale).div_ceil(4);
    let widen = [1u128, 1000, 100, 10][usize::from(scale) % 4];
    let mut groups = [0u16; GROUPS_MAX];
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
    write_groups(&groups, count, fraction_groups, units < 0, scale, place)
}

fn write_groups(
    groups: &[u16],
    count: usize,
    fraction_groups: usize,
    negative: bool,
    scale: u8,
    place: Place,
) -> Place {
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
    let sign = if negative && digits > 0 { NEGATIVE } else { 0 };
    let mut place = place
        .put(((8 + 2 * digits) as i32).to_be_bytes())
        .put(head(digits as u32, weight as u16, sign, scale).to_be_bytes());
    for group in groups[lowest..count].iter().rev() {
        place = place.put(group.to_be_bytes());
    }
    place
}

/// Most bytes of [`from_text`]'s result for a text of so many bytes: a group for each four digits,
/// and one more on either side of the point.
pub const fn from_text_bytes_max(text_bytes: usize) -> usize {
    8 + 2 * 2 + text_bytes / 2
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
