//! Numbers, eight digits at a time.
//!
//! Each function parses the canonical spelling of a value and returns `None` for anything else: a plus
//! sign, spaces, exponents, digits that need rounding, values out of range. `None` is not an error:
//! the row is non-canonical, and the server checks it.
//!
//! Eight digits become a number with three multiplications (Daniel Lemire, "Quickly parsing eight
//! digits", 2018; the method goes back to Wojciech Muła).

/// Powers of ten that fit 64 bits.
pub const POWERS_OF_TEN: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// The digit 0, eight times.
pub const ZEROS: u64 = 0x3030_3030_3030_3030;

/// A field inside a padded buffer: at least 16 bytes are readable before `end`.
///
/// The buffer is kept with the offsets so that wide loads need no further check.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    padded: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Span<'a> {
    /// # Panics
    /// If the span is not inside the buffer with [`crate::constants::BLOCK_PADDING`] bytes around.
    #[inline(always)]
    pub fn new(padded: &'a [u8], start: usize, end: usize) -> Self {
        debug_assert!(start >= 16 && start <= end && end <= padded.len());
        Self { padded, start, end }
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    #[inline(always)]
    pub fn bytes(self) -> &'a [u8] {
        &self.padded[self.start..self.end]
    }

    /// The byte that many places before the end; 1 is the last.
    #[inline(always)]
    pub fn from_end(self, places: usize) -> u8 {
        self.padded[self.end - places]
    }

    #[inline(always)]
    pub fn first(self) -> u8 {
        self.padded[self.start]
    }

    #[inline(always)]
    pub fn skip(self, bytes: usize) -> Self {
        Self { start: self.start + bytes, ..self }
    }

    #[inline(always)]
    pub fn cut(self, bytes: usize) -> Self {
        Self { end: self.end - bytes, ..self }
    }

    /// The eight bytes before the end, first byte lowest.
    #[inline(always)]
    pub fn last_eight(self) -> u64 {
        let at = self.end - 8;
        u64::from_le_bytes(self.padded[at..at + 8].try_into().expect("eight bytes"))
    }

    /// That many bytes from the start, whatever stands after the field.
    #[inline(always)]
    pub fn following<const BYTES: usize>(self) -> Option<&'a [u8; BYTES]> {
        self.padded[self.start..].first_chunk()
    }
}

/// The number of eight digits, given as bytes 0..=9 with the first digit lowest; `None` where a
/// byte is no digit.
#[inline(always)]
pub fn eight_digits(digits: u64) -> Option<u64> {
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    Some(low.wrapping_add(high) >> 32)
}

/// One to eighteen digits, nothing else.
#[inline(always)]
pub fn digits(span: Span<'_>) -> Option<u64> {
    let len = span.len();
    // The first `len` bytes of eight are the field's; those before it are made zeros.
    let partial = |span: Span<'_>, len: usize| {
        eight_digits((span.last_eight() ^ ZEROS) & (!0u64 << (64 - 8 * len)))
    };
    match len {
        1..=8 => partial(span, len),
        9..=16 => {
            let low = eight_digits(span.last_eight() ^ ZEROS)?;
            let high = partial(span.cut(8), len - 8)?;
            Some(high * 100_000_000 + low)
        }
        17..=18 => {
            let low = eight_digits(span.last_eight() ^ ZEROS)?;
            let middle = eight_digits(span.cut(8).last_eight() ^ ZEROS)?;
            let high = partial(span.cut(16), len - 16)?;
            Some((high * 100_000_000 + middle) * 100_000_000 + low)
        }
        _ => None,
    }
}

#[inline(always)]
fn sign(span: Span<'_>) -> Option<(bool, Span<'_>)> {
    if span.is_empty() {
        return None;
    }
    let negative = span.first() == b'-';
    Some((negative, span.skip(usize::from(negative))))
}

