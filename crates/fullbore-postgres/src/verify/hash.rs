//! The hash of a value: 32 bits out of the bytes that its type's send function gives, by a function
//! that plain SQL can call too.
//!
//! From 18 on that is `crc32c`, which processors have an instruction for. Before that it is
//! `hash_record_extended` of a record of one `bytea`, cut to 32 bits: Bob Jenkins' `lookup3`, a dozen
//! times the work (`hash_bytes_extended` in PostgreSQL's hashfn.c; the same in 14 to 18, on processors
//! with the low byte first). Whether the server agrees is asked of it before it is relied on.

use serde::{Deserialize, Serialize};

/// Which function makes hashes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashKind {
    Crc32c,
    Lookup3,
}

/// The first version with `crc32c(bytea)`.
const HAS_CRC32C: u32 = 180_000;

impl HashKind {
    /// The cheapest that a server has.
    pub fn of_server(version: u32) -> Self {
        if version >= HAS_CRC32C { Self::Crc32c } else { Self::Lookup3 }
    }

    /// The SQL for the hash of a `bytea` that is not NULL.
    pub fn sql(self, bytes: &str) -> String {
        match self {
            Self::Crc32c => format!("pg_catalog.crc32c({bytes})"),
            Self::Lookup3 => {
                format!("(pg_catalog.hash_record_extended(ROW({bytes}), 0) & 4294967295)")
            }
        }
    }

    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Crc32c => PlainCrc::bytes(bytes),
            Self::Lookup3 => Lookup3::bytes(bytes),
        }
    }
}

/// A way of making hashes, chosen at compile time: the loops over values are made for each.
pub trait Hash {
    fn bytes(value: &[u8]) -> u32;

    /// The first `count` bytes, at most 8, of a word whose lowest byte comes first.
    #[inline(always)]
    fn word(word: u64, count: usize) -> u32 {
        Self::bytes(&word.to_le_bytes()[..count])
    }

    /// Eight bytes, and after them the first `count` of a second word, at most 8.
    #[inline(always)]
    fn two_words(first: u64, second: u64, count: usize) -> u32 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        Self::bytes(&bytes[..8 + count])
    }

    /// `values[start..end]`, and after it spaces up to `padded` bytes in all.
    #[inline(always)]
    fn range(values: &[u8], start: usize, end: usize, padded: usize) -> u32 {
        let value = &values[start..end];
        if padded <= value.len() {
            return Self::bytes(value);
        }
        let mut spaced = value.to_vec();
        spaced.resize(padded, b' ');
        Self::bytes(&spaced)
    }

    /// The hashes of all values of a column, each between two offsets.
    #[inline(always)]
    fn ranges(offsets: &[i32], values: &[u8], hashes: &mut [u32]) {
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            *hash = Self::range(values, ends[0] as usize, ends[1] as usize, 0);
        }
    }

    /// The same, each with spaces after it up to `padded` bytes.
    #[inline(always)]
    fn padded_ranges(offsets: &[i32], values: &[u8], padded: usize, hashes: &mut [u32]) {
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            *hash = Self::range(values, ends[0] as usize, ends[1] as usize, padded);
        }
    }
}

/// CRC-32C by a table.
pub struct PlainCrc;

pub(super) const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

impl Hash for PlainCrc {
    fn bytes(value: &[u8]) -> u32 {
        !value.iter().fold(!0, |crc, byte| CRC_TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
    }
}

/// Bob Jenkins' hash of 2006, from where PostgreSQL starts it.
pub struct Lookup3;

impl Lookup3 {
    #[inline(always)]
    fn start(length: usize) -> u32 {
        0x9e37_79b9u32.wrapping_add(length as u32).wrapping_add(3_923_095)
    }

    #[inline(always)]
    fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
        for (first, second, third) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(first);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(second);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(third);
            b = b.wrapping_add(a);
        }
        [a, b, c]
    }

    #[inline(always)]
    fn last([mut a, mut b, mut c]: [u32; 3]) -> u32 {
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        (c ^ b).wrapping_sub(b.rotate_left(24))
    }
}

