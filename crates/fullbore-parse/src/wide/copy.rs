//! Text fields, copied 64 bytes at a time whatever their length.
//!
//! Most fields are shorter than that, so that a copy is one move without a branch on the length.
//! Quotes are looked for in what is moved anyway.

use super::{Fields, Quotes};
use crate::constants::BLOCK_PADDING;
use crate::index::{Level, OFFSET, SPECIAL};

/// Bytes moved at a time.
const MOVE: usize = 64;
const _: () = assert!(MOVE <= BLOCK_PADDING);

/// What a level supplies for copying.
///
/// # Safety
/// The processor has the level's instructions.
pub trait Moves {
    /// # Safety
    /// [`MOVE`] bytes are readable at `from` and writable at `to`; the two do not overlap.
    unsafe fn copy(from: *const u8, to: *mut u8);
    /// A bit for each of [`MOVE`] bytes that is `byte`.
    ///
    /// # Safety
    /// As many bytes are readable at `text`.
    unsafe fn equal(text: *const u8, byte: u8) -> u64;
}

/// A column of text under construction.
#[derive(Debug)]
pub struct Texts {
    pub data: Vec<u8>,
    /// Where each row's text ends in `data`; 0 before the first.
    pub ends: Vec<i32>,
    /// Rows without one.
    pub nulls: Vec<u32>,
}

impl Texts {
    /// None yet, with room for so many bytes and rows.
    pub fn with_capacity(bytes: usize, rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { data: Vec::with_capacity(bytes), ends, nulls: Vec::new() }
    }

    /// How many rows there are so far.
    pub fn rows(&self) -> usize {
        self.ends.len() - 1
    }

    /// Ends a row's text, which was appended to the data.
    ///
    /// # Panics
    /// If the data has grown over 2 GiB, which a block can't make it.
    pub fn end_row(&mut self) {
        self.ends.push(i32::try_from(self.data.len()).expect("a block is under 1 GiB"));
    }
}

/// Appends the texts of the rows that are still missing, up to the first that needs a closer look: a
/// field that may be NULL and is not empty, that is quoted in an unusual way, or that is longer than
/// `bytes_max`.
pub fn append(fields: &Fields<'_>, bytes_max: usize, texts: &mut Texts) {
    append_with(Level::best(), fields, bytes_max, texts);
}

/// As [`append`], with a given level of instructions.
///
/// # Panics
/// If the processor lacks the level, or there are more texts than rows.
pub fn append_with(level: Level, fields: &Fields<'_>, bytes_max: usize, texts: &mut Texts) {
    assert!(level.is_available());
    texts.ends.reserve(fields.rows.checked_sub(texts.rows()).expect("no more texts than rows"));
    match level {
        // SAFETY: the processor has the instructions, checked just above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { super::avx512::append(fields, bytes_max, texts) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { super::avx2::append(fields, bytes_max, texts) },
        // SAFETY: the plain moves need no instructions.
        _ => unsafe { run::<Plain>(fields, bytes_max, texts) },
    }
}

/// To be inlined into a function compiled for the level's instructions.
///
/// # Safety
/// The processor has the level's instructions, and `texts.ends` has room for the missing rows.
#[inline(always)]
pub unsafe fn run<M: Moves>(fields: &Fields<'_>, bytes_max: usize, texts: &mut Texts) {
    let text = fields.padded.as_ptr();
    let mut row = texts.rows();
    let mut at = row * fields.stride + fields.field;
    let mut written = texts.data.len();
    let mut room = texts.data.capacity();
    // SAFETY: a separator of every row is there, checked when `fields` was made; fields lie in the
    // block, which is followed by MOVE readable bytes; what is written to was reserved.
    unsafe {
        while row < fields.rows {
            let start = (*fields.separators.get_unchecked(at) & OFFSET) as usize + 1;
            let separator = *fields.separators.get_unchecked(at + 1);
            let length = (separator & OFFSET) as usize - start;
            // Taking quotes away makes it shorter, if anything.
            if written + length + MOVE > room {
                texts.data.set_len(written);
                texts.data.reserve(length + MOVE);
                room = texts.data.capacity();
            }
            let (from, to) = (text.add(start), texts.data.as_mut_ptr().add(written));
            if separator & SPECIAL != 0 {
                let Some(quotes) = fields.quotes else { break };
                match unquote::<M>(from, length, quotes, to) {
                    Some(length) if length <= bytes_max => written += length,
                    _ => break,
                }
            } else if length == fields.null_bytes {
                if length > 0 {
                    break;
                }
                texts.nulls.push(row as u32);
            } else {
                if length > bytes_max {
                    break;
                }
                if length <= MOVE {
                    M::copy(from, to);
                } else {
                    std::ptr::copy_nonoverlapping(from, to, length);
                }
                written += length;
            }
            texts.ends.as_mut_ptr().add(texts.ends.len()).write(written as i32);
            texts.ends.set_len(texts.ends.len() + 1);
            at += fields.stride;
            row += 1;
        }
        texts.data.set_len(written);
    }
}

/// Copies a field without the quotes around it, and with one for each two within; how long it is
/// then. `None` where it is quoted in another way; what was written does not count then.
///
/// # Safety
/// The processor has the level's instructions; `length` and [`MOVE`] more bytes are readable at
/// `from` and writable at `to`.
#[inline(always)]
unsafe fn unquote<M: Moves>(
    from: *const u8,
    length: usize,
    quotes: Quotes,
    to: *mut u8,
) -> Option<usize> {
    let Quotes { quote, escape } = quotes;
    // SAFETY: `read + left` and `written` stay within `length`.
    unsafe {
        if length < 2 || *from != quote || *from.add(length - 1) != quote {
            return None;
        }
        let (mut read, mut written, mut left) = (1, 0, length - 2);
        loop {
            let (from, to) = (from.add(read), to.add(written));
            M::copy(from, to);
            let inside = if left < MOVE { (1 << left) - 1 } else { u64::MAX };
            let mut found = M::equal(from, quote) & inside;
            if escape != quote {
                found |= M::equal(from, escape) & inside;
            }
            if found == 0 {
                if left <= MOVE {
                    return Some(written + left);
                }
                (read, written, left) = (read + MOVE, written + MOVE, left - MOVE);
                continue;
            }
            let at = found.trailing_zeros() as usize;
            if escape != quote || at + 1 >= left || *from.add(at + 1) != quote {
                return None;
            }
            (read, written, left) = (read + at + 2, written + at + 1, left - at - 2);
        }
    }
}

/// Moves without any instructions beyond the platform's own.
struct Plain;

impl Moves for Plain {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, MOVE) }
    }

    #[inline(always)]
    unsafe fn equal(text: *const u8, byte: u8) -> u64 {
        // SAFETY: the caller's promise.
        let text = unsafe { &*text.cast::<[u8; MOVE]>() };
        let mut mask = 0;
        for (bit, found) in text.iter().enumerate() {
            mask |= u64::from(*found == byte) << bit;
        }
        mask
    }
}
