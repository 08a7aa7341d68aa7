//! CRC-32C by the processor's own instruction, eight bytes at a time, for values that are mostly shorter.

use super::hash::{CRC_TABLE, Hash};

/// Only for code that is compiled for SSE 4.2.
pub struct FastCrc;

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
/// row, a processor that foresees them wrongly loses more time than a few words take.
const SHORT_BYTES: usize = 64;

impl FastCrc {
    /// `values[start..end]`, taken as the last of so many words, which all lie in `values`. A CRC is
    /// the sum of what the value makes of nothing, before which zeros don't count, and of what its
    /// length makes of the first state.
    #[inline(always)]
    fn short(values: &[u8], start: usize, end: usize, words: usize) -> u32 {
        let length = end - start;
        let mut state = 0;
        for word in (0..words).rev() {
            let count = length.saturating_sub(8 * word).min(8);
            let half = 32 - 4 * count;
            let bytes = Self::load(values, end - 8 * (word + 1)) >> half >> half << half << half;
            state = Self::step(state, bytes);
        }
        !(state as u32 ^ OVER_ZEROS[length])
    }

    /// `values[start..end]` and spaces up to `padded` bytes, as whole words that all lie in `values`.
    #[inline(always)]
    fn padded(values: &[u8], start: usize, end: usize, padded: usize) -> u32 {
        let length = end - start;
        let word = |at: usize| {
            let count = length.saturating_sub(8 * at).min(8);
            let spaces = u64::MAX << (4 * count) << (4 * count);
            Self::load(values, start + 8 * at) & !spaces | SPACES & spaces
        };
        let whole = padded / 8;
        let mut state = u64::from(u32::MAX);
        for at in 0..whole {
            state = Self::step(state, word(at));
        }
        if !padded.is_multiple_of(8) {
            state = Self::rest(state, word(whole), padded % 8);
        }
        !(state as u32)
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
        let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize;
        let all = (offsets[offsets.len() - 1] - offsets[0]) as usize;
        // Not where most values are much shorter than the longest.
        let is_even = longest * hashes.len() <= 4 * all + 8 * hashes.len();
        let words = longest.div_ceil(8);
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            *hash = match longest <= SHORT_BYTES && is_even && end >= 8 * words {
                true => Self::short(values, start, end, words),
                false => Self::range(values, start, end, 0),
            };
        }
    }

    #[inline(always)]
    fn padded_ranges(offsets: &[i32], values: &[u8], padded: usize, hashes: &mut [u32]) {
        let room = padded.next_multiple_of(8);
        for (ends, hash) in offsets.windows(2).zip(hashes) {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            *hash = match padded <= SHORT_BYTES && start + room <= values.len() {
                true => Self::padded(values, start, end, padded),
                false => Self::range(values, start, end, padded),
            };
        }
    }
}
