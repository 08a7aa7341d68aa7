//! Floating-point numbers, correctly rounded.
//!
//! As with other numbers, `None` is not an error: the row is non-canonical, and the server checks it.

use std::str::FromStr;

use super::numbers::{POWERS_OF_TEN, ZEROS, eight_digits};

/// The most digits of which every number fits 64 bits.
const DIGITS_MAX: usize = 19;

/// A number without exponent, `digits` / 10^`places`.
#[derive(Clone, Copy)]
struct Plain {
    negative: bool,
    digits: u64,
    places: usize,
}

impl Plain {
    /// Digits with at most one point among them, up to 19 of them and one at least.
    #[inline(always)]
    fn read(field: &[u8]) -> Option<Self> {
        let negative = field.first() == Some(&b'-');
        let unsigned = &field[usize::from(negative)..];
        if unsigned.len() > DIGITS_MAX + 1 {
            return None;
        }
        // Few digits stand before the point, most after it.
        let (mut whole, mut before) = (0u64, 0);
        while let Some(digit @ 0..=9) = unsigned.get(before).map(|byte| byte.wrapping_sub(b'0')) {
            if before == DIGITS_MAX {
                return None;
            }
            whole = whole * 10 + u64::from(digit);
            before += 1;
        }
        let after = match unsigned[before..].split_first() {
            None => &[],
            Some((b'.', after)) => after,
            Some(_) => return None,
        };
        let places = after.len();
        if !(1..=DIGITS_MAX).contains(&(before + places)) {
            return None;
        }
        let digits = whole * POWERS_OF_TEN[places] + all_digits(after)?;
        Some(Self { negative, digits, places })
    }

    /// A number q and an exponent e so that q * 2^e, with q rounded to fewer bits than 62, is the value
    /// correctly rounded to as many. Not for 0.
    ///
    /// Both sides of the fraction are moved up to their highest bit, so that the quotient has 63 bits
    /// at least; what the division leaves becomes the quotient's last bit, which no rounding of fewer
    /// bits can take for a half then.
    #[inline(always)]
    fn quotient(self) -> (u64, i32) {
        let divisor = POWERS_OF_TEN[self.places];
        let (up, divisor_up) = (self.digits.leading_zeros(), divisor.leading_zeros());
        let dividend = u128::from(self.digits << up) << 63;
        let divisor = u128::from(divisor << divisor_up);
        let quotient = dividend / divisor;
        let is_exact = quotient * divisor == dividend;
        (quotient as u64 | u64::from(!is_exact), divisor_up as i32 - up as i32 - 63)
    }
}

/// Up to 19 digits and nothing else, as a number; of none 0. Unlike [`super::numbers::digits`] it reads
/// nothing before the field: what is inferred from has no padding.
#[inline(always)]
fn all_digits(field: &[u8]) -> Option<u64> {
    let (eights, few) = field.as_chunks::<8>();
    let Some(last) = field.last_chunk::<8>() else {
        return field.iter().try_fold(0, |value, byte| match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => Some(value * 10 + u64::from(digit)),
            _ => None,
        });
    };
    let mut value = 0;
    for eight in eights {
        value = value * POWERS_OF_TEN[8] + eight_digits(u64::from_le_bytes(*eight) ^ ZEROS)?;
    }
    // The few that are left are the last of the last eight, with zeros for those before them.
    let few = few.len();
    let kept = u64::MAX.checked_shl(64 - 8 * few as u32).unwrap_or(0);
    let rest = eight_digits((u64::from_le_bytes(*last) ^ ZEROS) & kept)?;
    Some(value * POWERS_OF_TEN[few] + rest)
}

/// A double, correctly rounded; out of range either way is `None`.
///
/// Digits that fit a double's 53 bits, divided by a power of ten that is exact in it, are rounded
/// once and so correctly (William Clinger, "How to read floating point numbers accurately", 1990).
pub fn float64(field: &[u8]) -> Option<f64> {
    let Some(plain) = Plain::read(field) else { return any(field) };
    let value = if plain.digits <= 1 << f64::MANTISSA_DIGITS {
        plain.digits as f64 / POWERS_OF_TEN[plain.places] as f64
    } else {
        let (quotient, exponent) = plain.quotient();
        // At least 2^53 / 10^19 and under 2^64: as exact as the quotient's rounding.
        quotient as f64 * f64::from_bits(((1023 + exponent) as u64) << 52)
    };
    Some(if plain.negative { -value } else { value })
}

/// As [`float64`], in 24 bits, and not by way of a double.
pub fn float32(field: &[u8]) -> Option<f32> {
    let Some(plain) = Plain::read(field) else { return any(field) };
    // 10^10 is the last power of ten that is exact in a float.
    let value =
        if plain.digits == 0 || plain.digits <= 1 << f32::MANTISSA_DIGITS && plain.places <= 10 {
            plain.digits as f32 / POWERS_OF_TEN[plain.places] as f32
        } else {
            let (quotient, exponent) = plain.quotient();
            // At least 10^-19 and under 2^64.
            quotient as f32 * f32::from_bits(((127 + exponent) as u32) << 23)
        };
    Some(if plain.negative { -value } else { value })
}

/// Whether a field consists of what a decimal floating-point number is written with.
fn looks_like_float(field: &[u8]) -> bool {
    !field.is_empty()
        && field.len() <= 400
        && field.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'))
}

/// A value that came out as zero although a digit of it was not: too small for the type.
fn underflows(field: &[u8]) -> bool {
    let mantissa = field.split(|b| matches!(b, b'e' | b'E')).next().unwrap_or(field);
    mantissa.iter().any(|b| (b'1'..=b'9').contains(b))
}

/// Any way of writing a number that the standard library knows too.
fn any<F: FromStr + Copy + Into<f64>>(field: &[u8]) -> Option<F> {
    if !looks_like_float(field) {
        return None;
    }
    let value: F = std::str::from_utf8(field).ok()?.parse().ok()?;
    let wide = value.into();
    (wide.is_finite() && (wide != 0.0 || !underflows(field))).then_some(value)
}