impl Hash for Lookup3 {
    #[inline(always)]
    fn bytes(value: &[u8]) -> u32 {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let mut state = [Self::start(value.len()); 3];
        let (chunks, rest) = value.as_chunks::<12>();
        for chunk in chunks {
            for (part, bytes) in state.iter_mut().zip(chunk.chunks_exact(4)) {
                *part = part.wrapping_add(word(bytes));
            }
            state = Self::mix(state);
        }
        let mut last = [0; 12];
        last[..rest.len()].copy_from_slice(rest);
        // The lowest byte of the third word stands for the length.
        last.copy_within(8..11, 9);
        last[8] = 0;
        for (part, bytes) in state.iter_mut().zip(last.chunks_exact(4)) {
            *part = part.wrapping_add(word(bytes));
        }
        Self::last(state)
    }

    #[inline(always)]
    fn word(word: u64, count: usize) -> u32 {
        let start = Self::start(count);
        let half = 32 - 4 * count;
        let word = word << half << half >> half >> half;
        Self::last([
            start.wrapping_add(word as u32),
            start.wrapping_add((word >> 32) as u32),
            start,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the servers say: `SELECT crc32c(x)` of 18, `hash_record_extended(ROW(x), 0) & 4294967295`.
    #[test]
    fn known_values() {
        assert_eq!(HashKind::Crc32c.of(b"123456789"), 0xe306_9283);
        assert_eq!(HashKind::Crc32c.of(b""), 0);
    }

    fn all_ways<H: Hash>(kind: HashKind) {
        let text: Vec<u8> = (0..200u32).map(|at| (at * 7 + at / 13) as u8).collect();
        for start in 0..20 {
            for end in start..100 {
                let value = &text[start..end];
                let expected = kind.of(value);
                assert_eq!(H::bytes(value), expected, "{start}..{end}");
                // With bytes after it, and without.
                assert_eq!(H::range(&text, start, end, 0), expected);
                assert_eq!(H::range(&text[..end], start, end, end - start), expected);
                for more in [1, 7, 8, 25] {
                    let mut padded = value.to_vec();
                    padded.resize(value.len() + more, b' ');
                    assert_eq!(H::range(&text, start, end, padded.len()), kind.of(&padded));
                }
            }
        }
        // Columns of values of all lengths, of few, and of one.
        for longest in [0, 1, 7, 8, 9, 16, 20, 25, 33, 41, 48, 49, 64, 65, 150] {
            let mut offsets = vec![0];
            for row in 0..60 {
                let last = offsets[row];
                offsets.push(last + (row as i32 * 31 % (longest + 1)));
            }
            let bytes: Vec<u8> = (0..offsets[60]).map(|at| (at * 11 + at / 251) as u8).collect();
            let mut hashes = vec![0; 60];
            H::ranges(&offsets, &bytes, &mut hashes);
            let expected = |row: usize, padded: usize| {
                let mut value = bytes[offsets[row] as usize..offsets[row + 1] as usize].to_vec();
                value.resize(padded.max(value.len()), b' ');
                kind.of(&value)
            };
            (0..60).for_each(|row| assert_eq!(hashes[row], expected(row, 0), "{longest} {row}"));
            let padded = longest as usize + longest as usize % 3;
            H::padded_ranges(&offsets, &bytes, padded, &mut hashes);
            (0..60)
                .for_each(|row| assert_eq!(hashes[row], expected(row, padded), "{padded} {row}"));
        }
        let (first, second) = (0x0123_4567_89ab_cdefu64, 0xfedc_ba98_7654_3210u64);
        for count in 0..=8 {
            assert_eq!(H::word(first, count), kind.of(&first.to_le_bytes()[..count]), "{count}");
            let both = [first.to_le_bytes(), second.to_le_bytes()].concat();
            assert_eq!(H::two_words(first, second, count), kind.of(&both[..8 + count]), "{count}");
        }
    }

    #[test]
    fn every_way_gives_the_same() {
        all_ways::<PlainCrc>(HashKind::Crc32c);
        all_ways::<Lookup3>(HashKind::Lookup3);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("sse4.2") {
            all_ways::<super::super::fast_crc::FastCrc>(HashKind::Crc32c);
        }
    }
}
