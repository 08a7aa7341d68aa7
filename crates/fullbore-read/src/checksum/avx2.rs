//! The checksum with the carry-less multiplication of 256 bits, for processors that have it without
//! AVX-512: there the library multiplies 128 bits at a time, at half the pace.
//!
//! What was read so far is kept as 128 bytes that leave the same remainder as all of it. They are
//! moved on by 128 bytes with two multiplications for each 16 of them, the way of V. Gopal and
//! others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009);
//! the library then makes the checksum of the last 128 and of the rest.

use std::arch::x86_64::*;

use super::{library, x_to_the};

const CHUNK: usize = 128;

/// What moves the first and the second eight of sixteen bytes on by a chunk. A product of two
/// reflected numbers stands one place too low, hence the one less.
const FIRST: u64 = x_to_the(8 * CHUNK as u32 + 64 - 1);
const SECOND: u64 = x_to_the(8 * CHUNK as u32 - 1);

pub fn is_available() -> bool {
    is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2")
}

#[target_feature(enable = "avx2,vpclmulqdq")]
pub fn of(text: &[u8]) -> u64 {
    let (chunks, rest) = text.as_chunks::<CHUNK>();
    let Some((first, chunks)) = chunks.split_first() else { return library(text) };
    let factors = _mm256_setr_epi64x(FIRST as i64, SECOND as i64, FIRST as i64, SECOND as i64);
    // A checksum begins with ones over its first eight bytes. The library's will do so, too, with
    // the 128 that are left: what is not in the text is taken out of them.
    let start = _mm256_setr_epi64x(-1, 0, 0, 0);
    let mut kept = loaded(first);
    kept[0] = _mm256_xor_si256(kept[0], start);
    for chunk in chunks {
        for (kept, next) in kept.iter_mut().zip(loaded(chunk)) {
            let first = _mm256_clmulepi64_epi128::<0x00>(*kept, factors);
            let second = _mm256_clmulepi64_epi128::<0x11>(*kept, factors);
            *kept = _mm256_xor_si256(_mm256_xor_si256(first, second), next);
        }
    }
    kept[0] = _mm256_xor_si256(kept[0], start);
    let mut end = [0; 2 * CHUNK];
    // SAFETY: four times 32 bytes are the first half of it.
    unsafe { end.as_mut_ptr().cast::<[__m256i; 4]>().write_unaligned(kept) };
    end[CHUNK..][..rest.len()].copy_from_slice(rest);
    library(&end[..CHUNK + rest.len()])
}

#[inline(always)]
fn loaded(chunk: &[u8; CHUNK]) -> [__m256i; 4] {
    // SAFETY: a chunk is four times 32 bytes, and every value of those is a vector.
    unsafe { chunk.as_ptr().cast::<[__m256i; 4]>().read_unaligned() }
}
