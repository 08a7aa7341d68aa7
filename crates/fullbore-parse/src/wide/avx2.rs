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
        unsafe {
            let [a, b, c, d] = each(base, offsets);
            four(a, b, c, d)
        }
    }
    #[inline(always)]
    unsafe fn gather_two(base: *const u8, offsets: Self) -> (Self, Self) {
        unsafe {
            let [a, b, c, d] = each(base, offsets).map(|at| _mm_loadu_si128(at.cast()));
            let (even, odd) = (_mm256_set_m128i(c, a), _mm256_set_m128i(d, b));
            (_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd))
        }
    }
    #[inline(always)]
    unsafe fn load_each(base: *const u8, step: usize) -> Self {
        unsafe { four(base, base.add(step), base.add(2 * step), base.add(3 * step)) }
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

/// The address of each lane's bytes.
///
/// # Safety
/// As of [`Lanes::gather`].
#[inline(always)]
unsafe fn each(base: *const u8, offsets: __m256i) -> [*const u8; 4] {
    unsafe {
        let (low, high) = (_mm256_castsi256_si128(offsets), _mm256_extracti128_si256::<1>(offsets));
        let at = |offset: i64| base.offset(offset as isize);
        [
            at(_mm_cvtsi128_si64(low)),
            at(_mm_extract_epi64::<1>(low)),
            at(_mm_cvtsi128_si64(high)),
            at(_mm_extract_epi64::<1>(high)),
        ]
    }
}

/// Eight bytes at each address. The instruction that gathers them is slower than loads one by one: on
/// AMD's Zen 3, lineitem took 1.18 s/GB to parse with it and takes 0.85 without; and Intel made it
/// several times slower where it could leak data ("Gather Data Sampling", INTEL-SA-00828, 2023).
///
/// # Safety
/// As many bytes are readable at each.
#[inline(always)]
unsafe fn four(a: *const u8, b: *const u8, c: *const u8, d: *const u8) -> __m256i {
    unsafe {
        let two = |low: *const u8, high: *const u8| {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(low.cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, high.cast()))
        };
        _mm256_set_m128i(two(c, d), two(a, b))
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
