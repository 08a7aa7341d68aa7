//! What `numeric_send` gives of a stored numeric: 16-bit digit count, weight, sign and display scale,
//! then digits to the base 10,000, without zeros at either end; zero has no digits, weight 0 and no
//! sign.

use super::hash::Hash;
use crate::digits::{Groups, PlainDecimal, Scale};

const NEGATIVE: u16 = 0x4000;

/// The hash of `units` * 10^-`scale`. Nearly every value has at most three groups, which fit one
/// register.
#[inline(always)]
pub fn hash_64<H: Hash>(units: i64, scale: Scale) -> u32 {
    let magnitude = units.unsigned_abs();
    if magnitude >= scale.three_groups {
        return hash_long::<H>(units, scale.scale);
    }
    let [high, middle, low] = scale.three(magnitude);
    // 16 bits each, the highest of four empty.
    let groups = high << 32 | middle << 16 | low;
    let leading = groups.leading_zeros() / 16;
    let trailing = (groups.trailing_zeros() / 16) & 3;
    let digits = 4 - leading - trailing;
    let weight = if units == 0 { 0 } else { 3 - scale.fraction_groups - leading as i16 };
    let sign = if units < 0 { NEGATIVE } else { 0 };
    let head = u64::from(digits) << 48
        | u64::from(weight as u16) << 32
        | u64::from(sign) << 16
        | u64::from(scale.scale);
    let shown = (groups << 16) << (16 * (leading - 1));
    H::two_words(head.swap_bytes(), shown.swap_bytes(), 2 * digits as usize)
}

#[inline(never)]
fn hash_long<H: Hash>(units: i64, scale: u8) -> u32 {
    let mut bytes = Vec::with_capacity(32);
    write(i128::from(units), scale, &mut bytes);
    H::bytes(&bytes)
}

fn head(digits: usize, weight: i32, negative: bool, scale: usize, out: &mut Vec<u8>) {
    out.extend((digits as u16).to_be_bytes());
    out.extend((weight as i16).to_be_bytes());
    out.extend((if negative { NEGATIVE } else { 0 }).to_be_bytes());
    out.extend((scale as u16).to_be_bytes());
}

/// Appends `units` * 10^-`scale`.
pub fn write(units: i128, scale: u8, out: &mut Vec<u8>) {
    let groups = Groups::of(units.unsigned_abs(), scale);
    let digits = groups.as_slice();
    head(digits.len(), groups.weight, units < 0, usize::from(scale), out);
    digits.iter().for_each(|group| out.extend(group.to_be_bytes()));
}

/// Appends a plain decimal, `-12.340`, with the scale of its column where that has one.
pub fn write_text(text: &[u8], scale: Option<u16>, out: &mut Vec<u8>) {
    let decimal = PlainDecimal::new(text);
    let scale = scale.map_or(decimal.scale(), usize::from);
    head(decimal.count(), decimal.weight(), decimal.negative, scale, out);
    decimal.groups().for_each(|group| out.extend(group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::hash::{HashKind, Lookup3, PlainCrc};
    use super::*;

    fn bytes(units: i128, scale: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(units, scale, &mut bytes);
        bytes
    }

    #[test]
    fn zero_has_no_weight_and_no_sign() {
        assert_eq!(bytes(0, 2), [0, 0, 0, 0, 0, 0, 0, 2]);
        let mut text = Vec::new();
        write_text(b"-0.00", None, &mut text);
        assert_eq!(text, bytes(0, 2));
    }

    #[test]
    fn the_short_way_and_the_long_one_agree() {
        let units = [0, 1, -1, 9_999, 10_000, 123_456_789, -99_999_999_999, 1_000_000_000_000];
        for scale in 0..=18 {
            for units in units.iter().copied().chain([i64::MAX / 10, 5 << 40, 10i64.pow(17)]) {
                let written = bytes(i128::from(units), scale);
                let of = Scale::new(scale);
                let crc = hash_64::<PlainCrc>(units, of);
                assert_eq!(crc, HashKind::Crc32c.of(&written), "{units} {scale}");
                let lookup = hash_64::<Lookup3>(units, of);
                assert_eq!(lookup, HashKind::Lookup3.of(&written), "{units} {scale}");
            }
        }
    }
}
