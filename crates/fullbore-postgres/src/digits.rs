//! Decimals as digits to the base 10,000, four decimal digits a group: what PostgreSQL's numeric is
//! made of, on its way as in a row.

/// Digits of a 128-bit number to the base 10,000, one more for the scale.
pub const GROUPS_MAX: usize = 11;

/// A scale, and what follows from it for all values of a column.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub scale: u8,
    /// Groups after the point.
    pub fraction_groups: i16,
    /// Makes the digits after the point whole groups.
    widen: u32,
    /// Values from here on have more than three groups.
    pub three_groups: u64,
}

impl Scale {
    pub const fn new(scale: u8) -> Self {
        let widen = [1u32, 1000, 100, 10][scale as usize % 4];
        Self {
            scale,
            fraction_groups: scale.div_ceil(4) as i16,
            widen,
            three_groups: 1_000_000_000_000 / widen as u64,
        }
    }

    /// The three groups of a value below [`Self::three_groups`], the highest first.
    #[inline(always)]
    pub fn three(self, magnitude: u64) -> [u64; 3] {
        let value = magnitude * u64::from(self.widen);
        let (high, low) = (value / 100_000_000, (value % 100_000_000) as u32);
        [high, u64::from(low / 10_000), u64::from(low % 10_000)]
    }
}

/// Bytes of a plain decimal whose digits surely fit 64 bits.
pub const SHORT_BYTES: usize = 18;

/// Scales by number, for values that bring their own.
const SCALES: [Scale; SHORT_BYTES + 1] = {
    let mut scales = [Scale::new(0); SHORT_BYTES + 1];
    let mut scale = 0;
    while scale <= SHORT_BYTES {
        scales[scale] = Scale::new(scale as u8);
        scale += 1;
    }
    scales
};

/// A plain decimal that is short, as nearly all are: its digits as a number, and their scale.
#[inline(always)]
pub fn short_decimal(text: &[u8]) -> Option<(i64, Scale)> {
    if text.len() > SHORT_BYTES {
        return None;
    }
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut units, mut scale) = (0i64, 0);
    for (at, byte) in unsigned.iter().enumerate() {
        if *byte == b'.' {
            scale = unsigned.len() - 1 - at;
        } else {
            debug_assert!(byte.is_ascii_digit(), "a plain decimal was promised");
            units = units * 10 + i64::from(byte - b'0');
        }
    }
    Some((if negative { -units } else { units }, SCALES[scale]))
}

/// The groups of a number, without zeros at either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// The highest first.
    groups: [u16; GROUPS_MAX],
    start: usize,
    end: usize,
    /// The power of 10,000 that the first group counts; 0 for the number zero.
    pub weight: i32,
}

impl Groups {
    /// The groups of `magnitude` * 10^-`scale`, `magnitude` of at most 38 digits.
    pub fn of(magnitude: u128, scale: u8) -> Self {
        let widen = [1u128, 1000, 100, 10][usize::from(scale) % 4];
        let mut groups = [0u16; GROUPS_MAX];
        let mut first = GROUPS_MAX;
        let mut push = |group: u128| {
            first -= 1;
            groups[first] = group as u16;
        };
        // 38 digits have no room for three more: the lowest group is made apart.
        let low_unit = 10_000 / widen;
        let mut rest = magnitude;
        if widen != 1 {
            push(magnitude % low_unit * widen);
            rest = magnitude / low_unit;
        }
        while rest != 0 {
            push(rest % 10_000);
            rest /= 10_000;
        }
        let weight = (GROUPS_MAX - first) as i32 - 1 - i32::from(scale.div_ceil(4));
        let (mut start, mut end) = (first, GROUPS_MAX);
        while start < end && groups[start] == 0 {
            start += 1;
        }
        while end > start && groups[end - 1] == 0 {
            end -= 1;
        }
        let weight = if start == end { 0 } else { weight - (start - first) as i32 };
        Self { groups, start, end, weight }
    }

    pub fn as_slice(&self) -> &[u16] {
        &self.groups[self.start..self.end]
    }
}

/// A plain decimal of any size, `-12.340`, taken apart without being copied.
#[derive(Debug, Clone, Copy)]
pub struct PlainDecimal<'a> {
    /// False for a negative zero.
    pub negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// The powers of 10,000 of the first and of the last group that is not zero.
    ends: Option<(i32, i32)>,
}

