//! Estimates the memory of a page's decoded rows without decoding them.
//!
//! A page of some kilobytes can stand for gigabytes: values may share their beginnings
//! (DELTA_BYTE_ARRAY), and a run of a billion list items takes a few bytes. Values that repeat by a
//! dictionary are no danger, as views of it.

use parquet::basic::{Encoding, Type};

/// What is known of a column from the schema.
#[derive(Debug, Clone, Copy)]
pub struct Leaf {
    pub physical: Type,
    /// Of FIXED_LEN_BYTE_ARRAY.
    pub type_length: usize,
    pub max_rep_level: i16,
    pub max_def_level: i16,
}

/// A page's parts.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// Repetition levels, where they are run-length encoded.
    pub repetitions: Option<&'a [u8]>,
    pub values: &'a [u8],
    /// Values and NULLs.
    pub count: u64,
    pub encoding: Encoding,
}

/// What a page takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that each row takes at most; on average where all of the page are few.
    pub row_bytes: u64,
    /// Bytes of the row that takes most.
    pub longest_row_bytes: u64,
    /// Bytes that decoding takes besides, whatever number of rows is read.
    pub fixed_bytes: u64,
}

/// Why a page can't be measured: it is damaged.
pub type Damage = &'static str;

const VIEW_BYTES: u64 = 16;
/// Of a nested value's levels and its list's offset.
const LEVEL_BYTES: u64 = 8;

/// Measures a page. `carried` are the values so far of a row that may go on from the page before.
/// Pages whose values come to less than `few` bytes are measured by their average.
pub fn measure(leaf: Leaf, page: Parts<'_>, carried: &mut u64, few: u64) -> Result<Cost, Damage> {
    let Value { each, longest, fixed } = value(leaf, page)?;
    if leaf.max_rep_level == 0 {
        let is_few = page.count.saturating_mul(each) <= few;
        let row_bytes = if is_few { each } else { longest };
        return Ok(Cost { row_bytes, longest_row_bytes: longest, fixed_bytes: fixed });
    }
    let (rows, most) = match page.repetitions {
        Some(levels) => rows(levels, leaf.max_rep_level, page.count, carried)?,
        // An encoding that no writer uses any more: as if all were one row.
        None => (1, page.count),
    };
    let (each, longest) = (each + LEVEL_BYTES, longest + LEVEL_BYTES);
    let all = page.count.saturating_mul(each);
    let longest_row_bytes = most.saturating_mul(longest);
    let row_bytes = if all <= few { all.div_ceil(rows.max(1)) } else { longest_row_bytes };
    Ok(Cost { row_bytes, longest_row_bytes, fixed_bytes: fixed })
}

/// Bytes of a value: on average, and of the longest.
struct Value {
    each: u64,
    longest: u64,
    fixed: u64,
}

fn value(leaf: Leaf, page: Parts<'_>) -> Result<Value, Damage> {
    let same = |bytes| Value { each: bytes, longest: bytes, fixed: 0 };
    let count = page.count.max(1);
    Ok(match (leaf.physical, page.encoding) {
        (Type::BOOLEAN, _) => same(1),
        (Type::INT32 | Type::FLOAT, _) => same(4),
        // A decimal of them has 16.
        (Type::INT64 | Type::DOUBLE | Type::INT96, _) => same(16),
        (Type::FIXED_LEN_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY) => {
            let shared = shared_beginnings(page.values, page.count)?;
            Value { fixed: shared.fixed, ..same(leaf.type_length as u64 + VIEW_BYTES) }
        }
        (Type::FIXED_LEN_BYTE_ARRAY, _) => same(leaf.type_length as u64 + VIEW_BYTES),
        (Type::BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY) => {
            shared_beginnings(page.values, page.count)?
        }
        (Type::BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY) => {
            let lengths = Deltas::new(page.values)?;
            let fixed = 4 * lengths.expect_at_most(page.count)?;
            Value { fixed, ..same(VIEW_BYTES + (page.values.len() as u64).div_ceil(count)) }
        }
        (Type::BYTE_ARRAY, Encoding::PLAIN) => {
            same(VIEW_BYTES + (page.values.len() as u64).div_ceil(count))
        }
        (Type::BYTE_ARRAY, _) => same(VIEW_BYTES),
    })
}

