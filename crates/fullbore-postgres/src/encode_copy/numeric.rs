//! PostgreSQL's numeric in its binary form: 16-bit digit count, weight, sign and display scale,
//! then digits to the base 10,000 (see `numeric_send` in PostgreSQL's numeric.c).

use arrow_buffer::NullBuffer;

use crate::cursor::Place;
use crate::digits::{GROUPS_MAX, Groups, PlainDecimal, Scale, short_decimal};
use crate::small_decimals::{Tables, Written};

const NEGATIVE: u16 = 0x4000;

/// Most bytes that a decimal of 128 bits takes.
pub const BYTES_MAX: usize = 8 + 2 * GROUPS_MAX;

/// Bytes that [`write_text`] needs beside half of the text's: a group for each four digits, and
/// one more on either side of the point.
pub const TEXT_OVERHEAD_BYTES: usize = 8 + 2 * 2;

/// Writes length and value of `units` * 10^-`scale`.
///
/// Nearly every value has at most three groups, which fit one register: no loop, no branch.
#[inline(always)]
pub fn write_64(units: i64, scale: Scale, place: Place) -> Place {
    let magnitude = units.unsigned_abs();
    if magnitude >= scale.three_groups {
        return write_128(i128::from(units), scale.scale, place);
    }
    // 16 bits each, the highest of four empty.
    let [high, middle, low] = scale.three(magnitude);
    let groups = high << 32 | middle << 16 | low;
    // Groups before and after those that matter; zero counts as having none but leading ones.
    let leading = groups.leading_zeros() / 16;
    let trailing = (groups.trailing_zeros() / 16) & 3;
    let digits = 4 - leading - trailing;
    // The server sends zero with this weight, and what it sends is compared with what is written here.
    let weight = if groups == 0 { 0 } else { 3 - scale.fraction_groups - leading as i16 };
    let sign = if units < 0 { NEGATIVE } else { 0 };
    let head = head(digits, weight as u16, sign, u16::from(scale.scale));
    let shown = (groups << 16) << (16 * (leading - 1));
    place
        .put((8 + 2 * digits).to_be_bytes())
        .put(head.to_be_bytes())
        .put_some(shown.to_be_bytes(), 2 * digits as usize)
}

/// What [`write_64`] writes of each of these values, where all are small.
pub fn small(values: &[i64], scale: Scale, nulls: Option<&NullBuffer>) -> Option<&'static Written> {
    static TABLES: Tables = Tables::new();
    TABLES.of_all(scale.scale, values, nulls, |units, place| write_64(units, scale, place))
}

/// Digit count, weight, sign and display scale.
#[inline(always)]
fn head(digits: u32, weight: u16, sign: u16, scale: u16) -> u64 {
    u64::from(digits) << 48 | u64::from(weight) << 32 | u64::from(sign) << 16 | u64::from(scale)
}

/// As [`write_64`], for 128 bits.
#[inline(never)]
pub fn write_128(units: i128, scale: u8, place: Place) -> Place {
    let groups = Groups::of(units.unsigned_abs(), scale);
    let digits = groups.as_slice();
    let sign = if units < 0 { NEGATIVE } else { 0 };
    let head = head(digits.len() as u32, groups.weight as u16, sign, u16::from(scale));
    let place = place.put((8 + 2 * digits.len() as i32).to_be_bytes()).put(head.to_be_bytes());
    digits.iter().fold(place, |place, group| place.put(group.to_be_bytes()))
}

/// Writes length and value of a plain decimal of any size (`-12.340`).
#[inline(always)]
pub fn write_text(text: &[u8], place: Place) -> Place {
    match short_decimal(text) {
        Some((units, scale)) => write_64(units, scale, place),
        None => write_long_text(text, place),
    }
}

#[inline(never)]
fn write_long_text(text: &[u8], place: Place) -> Place {
    let decimal = PlainDecimal::new(text);
    let digits = decimal.count();
    let sign = if decimal.negative { NEGATIVE } else { 0 };
    let head = head(digits as u32, decimal.weight() as u16, sign, decimal.scale() as u16);
    let place = place.put((8 + 2 * digits as i32).to_be_bytes()).put(head.to_be_bytes());
    decimal.groups().fold(place, |place, group| place.put(group.to_be_bytes()))
}
