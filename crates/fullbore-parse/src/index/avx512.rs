//! The index with AVX-512: 64 bytes per compare, positions by compress.

use std::arch::x86_64::*;

use super::avx2::carryless_prefix;
use super::masks::{self, Bytes, Instructions, Masks};
use super::quotes::Scan;
use super::separators::{FieldIndex, SPECIAL};
use crate::block::Block;
use crate::dialect::Dialect;

struct Avx512;

static BYTE_NUMBERS: [u8; 64] = {
    let mut numbers = [0; 64];
    let mut i = 0;
    while i < 64 {
        numbers[i] = i as u8;
        i += 1;
    }
    numbers
};

impl Instructions for Avx512 {
    #[inline(always)]
    unsafe fn masks(text: *const u8, bytes: Bytes, quote: bool, escape: bool) -> Masks {
        // SAFETY: 64 bytes are readable and the processor has AVX-512, the caller's promise.
        unsafe {
            let word = _mm512_loadu_si512(text.cast());
            let equal = |byte: u8| _mm512_cmpeq_epi8_mask(word, _mm512_set1_epi8(byte as i8));
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
        // SAFETY: the processor has AVX-512 with VBMI2; 128 entries are writable and at most 64
        // are written.
        unsafe {
            let numbers = _mm512_loadu_si512(BYTE_NUMBERS.as_ptr().cast());
            // Compressed in a register: the form that stores is slow on some processors.
            let packed = _mm512_maskz_compress_epi8(mask, numbers);
            let base = _mm512_set1_epi32(base as i32);
            let widen = |quarter| _mm512_add_epi32(_mm512_cvtepu8_epi32(quarter), base);
            let count = mask.count_ones() as usize;
            _mm512_storeu_si512(out.cast(), widen(_mm512_castsi512_si128(packed)));
            if count > 16 {
                let second = _mm512_extracti32x4_epi32::<1>(packed);
                _mm512_storeu_si512(out.add(16).cast(), widen(second));
                if count > 32 {
                    let third = _mm512_extracti32x4_epi32::<2>(packed);
                    _mm512_storeu_si512(out.add(32).cast(), widen(third));
                    let fourth = _mm512_extracti32x4_epi32::<3>(packed);
                    _mm512_storeu_si512(out.add(48).cast(), widen(fourth));
                }
            }
            count
        }
    }

    #[inline(always)]
    unsafe fn write_flagged(mask: u64, flagged: u64, base: u32, out: *mut u32) -> usize {
        // SAFETY: as of `write_positions`; the processor has BMI2.
        unsafe {
            let count = Self::write_positions(mask, base, out);
            let mut flags = _pext_u64(flagged, mask);
            let mut at = 0;
            while flags != 0 {
                let entries = out.add(at).cast();
                let special = _mm512_set1_epi32(SPECIAL as i32);
                let old = _mm512_loadu_si512(entries);
                let new = _mm512_mask_or_epi32(old, flags as __mmask16, old, special);
                _mm512_storeu_si512(entries.cast(), new);
                flags >>= 16;
                at += 16;
            }
            count
        }
    }
}

/// # Safety
/// The processor has AVX-512 F, BW and VBMI2, BMI1, BMI2, POPCNT and PCLMULQDQ.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,popcnt,pclmulqdq")]
pub unsafe fn build(index: &mut FieldIndex, block: &Block, dialect: &Dialect) {
    // SAFETY: the caller's promise; `build_with` reserved the room.
    unsafe { masks::build::<Avx512>(index, block, dialect) }
}

/// # Safety
/// As of [`build`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,popcnt,pclmulqdq")]
pub unsafe fn look(scan: &mut Scan, text: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { scan.run::<Avx512>(text) }
}
