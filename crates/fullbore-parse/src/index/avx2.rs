//! The index with AVX2.

use std::arch::x86_64::*;

use super::masks::{self, Bytes, Instructions, Masks};
use super::quotes::Scan;
use super::separators::FieldIndex;
use crate::block::Block;
use crate::dialect::Dialect;

struct Avx2;

impl Instructions for Avx2 {
    #[inline(always)]
    unsafe fn masks(text: *const u8, bytes: Bytes, quote: bool, escape: bool) -> Masks {
        // SAFETY: 64 bytes are readable and the processor has AVX2, the caller's promise.
        unsafe {
            let low = _mm256_loadu_si256(text.cast());
            let high = _mm256_loadu_si256(text.add(32).cast());
            let equal = |byte: u8| {
                let wanted = _mm256_set1_epi8(byte as i8);
                let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)) as u32;
                let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)) as u32;
                u64::from(low) | u64::from(high) << 32
            };
            Masks {
                delimiter: equal(bytes.delimiter),
                line_feed: equal(b'\n'),
                carriage_return: equal(b'\r'),
                nul: equal(0),
                quote: if quote { equal(bytes.quote) } else { 0 },
                escape: if escape { equal(bytes.escape) } else { 0 },
            }
        }
    }

    #[inline(always)]
    unsafe fn prefix_parity(mask: u64) -> u64 {
        // SAFETY: the processor has PCLMULQDQ, checked with the level.
        unsafe { carryless_prefix(mask) }
    }

    #[inline(always)]
    unsafe fn write_positions(mask: u64, base: u32, out: *mut u32) -> usize {
        // Eight bytes of text at a time by a table, without a branch that would be guessed wrong where
        // fields are of changing length.
        for part in 0..8 {
            let bits = (mask >> (8 * part)) as u8;
            let before = (mask & ((1 << (8 * part)) - 1)).count_ones() as usize;
            // SAFETY: 64 entries at most come before, and eight more are written, of 128.
            unsafe {
                let places = _mm_loadl_epi64(PLACES[usize::from(bits)].as_ptr().cast());
                let first = _mm256_set1_epi32((base + 8 * part) as i32);
                let entries = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), first);
                _mm256_storeu_si256(out.add(before).cast(), entries);
            }
        }
        mask.count_ones() as usize
    }

    #[inline(always)]
    unsafe fn write_flagged(mask: u64, flagged: u64, base: u32, out: *mut u32) -> usize {
        // Where there are quotes there is text, and few separators in 64 bytes: six are written
        // without a branch, which is nearly always enough.
        let (count, mut rest, mut written) = (mask.count_ones() as usize, mask, 0);
        loop {
            for entry in written..written + 6 {
                let at = rest.trailing_zeros();
                // SAFETY: up to 66 entries are written, of 128.
                unsafe { *out.add(entry) = (base + at) | (flagged.wrapping_shr(at) as u32) << 31 };
                rest &= rest.wrapping_sub(1);
            }
            written += 6;
            if written >= count {
                return count;
            }
        }
    }
}

/// The places of a byte's bits, lowest first; what follows them means nothing.
static PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if bits >> bit & 1 == 1 {
                places[bits][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        bits += 1;
    }
    places
};

/// The prefix parity as a carry-less product with all ones.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) unsafe fn carryless_prefix(mask: u64) -> u64 {
    let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, mask as i64), _mm_set1_epi8(-1));
    _mm_cvtsi128_si64(product) as u64
}

/// # Safety
/// The processor has AVX2, BMI1 and PCLMULQDQ.
#[target_feature(enable = "avx2,bmi1,popcnt,pclmulqdq")]
pub unsafe fn build(index: &mut FieldIndex, block: &Block, dialect: &Dialect) {
    // SAFETY: the caller's promise; `build_with` reserved the room.
    unsafe { masks::build::<Avx2>(index, block, dialect) }
}

/// # Safety
/// As of [`build`].
#[target_feature(enable = "avx2,bmi1,popcnt,pclmulqdq")]
pub unsafe fn look(scan: &mut Scan, text: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scan.run::<Avx2>(text) }
}