/// Values of which each begins as the one before: the lengths of what is shared, then those of what
/// follows.
fn shared_beginnings(values: &[u8], count: u64) -> Result<Value, Damage> {
    let mut shared = Deltas::new(values)?;
    let number = shared.expect_at_most(count)?;
    while shared.next()?.is_some() {}
    let mut shared_again = Deltas::new(values)?;
    let mut own = Deltas::new(shared.rest())?;
    if own.expect_at_most(count)? != number {
        return Err("its values have no two lengths each");
    }
    let (mut before, mut longest, mut all) = (0u64, 0u64, 0u64);
    while let (Some(shared), Some(own)) = (shared_again.next()?, own.next()?) {
        let (Ok(shared), Ok(own)) = (u64::try_from(shared), u64::try_from(own)) else {
            return Err("a value has a negative length");
        };
        if shared > before {
            return Err("a value shares more with the one before than that has");
        }
        before = shared + own;
        longest = longest.max(before);
        all = all.saturating_add(before);
    }
    Ok(Value {
        each: VIEW_BYTES + all.div_ceil(count.max(1)),
        longest: VIEW_BYTES + longest,
        fixed: 8 * number + longest,
    })
}

/// How many rows begin in a page, and how many values the longest has, what it had before included.
fn rows(levels: &[u8], max: i16, count: u64, carried: &mut u64) -> Result<(u64, u64), Damage> {
    let bits = (i16::BITS - max.leading_zeros()) as usize;
    let (mut rest, mut left) = (levels, count);
    let (mut rows, mut most) = (0u64, *carried);
    let mut take = |level: u64, times: u64| {
        if level > 0 {
            *carried = carried.saturating_add(times);
        } else {
            rows += times;
            *carried = 1;
        }
        most = most.max(*carried);
    };
    while left > 0 {
        let head = varint(&mut rest)?;
        if head & 1 == 0 {
            let bytes = bits.div_ceil(8);
            let value = rest.get(..bytes).ok_or(CUT_OFF)?;
            rest = &rest[bytes..];
            let level = value.iter().rev().fold(0, |level, byte| level << 8 | u64::from(*byte));
            let times = (head >> 1).min(left);
            if times == 0 {
                return Err("a run of levels is empty");
            }
            take(level, times);
            left -= times;
            continue;
        }
        let values = (head >> 1).saturating_mul(8).min(left);
        let bytes = (values as usize).saturating_mul(bits).div_ceil(8);
        let packed = rest.get(..bytes).ok_or(CUT_OFF)?;
        if values == 0 {
            return Err("a run of levels is empty");
        }
        for at in 0..values as usize {
            let level = (0..bits).fold(0, |level, bit| {
                let bit_at = at * bits + bit;
                level | u64::from(packed[bit_at / 8] >> (bit_at % 8) & 1) << bit
            });
            take(level, 1);
        }
        // Whole groups of eight are stored, except perhaps the last.
        let stored = ((head >> 1) as usize).saturating_mul(bits).min(rest.len());
        rest = &rest[stored..];
        left -= values;
    }
    Ok((rows, most))
}

const CUT_OFF: Damage = "it is cut off";

fn varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(CUT_OFF)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long")
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Numbers in DELTA_BINARY_PACKED, one after the other (Encodings.md of parquet-format).
struct Deltas<'a> {
    rest: &'a [u8],
    count: u64,
    left: u64,
    last: i64,
    miniblocks: usize,
    values_per_miniblock: usize,
    min_delta: i64,
    /// Widths of the block's miniblocks that are still to come.
    widths: &'a [u8],
    /// The miniblock that is read: its bits, their width, and the next value's place.
    packed: &'a [u8],
    width: usize,
    at: usize,
}

