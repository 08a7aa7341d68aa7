//! The part of indexing that is the same for every level: from masks to separators.

use super::separators::{FieldIndex, SPECIAL};
use crate::block::Block;
use crate::constants::BLOCK_PADDING;
use crate::dialect::{Dialect, Family};

/// The bytes that mean something in a dialect. `quote` and `escape` are what opens quotes and what
/// makes the next byte literal; a byte that the dialect lacks is given as the line feed, which
/// never matches alone since its mask is then not used.
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
}

/// One bit for each of 64 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Masks {
    pub delimiter: u64,
    pub line_feed: u64,
    pub carriage_return: u64,
    pub nul: u64,
    pub quote: u64,
    pub escape: u64,
}

/// What a level of instructions supplies.
pub trait Instructions {
    /// Compares 64 bytes; the masks of `quote` and `escape` only where asked for, else 0.
    ///
    /// # Safety
    /// 64 bytes are readable at `text`; the processor has the instructions.
    unsafe fn masks(text: *const u8, bytes: Bytes, quote: bool, escape: bool) -> Masks;

    /// Bit i of the result is the parity of the bits 0..=i of `mask`.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn prefix_parity(mask: u64) -> u64;

    /// Writes `base + i` for each bit i of `mask` and returns how many there were; may write
    /// anything into the 64 entries that follow.
    ///
    /// # Safety
    /// 128 entries are writable at `out`; the processor has the instructions.
    unsafe fn write_positions(mask: u64, base: u32, out: *mut u32) -> usize;

    /// As [`Self::write_positions`], with [`SPECIAL`] set in the entries of the bits in `flagged`,
    /// which are all in `mask`.
    ///
    /// # Safety
    /// As of [`Self::write_positions`].
    #[inline(always)]
    unsafe fn write_flagged(mask: u64, flagged: u64, base: u32, out: *mut u32) -> usize {
        // SAFETY: handed on; an entry's number is the number of bits before its own.
        unsafe {
            let count = Self::write_positions(mask, base, out);
            let mut rest = flagged;
            while rest != 0 {
                let before = mask & (rest & rest.wrapping_neg()).wrapping_sub(1);
                *out.add(before.count_ones() as usize) |= SPECIAL;
                rest &= rest - 1;
            }
            count
        }
    }
}

/// Builds the index; to be inlined into a function compiled for the level's instructions.
///
/// # Safety
/// The processor has the level's instructions; `index.separators` has room for the block's length
/// and 128 entries more.
#[inline(always)]
pub unsafe fn build<I: Instructions>(index: &mut FieldIndex, block: &Block, dialect: &Dialect) {
    let bytes = Bytes {
        delimiter: dialect.delimiter,
        quote: dialect.quote,
        escape: if dialect.family == Family::Text { b'\\' } else { dialect.escape },
    };
    // SAFETY: handed on.
    unsafe {
        match dialect.family {
            Family::Plain | Family::Json | Family::Fixed => run::<I, Nothing>(index, block, bytes),
            Family::Csv if dialect.quote_is_doubled() => {
                run::<I, DoubledQuotes>(index, block, bytes)
            }
            Family::Csv => run::<I, EscapedQuotes>(index, block, bytes),
            Family::Text => run::<I, Backslashes>(index, block, bytes),
        }
    }
}

/// How a family protects separators: carried from word to word.
trait Protection: Default {
    const QUOTE: bool;
    const ESCAPE: bool;

    /// Whether this word may be taken as it is: nothing protected now or by anything in it.
    fn idle(&self, masks: &Masks) -> bool;

    /// The bytes of this word that are protected, and those that make their field special.
    ///
    /// # Safety
    /// The processor has `I`'s instructions.
    unsafe fn protect<I: Instructions>(&mut self, masks: &Masks) -> (u64, u64);

