//! The index with AVX2.

use std::arch::x86_64::*;

use super::FieldIndex;
use super::masks::{self, Bytes, Instructions, Masks};
use crate::parse::block::Block;
use crate::parse::dialect::Dialect;

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
    unsafe fn write_positions(mut mask: u64, base: u32, out: *mut u32) -> usize {
        let count = mask.count_ones() as usize;
        // Eight at a time without asking: cheaper than a branch per separator.
        let mut entry = 0;
        while entry < count {
            for next in entry..entry + 8 {
                // SAFETY: entry < 64, so next < 72, and 128 entries are writable.
                unsafe { out.add(next).write(base + mask.trailing_zeros()) };
                mask &= mask.wrapping_sub(1);
            }
            entry += 8;
        }
        count
    }
}

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