impl<'a> Deltas<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut rest = bytes;
        let block = varint(&mut rest)?;
        let miniblocks = varint(&mut rest)?;
        let count = varint(&mut rest)?;
        let first = zigzag(varint(&mut rest)?);
        if miniblocks == 0
            || miniblocks > 512
            || block > 1 << 20
            || !block.is_multiple_of(miniblocks)
        {
            return Err("its blocks have no such size");
        }
        let values_per_miniblock = (block / miniblocks) as usize;
        if values_per_miniblock == 0 || !values_per_miniblock.is_multiple_of(8) {
            return Err("its blocks have no such size");
        }
        Ok(Self {
            rest,
            count,
            left: count,
            last: first,
            miniblocks: miniblocks as usize,
            values_per_miniblock,
            min_delta: 0,
            widths: &[],
            packed: &[],
            width: 0,
            at: values_per_miniblock,
        })
    }

    /// How many numbers there are, where that is not more than could be.
    fn expect_at_most(&self, most: u64) -> Result<u64, Damage> {
        if self.count > most { Err("it has more lengths than values") } else { Ok(self.count) }
    }

    fn next(&mut self) -> Result<Option<i64>, Damage> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.left < self.count {
            self.advance()?;
        }
        self.left -= 1;
        // The lengths are of 32 bits, and wrap.
        Ok(Some(i64::from(self.last as i32)))
    }

    fn advance(&mut self) -> Result<(), Damage> {
        if self.at == self.values_per_miniblock {
            if self.widths.is_empty() {
                self.min_delta = zigzag(varint(&mut self.rest)?);
                self.widths = self.rest.get(..self.miniblocks).ok_or(CUT_OFF)?;
                self.rest = &self.rest[self.miniblocks..];
            }
            let (width, widths) = self.widths.split_first().expect("it was looked at");
            (self.width, self.widths) = (usize::from(*width), widths);
            if self.width > 64 {
                return Err("a number has more than 64 bits");
            }
            let bytes = self.values_per_miniblock / 8 * self.width;
            // The last miniblock may end with its last value.
            let bytes = bytes.min(self.rest.len());
            (self.packed, self.rest) = self.rest.split_at(bytes);
            self.at = 0;
        }
        let from = self.at * self.width;
        if (from + self.width).div_ceil(8) > self.packed.len() {
            return Err(CUT_OFF);
        }
        let delta = (0..self.width).fold(0u64, |delta, bit| {
            let bit_at = from + bit;
            delta | u64::from(self.packed[bit_at / 8] >> (bit_at % 8) & 1) << bit
        });
        self.at += 1;
        self.last = self.last.wrapping_add(self.min_delta).wrapping_add(delta as i64);
        Ok(())
    }

    /// What stands behind the numbers, once all are read.
    fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of eight levels of one bit, or runs.
    fn levels(parts: &[(bool, u64, u8)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (is_packed, count, byte) in parts {
            let mut head = count << 1 | u64::from(*is_packed);
            while head >= 0x80 {
                out.push(head as u8 | 0x80);
                head >>= 7;
            }
            out.push(head as u8);
            out.push(*byte);
        }
        out
    }

    #[test]
    fn rows_are_counted_through_runs_and_groups() {
        let mut carried = 0;
        // Three rows of one value, then a row of 1 + 1,000,000.
        let run = levels(&[(false, 4, 0), (false, 1_000_000, 1)]);
        assert_eq!(rows(&run, 1, 1_000_004, &mut carried), Ok((4, 1_000_001)));
        // It goes on in the next page: 1 1 0 1 0 0 1 1, lowest bit first.
        let group = levels(&[(true, 1, 0b1100_1011)]);
        assert_eq!(rows(&group, 1, 8, &mut carried), Ok((3, 1_000_003)));
        assert_eq!(carried, 3);
        assert_eq!(rows(&group, 1, 3, &mut carried), Ok((1, 5)), "no more than there are");
        for damaged in [&[][..], &[8], &[0, 0], &[3], &[0x80; 11]] {
            assert!(rows(damaged, 1, 8, &mut 0).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn deltas_are_those_of_the_format() {
        // Blocks of 128 in 4 miniblocks, 5 values from 7 on: 7, 5, 3, 1, 2 (Encodings.md).
        let mut bytes = vec![0x80, 0x01, 4, 5, 14];
        // The least delta is -2; deltas above it 0, 0, 0, 3, by two bits each.
        bytes.extend([3, 2, 0, 0, 0]);
        bytes.extend([0b1100_0000, 0, 0, 0, 0, 0, 0, 0, 9]);
        let mut deltas = Deltas::new(&bytes).expect("a head");
        let mut found = Vec::new();
        while let Some(number) = deltas.next().expect("whole") {
            found.push(number);
        }
        assert_eq!(found, [7, 5, 3, 1, 2]);
        assert_eq!(deltas.rest(), [9]);
        let mut cut = Deltas::new(&bytes[..10]).expect("a head");
        assert!((0..5).any(|_| cut.next().is_err()));
        assert!(Deltas::new(&[0x80, 0x01, 0, 5, 14]).is_err());
    }

    #[test]
    fn a_page_that_claims_more_lengths_than_values_is_damaged() {
        let leaf =
            Leaf { physical: Type::BYTE_ARRAY, type_length: 0, max_rep_level: 0, max_def_level: 0 };
        // A billion lengths in ten bytes.
        let values = [0x80, 0x01, 4, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0];
        for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            let parts = Parts { repetitions: None, values: &values, count: 10, encoding };
            assert!(measure(leaf, parts, &mut 0, 1 << 20).is_err(), "{encoding}");
        }
    }
}
