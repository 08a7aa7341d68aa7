//! Four lanes, with AVX2.

#![expect(clippy::undocumented_unsafe_blocks, reason = "one promise for all, said once below")]

use std::arch::x86_64::*;

use super::Fields;
use super::copy::{self, Moves, Texts};
use super::lanes::{self, Kernel, Lanes};

// SAFETY, of every block here: the processor has AVX2, and pointers are as the trait asks, the
// callers' promises.
impl Lanes for __m256i {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        unsafe { _mm256_set1_epi64x(value as i64) }
    }
    #[inline(always)]
    unsafe fn steps(step: u64) -> Self {
        unsafe { _mm256_mul_epu32(_mm256_setr_epi64x(0, 1, 2, 3), Self::splat(step)) }
    }
    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: Self) -> Self {
        unsafe { _mm256_i64gather_epi64::<1>(base.cast(), offsets) }
    }
    #[inline(always)]
    unsafe fn store(self, out: *mut i64) {
        unsafe { _mm256_storeu_si256(out.cast(), self) }
    }
    #[inline(always)]
    unsafe fn store_halves(self, out: *mut i32) {
        unsafe {
            let low_first = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
            let halves = _mm256_permutevar8x32_epi32(self, low_first);
            _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(halves));
        }
    }
    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { _mm256_and_si256(self, other) }
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        unsafe { _mm256_or_si256(self, other) }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm256_xor_si256(self, other) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_add_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        unsafe { _mm256_sub_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm256_mul_epu32(self, other) }
    }
    #[inline(always)]
    unsafe fn words_sub_or_0(self, other: Self) -> Self {
        unsafe { _mm256_subs_epu16(self, other) }
    }
    #[inline(always)]
    unsafe fn weigh_bytes(self, weights: Self) -> Self {
        unsafe { _mm256_maddubs_epi16(self, weights) }
    }
    #[inline(always)]
    unsafe fn weigh_words(self, weights: Self) -> Self {
        unsafe { _mm256_madd_epi16(self, weights) }
    }
    #[inline(always)]
    unsafe fn left<const BITS: u32>(self) -> Self {
        unsafe { _mm256_sll_epi64(self, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    unsafe fn right<const BITS: u32>(self) -> Self {
        unsafe { _mm256_srl_epi64(self, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    unsafe fn left_each(self, bits: Self) -> Self {
        unsafe { _mm256_sllv_epi64(self, bits) }
    }
    #[inline(always)]
    unsafe fn right_each(self, bits: Self) -> Self {
        unsafe { _mm256_srlv_epi64(self, bits) }
    }
    #[inline(always)]
    unsafe fn same(self, other: Self) -> Self {
        unsafe { _mm256_cmpeq_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> Self {
        unsafe { _mm256_cmpgt_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn signs(self) -> u32 {
        unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(self)) as u32 }
    }
}

/// # Safety
/// The processor has AVX2, BMI1 and POPCNT; `values` and `pending` are as [`lanes::run`] wants them.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn run<K: Kernel>(
    kernel: &K,
    fields: &Fields<'_>,
    values: &mut [K::Native],
    pending: &mut [u64],
) {
    // SAFETY: handed on.
    unsafe { lanes::run::<__m256i, K>(kernel, fields, values, pending) }
}

struct Wide;

impl Moves for Wide {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        unsafe {
            let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
            let second = _mm256_loadu_si256(from.add(1));
            _mm256_storeu_si256(to, _mm256_loadu_si256(from));
            _mm256_storeu_si256(to.add(1), second);
        }
    }
    #[inline(always)]
    unsafe fn equal(text: *const u8, byte: u8) -> u64 {
        unsafe {
            let wanted = _mm256_set1_epi8(byte as i8);
            let half = |at: usize| {
                let text = _mm256_loadu_si256(text.add(at).cast());
                u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(text, wanted)) as u32)
            };
            half(0) | half(32) << 32
        }
    }
}

/// # Safety
/// As for [`run`]; `texts.ends` has room for the missing rows.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn append(fields: &Fields<'_>, bytes_max: usize, texts: &mut Texts) {
    // SAFETY: handed on.
    unsafe { copy::run::<Wide>(fields, bytes_max, texts) }
}