/// A whole number of at most 18 digits.
#[inline(always)]
pub fn integer(span: Span<'_>) -> Option<i64> {
    let (negative, span) = sign(span)?;
    let value = digits(span)? as i64;
    Some(if negative { -value } else { value })
}

/// A whole number that may need all 19 digits of 64 bits.
#[inline(always)]
pub fn integer64(span: Span<'_>) -> Option<i64> {
    match integer(span) {
        Some(value) => Some(value),
        None => long_integer(span.bytes()),
    }
}

#[cold]
fn long_integer(field: &[u8]) -> Option<i64> {
    let digits = field.strip_prefix(b"-").unwrap_or(field);
    if digits.len() != 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// A decimal that fits 64 bits, as the number of units of its last place. At most `scale` digits
/// may follow the point, and the value must be under 10^`precision` units (`precision` <= 18).
#[inline(always)]
pub fn decimal64(span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
    let (negative, span) = sign(span)?;
    let scale = usize::from(scale);
    let len = span.len();
    // What nearly every field looks like: all digits of the scale are written.
    let units = if scale > 0 && scale <= 8 && len > scale + 1 && span.from_end(scale + 1) == b'.' {
        let fraction = Span { start: span.end - scale, ..span };
        let whole = digits(span.cut(scale + 1))?;
        if whole >= POWERS_OF_TEN[18 - scale] {
            return None;
        }
        whole * POWERS_OF_TEN[scale] + digits(fraction)?
    } else if let Some(whole) = digits(span).filter(|whole| *whole < POWERS_OF_TEN[18 - scale]) {
        whole * POWERS_OF_TEN[scale]
    } else {
        uneven_decimal64(span.bytes(), scale)?
    };
    if units >= POWERS_OF_TEN[usize::from(precision)] {
        return None;
    }
    Some(if negative { -(units as i64) } else { units as i64 })
}

fn uneven_decimal64(field: &[u8], scale: usize) -> Option<u64> {
    u64::try_from(uneven_decimal(field, scale)?).ok()
}

/// Digits with at most one point, made units of 10^-`scale`.
fn uneven_decimal(field: &[u8], scale: usize) -> Option<u128> {
    let (whole, fraction) = match memchr::memchr(b'.', field) {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() || fraction.len() > scale {
        return None;
    }
    let mut units: u128 = 0;
    for byte in whole.iter().chain(fraction) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        units = units.checked_mul(10)?.checked_add(u128::from(digit))?;
    }
    units.checked_mul(10u128.checked_pow((scale - fraction.len()) as u32)?)
}

/// As [`decimal64`], for up to 38 digits.
pub fn decimal128(span: Span<'_>, precision: u8, scale: u8) -> Option<i128> {
    let (negative, span) = sign(span)?;
    let units = uneven_decimal(span.bytes(), usize::from(scale))?;
    if units >= 10u128.pow(u32::from(precision)) {
        return None;
    }
    Some(if negative { -(units as i128) } else { units as i128 })
}

/// Whether a field is a plain decimal (`-12.340`) of any size, within (precision, scale) if given.
pub fn is_plain_decimal(field: &[u8], limits: Option<(u16, u16)>) -> bool {
    let unsigned = field.strip_prefix(b"-").unwrap_or(field);
    let (whole, fraction) = match memchr::memchr(b'.', unsigned) {
        Some(point) => (&unsigned[..point], &unsigned[point + 1..]),
        None => (unsigned, &[][..]),
    };
    // COPY's own limits are 131,072 digits before the point and 16,383 after it.
    let plain = !(whole.is_empty() && fraction.is_empty())
        && whole.len() <= 131_072
        && fraction.len() <= 16_383
        && whole.iter().chain(fraction).all(u8::is_ascii_digit);
    plain
        && limits.is_none_or(|(precision, scale)| {
            let leading_zeros = whole.iter().take_while(|b| **b == b'0').count();
            fraction.len() <= usize::from(scale)
                && whole.len() - leading_zeros + usize::from(scale) <= usize::from(precision)
        })
}
