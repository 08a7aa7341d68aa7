//! What a kernel is made of: lanes of 64 bits, and the loop that feeds it.

use super::Fields;
use crate::index::OFFSET;

/// Several 64-bit numbers that are worked on together, one lane for each row.
///
/// # Safety
/// Every function requires that the processor has the level's instructions.
pub trait Lanes: Copy {
    const LANES: usize;

    unsafe fn splat(value: u64) -> Self;
    /// `step * i` in lane i.
    unsafe fn steps(step: u64) -> Self;
    /// Eight bytes at `base` + each lane, which must all be readable; the first byte is the lowest.
    unsafe fn gather(base: *const u8, offsets: Self) -> Self;
    /// Eight bytes at `base` + each lane, and the eight that follow them.
    #[inline(always)]
    unsafe fn gather_two(base: *const u8, offsets: Self) -> (Self, Self) {
        // SAFETY: handed on.
        unsafe { (Self::gather(base, offsets), Self::gather(base, offsets.add(Self::splat(8)))) }
    }
    /// Eight bytes at `base`, at `base` + `step`, and so on.
    #[inline(always)]
    unsafe fn load_each(base: *const u8, step: usize) -> Self {
        // SAFETY: handed on.
        unsafe { Self::gather(base, Self::steps(step as u64)) }
    }
    /// All lanes to `out`.
    unsafe fn store(self, out: *mut i64);
    /// The low halves of all lanes to `out`.
    unsafe fn store_halves(self, out: *mut i32);

    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    /// The low halves multiplied, as whole lanes.
    unsafe fn multiply(self, other: Self) -> Self;
    /// `self - other` in each 16 bits, 0 where that is negative.
    unsafe fn words_sub_or_0(self, other: Self) -> Self;
    /// For each pair of bytes `a, b` and of weights `x, y`: `a * x + b * y`, in 16 bits.
    unsafe fn weigh_bytes(self, weights: Self) -> Self;
    /// For each pair of 16 bits likewise, in 32 bits.
    unsafe fn weigh_words(self, weights: Self) -> Self;
    unsafe fn left<const BITS: u32>(self) -> Self;
    unsafe fn right<const BITS: u32>(self) -> Self;
    /// Each lane by its own number of bits; 64 and more give 0.
    unsafe fn left_each(self, bits: Self) -> Self;
    unsafe fn right_each(self, bits: Self) -> Self;
    /// All ones where equal.
    unsafe fn same(self, other: Self) -> Self;
    /// All ones where `self > other`, as signed numbers.
    unsafe fn above(self, other: Self) -> Self;
    /// The highest bit of each lane.
    unsafe fn signs(self) -> u32;
}

/// The fields of one group of rows.
#[derive(Clone, Copy)]
pub struct Group<L> {
    pub text: *const u8,
    /// Offsets from `text`; at least 48 bytes before the end and after the start are readable.
    pub start: L,
    pub end: L,
}

/// A way to parse a group of fields.
pub trait Kernel {
    type Native: Copy;

    /// Values, and lanes of all ones where a value is right. Any text may stand in the fields, and
    /// they may be empty.
    ///
    /// # Safety
    /// The processor has the level's instructions, and the group's offsets are as they should be.
    unsafe fn values<L: Lanes>(&self, group: Group<L>) -> (L, L);

    /// # Safety
    /// As many values as there are lanes are writable at `out`.
    unsafe fn store<L: Lanes>(values: L, out: *mut Self::Native);
}

/// Parses all whole groups; to be inlined into a function compiled for the level's instructions.
///
/// # Safety
/// The processor has the level's instructions; `values` has as many entries as there are rows, and
/// `pending` a bit for each.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no level has lanes there"))]
#[inline(always)]
pub unsafe fn run<L: Lanes, K: Kernel>(
    kernel: &K,
    fields: &Fields<'_>,
    values: &mut [K::Native],
    pending: &mut [u64],
) {
    let text = fields.padded.as_ptr();
    let separators = fields.separators[fields.field..].as_ptr().cast::<u8>();
    // SAFETY: the last row's field ends at a separator, checked when `fields` was made, and a group
    // covers whole rows only; an offset in a separator lies within the block, which has 64 bytes of
    // padding on both sides.
    unsafe {
        let offset = L::splat(u64::from(OFFSET));
        let one = L::splat(1);
        let null_bytes = L::splat(fields.null_bytes as u64);
        let step = fields.stride * size_of::<u32>();
        for group in 0..fields.rows / L::LANES {
            // The separator before the field in the low half, the one after it in the high half.
            let pair = L::load_each(separators.add(group * L::LANES * step), step);
            let mut start = pair.and(offset).add(one);
            let mut end = pair.right::<32>().and(offset);
            // The flag of a special field is the pair's highest bit.
            let special = pair.signs();
            let may_be_null = end.sub(start).same(null_bytes).signs();
            let mut closer = may_be_null | special;
            if let (Some(quotes), true) = (fields.quotes, special != 0) {
                // A kernel looks at every byte, so nothing but quotes around it gets by.
                let quote = L::splat(u64::from(quotes.quote));
                let first = L::gather(text, start).and(L::splat(0xff)).same(quote);
                let last = L::gather(text, end.sub(L::splat(8))).right::<56>().same(quote);
                let quoted = first.and(last);
                start = start.sub(quoted);
                end = end.add(quoted);
                closer &= !quoted.signs();
            }
            let (found, right) = kernel.values(Group { text, start, end });
            let first = group * L::LANES;
            K::store(found, values.as_mut_ptr().add(first));
            let taken = right.signs() & !closer;
            pending[first / 64] &= !(u64::from(taken) << (first % 64));
        }
    }
}