impl<'a> PlainDecimal<'a> {
    /// # Panics
    /// If the text holds anything but an optional minus, digits and at most one point.
    pub fn new(text: &'a [u8]) -> Self {
        let (negative, unsigned) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        let (whole, fraction) = match unsigned.iter().position(|byte| *byte == b'.') {
            Some(point) => (&unsigned[..point], &unsigned[point + 1..]),
            None => (unsigned, &[][..]),
        };
        let is_plain = whole.iter().chain(fraction).all(u8::is_ascii_digit);
        assert!(is_plain, "a plain decimal was promised");
        // The group of a digit, counted from the first one: 0 is the one before the point.
        let group = |at: usize| (whole.len() as i32 - 1 - at as i32).div_euclid(4);
        let counts = |digit: &u8| *digit != b'0';
        let after = |at: usize| whole.len() + at;
        let first = whole.iter().position(counts).or(fraction.iter().position(counts).map(after));
        let last = fraction.iter().rposition(counts).map(after).or(whole.iter().rposition(counts));
        let ends = first.zip(last).map(|(first, last)| (group(first), group(last)));
        Self { negative: negative && ends.is_some(), whole, fraction, ends }
    }

    /// Digits after the point, as written.
    pub fn scale(&self) -> usize {
        self.fraction.len()
    }

    pub fn weight(&self) -> i32 {
        self.ends.map_or(0, |(first, _)| first)
    }

    pub fn count(&self) -> usize {
        self.ends.map_or(0, |(first, last)| (first - last + 1) as usize)
    }

    /// The groups from the first to the last that is not zero.
    pub fn groups(&self) -> impl Iterator<Item = u16> + '_ {
        let (first, last) = self.ends.unwrap_or((-1, 0));
        (last..=first).rev().map(|group| {
            (0..4).rev().fold(0, |value, place| value * 10 + self.digit(group * 4 + place))
        })
    }

    fn digit(&self, place: i32) -> u16 {
        let at = self.whole.len() as i64 - 1 - i64::from(place);
        let digit = match usize::try_from(at) {
            Ok(at) if at < self.whole.len() => self.whole[at],
            Ok(at) => self.fraction.get(at - self.whole.len()).copied().unwrap_or(b'0'),
            Err(_) => b'0',
        };
        u16::from(digit - b'0')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_numbers_and_of_their_texts_are_the_same() {
        let cases: [(i128, u8, &str, &[u16], i32); 12] = [
            (0, 2, "0.00", &[], 0),
            (1, 0, "1", &[1], 0),
            (10_000, 0, "10000", &[1], 1),
            (12_345, 2, "123.45", &[123, 4500], 0),
            (5, 4, "0.0005", &[5], -1),
            (5, 5, "0.00005", &[5000], -2),
            (123_456_789, 0, "0123456789", &[1, 2345, 6789], 2),
            (100_000_000, 1, "10000000.0", &[1000], 1),
            (100_000_001, 8, "1.00000001", &[1, 0, 1], 0),
            (10i128.pow(37), 38, ".10000000000000000000000000000000000000", &[1000], -1),
            (7, 38, "0.00000000000000000000000000000000000007", &[700], -10),
            (-25, 1, "-2.5", &[2, 5000], 0),
        ];
        for (units, scale, text, groups, weight) in cases {
            let of_number = Groups::of(units.unsigned_abs(), scale);
            assert_eq!((of_number.as_slice(), of_number.weight), (groups, weight), "{text}");
            let of_text = PlainDecimal::new(text.as_bytes());
            assert_eq!(of_text.groups().collect::<Vec<_>>(), groups, "{text}");
            assert_eq!((of_text.count(), of_text.weight()), (groups.len(), weight), "{text}");
            assert_eq!((of_text.negative, of_text.scale()), (units < 0, usize::from(scale)));
        }
        assert!(!PlainDecimal::new(b"-0.0").negative);
        let largest = Groups::of(10u128.pow(38) - 1, 1);
        assert_eq!(largest.as_slice().len(), 11);
        assert_eq!(largest.as_slice()[10], 9000);
    }
}
