//! Columns of short fields, several rows at a time.
//!
//! Whole numbers, decimals, dates and timestamps are mostly written in a few ways and in few bytes.
//! A kernel takes the fields of eight rows (AVX-512) or four (AVX2) at once: it brings the eight
//! bytes before each field's end into lanes and works on all of them with the same instructions.
//! A row that a kernel can't take stays *pending*, and the field-by-field functions of
//! [`super::numbers`] and [`super::temporal`] take it; they also take everything where the processor
//! has neither. So a kernel needs to know the common ways only, and must be exact in those.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod copy;
mod kernels;
mod lanes;

use super::dialect::{Dialect, Family};
use super::index::Level;
use crate::constants::BLOCK_PADDING;
pub use copy::{Texts, append, append_with};
pub use kernels::{Date, Decimal, Integer, Integer32, LongDecimal, Timestamp};
pub use lanes::Kernel;

/// One field of every row of a block.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    padded: &'a [u8],
    separators: &'a [u32],
    field: usize,
    stride: usize,
    rows: usize,
    /// Fields of this length may be NULL: they are left to a closer look.
    null_bytes: usize,
    /// What a field may stand between, where the dialect has quotes.
    quotes: Option<Quotes>,
}

#[derive(Clone, Copy)]
struct Quotes {
    quote: u8,
    escape: u8,
}

impl<'a> Fields<'a> {
    /// Field number `field` of `rows` rows that stand `stride` separators apart.
    ///
    /// # Panics
    /// If there are fewer separators, or the block lacks its padding.
    pub fn new(
        padded: &'a [u8],
        separators: &'a [u32],
        field: usize,
        stride: usize,
        rows: usize,
        dialect: &Dialect,
    ) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + field + 1 < separators.len());
        assert!(padded.len() >= 2 * BLOCK_PADDING);
        let quotes = Quotes { quote: dialect.quote, escape: dialect.escape };
        // A kernel tells quotes from values by the bytes that it knows; odd quotes are not for it.
        let plain = |byte: u8| byte.is_ascii_punctuation() && !b"-.:".contains(&byte);
        let has_quotes =
            dialect.family == Family::Csv && plain(quotes.quote) && plain(quotes.escape);
        let quotes = has_quotes.then_some(quotes);
        Self { padded, separators, field, stride, rows, null_bytes: dialect.null.len(), quotes }
    }
}

/// Rows that are still to be parsed, a bit each.
#[derive(Debug, Default)]
pub struct Pending {
    words: Vec<u64>,
    rows: usize,
}

impl Pending {
    /// All of `rows` rows.
    pub fn all(&mut self, rows: usize) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(64), u64::MAX);
        if !rows.is_multiple_of(64) {
            *self.words.last_mut().expect("rows is not 0") = (1 << (rows % 64)) - 1;
        }
    }

    pub fn contains(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    /// Hands out the rows in their order.
    #[inline(always)]
    pub fn each(&self, mut take: impl FnMut(usize)) {
        for (place, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                take(place * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

/// Parses what `kernel` can into `values`, one for each row, and takes it out of `pending`.
pub fn parse<K: Kernel>(
    kernel: &K,
    fields: &Fields<'_>,
    values: &mut [K::Native],
    pending: &mut Pending,
) {
    parse_with(Level::best(), kernel, fields, values, pending);
}

/// As [`parse`], with a given level of instructions.
///
/// # Panics
/// If the processor lacks the level, or `values` and `pending` are not of the fields' rows.
pub fn parse_with<K: Kernel>(
    level: Level,
    kernel: &K,
    fields: &Fields<'_>,
    values: &mut [K::Native],
    pending: &mut Pending,
) {
    assert!(values.len() == fields.rows && pending.rows == fields.rows);
    if fields.rows == 0 {
        // There is no separator to begin from.
        return;
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            assert!(level.is_available());
            // SAFETY: the processor has the instructions; lengths were checked above.
            unsafe { avx512::run(kernel, fields, values, &mut pending.words) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            assert!(level.is_available());
            // SAFETY: as above.
            unsafe { avx2::run(kernel, fields, values, &mut pending.words) }
        }
        // All stays pending.
        _ => _ = kernel,
    }
}
