//! CRC-32C by the processor's own instruction, eight bytes at a time, for values that are mostly shorter.

use super::hash::{CRC_TABLE, Hash};

/// Only for code that is compiled for SSE 4.2.
pub struct FastCrc;

/// Whether the processor has all that loops over values are compiled for where it does: of 2013 and later.
pub fn is_there() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe")
        && is_x86_feature_detected!("sse4.2")
}

impl FastCrc {
    #[inline(always)]
    fn step(state: u64, word: u64) -> u64 {
        // SAFETY: who uses this type has asked the processor for SSE 4.2.
        unsafe { std::arch::x86_64::_mm_crc32_u64(state, word) }
    }

    /// Goes on with the first `count` bytes, at most 8, of a word. A CRC does not see zeros before
    /// what is not zero: so the bytes are moved to the end of a whole word, with that part of the
    /// state that they meet; and no branch depends on how many they are.
    #[inline(always)]
    fn rest(state: u64, word: u64, count: usize) -> u64 {
        let half = 32 - 4 * count;
        let moved = (word ^ state) << half << half;
        Self::step(0, moved) ^ state >> (4 * count) >> (4 * count)
    }

    #[inline(always)]
    fn load(values: &[u8], at: usize) -> u64 {
        let bytes = &values[at..at + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// The first bytes of what may be shorter than a word.
    #[inline(always)]
    fn load_some(values: &[u8], at: usize, count: usize) -> u64 {
        if at + 8 <= values.len() {
            return Self::load(values, at);
        }
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(&values[at..at + count]);
        u64::from_le_bytes(bytes)
    }
}

/// What becomes of a CRC's first state over so many zero bytes.
const OVER_ZEROS: [u32; SHORT_BYTES + 1] = {
    let mut states = [u32::MAX; SHORT_BYTES + 1];
    let mut bytes = 0;
    while bytes < SHORT_BYTES {
        let state = states[bytes];
        states[bytes + 1] = CRC_TABLE[(state & 0xff) as usize] ^ state >> 8;
        bytes += 1;
    }
    states
};

/// Values up to so long are hashed without a branch on their length: where lengths differ from row to
/// row, a processor that foresees them wrongly loses more time than a few words take (measured: 24 ns a
/// value of 10 to 43 bytes, 8 without).
const SHORT_BYTES: usize = 48;

impl FastCrc {
    /// The last `length` bytes of words. A CRC is the sum of what the value makes of nothing, before
    /// which zeros don't count, and of what its length makes of the first state.
    #[inline(always)]
    fn short<const WORDS: usize>(words: &[[u8; 8]; WORDS], length: usize) -> u32 {
        let mut state = 0;
        for (at, word) in words.iter().enumerate() {
            let count = length.saturating_sub(8 * (WORDS - 1 - at)).min(8);
            let half = 32 - 4 * count as u32;
            let bytes = u64::from_le_bytes(*word) >> half >> half << half << half;
            state = Self::step(state, bytes);
        }
        !(state as u32 ^ OVER_ZEROS[length])
    }

    /// Values of at most so many words.
    #[inline(always)]
    fn shorts<const WORDS: usize>(offsets: &[i32], values: &[u8], hashes: &mut [u32]) {
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            *hash = match values[..end].as_rchunks::<8>().1.last_chunk::<WORDS>() {
                Some(words) => Self::short(words, end - start),
                None => Self::range(values, start, end, 0),
            };
        }
    }

    /// The first `length` bytes of words, and spaces after them up to `padded` bytes.
    #[inline(always)]
    fn padded<const WORDS: usize>(words: &[[u8; 8]; WORDS], length: usize, padded: usize) -> u32 {
        let mut state = u64::from(u32::MAX);
        for (at, word) in words.iter().enumerate() {
            let half = 4 * length.saturating_sub(8 * at).min(8) as u32;
            let spaces = u64::MAX << half << half;
            let word = u64::from_le_bytes(*word) & !spaces | SPACES & spaces;
            state = match at + 1 < WORDS {
                true => Self::step(state, word),
                false => Self::rest(state, word, padded - 8 * at),
            };
        }
        !(state as u32)
    }

    /// Values that are padded to so many words, or less.
    #[inline(always)]
    fn paddeds<const WORDS: usize>(
        offsets: &[i32],
        values: &[u8],
        padded: usize,
        hashes: &mut [u32],
    ) {
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            *hash = match values[start..].as_chunks::<8>().0.first_chunk::<WORDS>() {
                Some(words) => Self::padded(words, end - start, padded),
                None => Self::range(values, start, end, padded),
            };
        }
    }
}

const SPACES: u64 = 0x2020_2020_2020_2020;

impl Hash for FastCrc {
    #[inline(always)]
    fn bytes(value: &[u8]) -> u32 {
        Self::range(value, 0, value.len(), 0)
    }

    #[inline(always)]
    fn word(word: u64, count: usize) -> u32 {
        !(Self::rest(u64::from(u32::MAX), word, count) as u32)
    }

    #[inline(always)]
    fn two_words(first: u64, second: u64, count: usize) -> u32 {
        !(Self::rest(Self::step(u64::from(u32::MAX), first), second, count) as u32)
    }

    #[inline(always)]
    fn range(values: &[u8], start: usize, end: usize, padded: usize) -> u32 {
        let mut state = u64::from(u32::MAX);
        let mut at = start;
        while end - at >= 8 {
            state = Self::step(state, Self::load(values, at));
            at += 8;
        }
        state = Self::rest(state, Self::load_some(values, at, end - at), end - at);
        let mut missing = padded.saturating_sub(end - start);
        while missing > 0 {
            let count = missing.min(8);
            state = Self::rest(state, SPACES, count);
            missing -= count;
        }
        !(state as u32)
    }

    #[inline(always)]
    fn ranges(offsets: &[i32], values: &[u8], hashes: &mut [u32]) {
        let lengths = offsets[1..].iter().zip(offsets).map(|(end, start)| end - start);
        let longest = lengths.fold(0, i32::max) as usize;
        let all = (offsets[offsets.len() - 1] - offsets[0]) as usize;
        // Not where most values are much shorter than the longest.
        let is_even = longest * hashes.len() <= 4 * all + 8 * hashes.len();
        match if is_even { longest.div_ceil(8) } else { usize::MAX } {
            1 => Self::shorts::<1>(offsets, values, hashes),
            2 => Self::shorts::<2>(offsets, values, hashes),
            3 => Self::shorts::<3>(offsets, values, hashes),
            4 => Self::shorts::<4>(offsets, values, hashes),
            5 => Self::shorts::<5>(offsets, values, hashes),
            6 => Self::shorts::<6>(offsets, values, hashes),
            _ => {
                for (ends, hash) in offsets.windows(2).zip(hashes) {
                    *hash = Self::range(values, ends[0] as usize, ends[1] as usize, 0);
                }
            }
        }
    }

    #[inline(always)]
    fn padded_ranges(offsets: &[i32], values: &[u8], padded: usize, hashes: &mut [u32]) {
        match padded.div_ceil(8) {
            1 => Self::paddeds::<1>(offsets, values, padded, hashes),
            2 => Self::paddeds::<2>(offsets, values, padded, hashes),
            3 => Self::paddeds::<3>(offsets, values, padded, hashes),
            4 => Self::paddeds::<4>(offsets, values, padded, hashes),
            _ => {
                for (ends, hash) in offsets.windows(2).zip(hashes) {
                    *hash = Self::range(values, ends[0] as usize, ends[1] as usize, padded);
                }
            }
        }
    }
}