    /// Whether the text so far ends inside quotes.
    fn in_quotes(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct Nothing;

impl Protection for Nothing {
    const QUOTE: bool = false;
    const ESCAPE: bool = false;
    #[inline(always)]
    fn idle(&self, _: &Masks) -> bool {
        true
    }
    #[inline(always)]
    unsafe fn protect<I: Instructions>(&mut self, _: &Masks) -> (u64, u64) {
        (0, 0)
    }
}

/// All ones while inside quotes.
#[derive(Default)]
struct DoubledQuotes(u64);

impl Protection for DoubledQuotes {
    const QUOTE: bool = true;
    const ESCAPE: bool = false;
    #[inline(always)]
    fn idle(&self, masks: &Masks) -> bool {
        masks.quote == 0 && self.0 == 0
    }
    #[inline(always)]
    unsafe fn protect<I: Instructions>(&mut self, masks: &Masks) -> (u64, u64) {
        // SAFETY: handed on.
        let inside = unsafe { I::prefix_parity(masks.quote) } ^ self.0;
        self.0 = ((inside as i64) >> 63) as u64;
        (inside, masks.quote)
    }
    fn in_quotes(&self) -> bool {
        self.0 != 0
    }
}

/// Quotes with an escape of their own: rare, so taken byte by byte.
#[derive(Default)]
struct EscapedQuotes {
    inside: bool,
    escaped: bool,
}

impl Protection for EscapedQuotes {
    const QUOTE: bool = true;
    const ESCAPE: bool = true;
    #[inline(always)]
    fn idle(&self, masks: &Masks) -> bool {
        masks.quote == 0 && !self.inside
    }
    unsafe fn protect<I: Instructions>(&mut self, masks: &Masks) -> (u64, u64) {
        let mut protected = 0;
        for bit in 0..64 {
            let is = |mask: u64| mask >> bit & 1 == 1;
            // As COPY does it: an escape counts inside quotes only, and an escaped escape is none.
            if self.inside && is(masks.escape) {
                self.escaped = !self.escaped;
            } else {
                if is(masks.quote) && !self.escaped {
                    self.inside = !self.inside;
                }
                self.escaped = false;
            }
            protected |= u64::from(self.inside) << bit;
        }
        (protected, masks.quote)
    }
    fn in_quotes(&self) -> bool {
        self.inside
    }
}

/// Whether the first byte of the next word is escaped.
#[derive(Default)]
struct Backslashes(bool);

impl Protection for Backslashes {
    const QUOTE: bool = false;
    const ESCAPE: bool = true;
    #[inline(always)]
    fn idle(&self, masks: &Masks) -> bool {
        masks.escape == 0 && !self.0
    }
    unsafe fn protect<I: Instructions>(&mut self, masks: &Masks) -> (u64, u64) {
        let mut escaped = u64::from(self.0);
        self.0 = false;
        let mut rest = masks.escape & !escaped;
        // Each backslash that is not escaped itself protects the byte after it.
        while rest != 0 {
            let at = rest.trailing_zeros();
            if at == 63 {
                self.0 = true;
                break;
            }
            escaped |= 2 << at;
            rest &= !(3 << at);
        }
        (escaped, masks.escape)
    }
}

/// The separators that end a field with a bit of `special` in it; `carried` says that the first
/// field has one from before, and then that the last one goes on with one.
///
/// Each field is a run of ones here, to which its special bits are added: any of them makes it
/// overflow into its separator, which is zero and stops it there.
#[inline(always)]
fn ended_special(separators: u64, special: u64, carried: &mut bool) -> u64 {
    let fields = !separators;
    let (sum, first) = fields.overflowing_add(special & fields);
    let (sum, second) = sum.overflowing_add(u64::from(*carried));
    *carried = first | second;
    sum & separators
}

#[inline(always)]
unsafe fn run<I: Instructions, P: Protection>(index: &mut FieldIndex, block: &Block, bytes: Bytes) {
    let text = block.text();
    let start = text.as_ptr();
    let mut protection = P::default();
    let mut field_is_special = false;
    let (mut nul, mut carriage_return, mut line_ends, mut protected_feeds) = (0, 0, 0, 0);
    let out = index.separators.as_mut_ptr();
    let mut written = index.separators.len();

    let mut at = 0;
    while at < text.len() {
        // SAFETY: the block is followed by BLOCK_PADDING = 64 readable bytes.
        let mut masks = unsafe { I::masks(start.add(at), bytes, P::QUOTE, P::ESCAPE) };
        let left = text.len() - at;
        if left < 64 {
            let valid = (1 << left) - 1;
            masks.delimiter &= valid;
            masks.line_feed &= valid;
            masks.carriage_return &= valid;
            masks.nul &= valid;
            masks.quote &= valid;
            masks.escape &= valid;
        }
        nul |= masks.nul;
        let base = (BLOCK_PADDING + at) as u32;
        if protection.idle(&masks) && !field_is_special {
            line_ends += masks.line_feed.count_ones() as usize;
            carriage_return |= masks.carriage_return;
            // SAFETY: at most one separator per byte of text has been written, and the vector has
            // room for 128 more.
            written += unsafe {
                I::write_positions(masks.delimiter | masks.line_feed, base, out.add(written))
            };
        } else {
            // SAFETY: the caller's promise.
            let (protected, special) = unsafe { protection.protect::<I>(&masks) };
            let line_feed = masks.line_feed & !protected;
            line_ends += line_feed.count_ones() as usize;
            protected_feeds += (masks.line_feed & protected).count_ones() as usize;
            carriage_return |= masks.carriage_return & !protected;
            let separators = (masks.delimiter & !protected) | line_feed;
            let flagged = ended_special(separators, special, &mut field_is_special);
            // SAFETY: as above.
            written += unsafe { I::write_flagged(separators, flagged, base, out.add(written)) };
        }
        at += 64;
    }
    // SAFETY: so many entries were written, within the capacity.
    unsafe { index.separators.set_len(written) };
    index.line_ends = line_ends;
    index.line_feeds = line_ends + protected_feeds;
    index.has_nul = nul != 0;
    index.has_carriage_return = carriage_return != 0;
    index.ends_in_quotes = protection.in_quotes();
}
