//! Eight lanes, with AVX-512.

#![expect(clippy::undocumented_unsafe_blocks, reason = "one promise for all, said once below")]

use std::arch::x86_64::*;

use super::Fields;
use super::copy::{self, Moves, Texts};
use super::lanes::{self, Kernel, Lanes};

// SAFETY, of every block here: the processor has AVX-512 F, BW and DQ, and pointers are as the
// trait asks, the callers' promises.
impl Lanes for __m512i {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        unsafe { _mm512_set1_epi64(value as i64) }
    }
    #[inline(always)]
    unsafe fn steps(step: u64) -> Self {
        unsafe {
            let numbers = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
            _mm512_mul_epu32(numbers, Self::splat(step))
        }
    }
    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: Self) -> Self {
        unsafe { _mm512_i64gather_epi64::<1>(offsets, base.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, out: *mut i64) {
        unsafe { _mm512_storeu_si512(out.cast(), self) }
    }
    #[inline(always)]
    unsafe fn store_halves(self, out: *mut i32) {
        unsafe { _mm256_storeu_si256(out.cast(), _mm512_cvtepi64_epi32(self)) }
    }
    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { _mm512_and_si512(self, other) }
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        unsafe { _mm512_or_si512(self, other) }
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm512_xor_si512(self, other) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        unsafe { _mm512_sub_epi64(self, other) }
    }
    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm512_mul_epu32(self, other) }
    }
    #[inline(always)]
    unsafe fn words_sub_or_0(self, other: Self) -> Self {
        unsafe { _mm512_subs_epu16(self, other) }
    }
    #[inline(always)]
    unsafe fn weigh_bytes(self, weights: Self) -> Self {
        unsafe { _mm512_maddubs_epi16(self, weights) }
    }
    #[inline(always)]
    unsafe fn weigh_words(self, weights: Self) -> Self {
        unsafe { _mm512_madd_epi16(self, weights) }
    }
    #[inline(always)]
    unsafe fn left<const BITS: u32>(self) -> Self {
        unsafe { _mm512_slli_epi64::<BITS>(self) }
    }
    #[inline(always)]
    unsafe fn right<const BITS: u32>(self) -> Self {
        unsafe { _mm512_srli_epi64::<BITS>(self) }
    }
    #[inline(always)]
    unsafe fn left_each(self, bits: Self) -> Self {
        unsafe { _mm512_sllv_epi64(self, bits) }
    }
    #[inline(always)]
    unsafe fn right_each(self, bits: Self) -> Self {
        unsafe { _mm512_srlv_epi64(self, bits) }
    }
    #[inline(always)]
    unsafe fn same(self, other: Self) -> Self {
        unsafe { _mm512_movm_epi64(_mm512_cmpeq_epi64_mask(self, other)) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> Self {
        unsafe { _mm512_movm_epi64(_mm512_cmpgt_epi64_mask(self, other)) }
    }
    #[inline(always)]
    unsafe fn signs(self) -> u32 {
        unsafe { u32::from(_mm512_movepi64_mask(self)) }
    }
}

/// # Safety
/// The processor has AVX-512 F, BW, DQ and VBMI2, BMI1 and POPCNT; `values` and `pending` are as
/// [`lanes::run`] wants them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi2,bmi1,popcnt")]
pub unsafe fn run<K: Kernel>(
    kernel: &K,
    fields: &Fields<'_>,
    values: &mut [K::Native],
    pending: &mut [u64],
) {
    // SAFETY: handed on.
    unsafe { lanes::run::<__m512i, K>(kernel, fields, values, pending) }
}

struct Wide;

impl Moves for Wide {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast())) }
    }
    #[inline(always)]
    unsafe fn equal(text: *const u8, byte: u8) -> u64 {
        unsafe {
            let text = _mm512_loadu_si512(text.cast());
            _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(byte as i8))
        }
    }
}

/// # Safety
/// As for [`run`]; `texts.ends` has room for the missing rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi2,bmi1,popcnt")]
pub unsafe fn append(fields: &Fields<'_>, bytes_max: usize, texts: &mut Texts) {
    // SAFETY: handed on.
    unsafe { copy::run::<Wide>(fields, bytes_max, texts) }
}
