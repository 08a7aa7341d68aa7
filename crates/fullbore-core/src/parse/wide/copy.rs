//! Text fields, copied 64 bytes at a time whatever their length.
//!
//! Most fields are shorter than that, so that a copy is one move without a branch on the length,
//! and whether a quoted field is quoted at its ends only is one comparison.

use super::Fields;
use crate::constants::BLOCK_PADDING;
use crate::parse::index::{Level, OFFSET, SPECIAL};

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

/// Appends fields from row `from` on to `data` and where each ends to `ends`, up to the first row
/// that needs a closer look, and returns that row: a field that may be NULL, that has to be
/// decoded, or that is longer than `bytes_max`.
///
/// # Panics
/// If `data` grows over 2 GiB, which a block can't make it.
pub fn append(
    fields: &Fields<'_>,
    bytes_max: usize,
    from: usize,
    data: &mut Vec<u8>,
    ends: &mut Vec<i32>,
) -> usize {
    append_with(Level::best(), fields, bytes_max, from, data, ends)
}

/// As [`append`], with a given level of instructions.
///
/// # Panics
/// If the processor lacks the level.
pub fn append_with(
    level: Level,
    fields: &Fields<'_>,
    bytes_max: usize,
    from: usize,
    data: &mut Vec<u8>,
    ends: &mut Vec<i32>,
) -> usize {
    assert!(level.is_available());
    ends.reserve(fields.rows - from);
    match level {
        // SAFETY: the processor has the instructions, checked just above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { super::avx512::append(fields, bytes_max, from, data, ends) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { super::avx2::append(fields, bytes_max, from, data, ends) },
        // SAFETY: the plain moves need no instructions.
        _ => unsafe { run::<Plain>(fields, bytes_max, from, data, ends) },
    }
}

/// To be inlined into a function compiled for the level's instructions.
///
/// # Safety
/// The processor has the level's instructions, and `ends` has room for the rows from `from` on.
#[inline(always)]
pub unsafe fn run<M: Moves>(
    fields: &Fields<'_>,
    bytes_max: usize,
    from: usize,
    data: &mut Vec<u8>,
    ends: &mut Vec<i32>,
) -> usize {
    let text = fields.padded.as_ptr();
    let mut at = from * fields.stride + fields.field;
    let mut row = from;
    let mut written = data.len();
    let mut room = data.capacity();
    // SAFETY: a separator of every row is there, checked when `fields` was made; fields lie in the
    // block, which is followed by MOVE readable bytes; what is written to was reserved.
    unsafe {
        while row < fields.rows {
            let mut start = (*fields.separators.get_unchecked(at) & OFFSET) as usize + 1;
            let separator = *fields.separators.get_unchecked(at + 1);
            let mut length = (separator & OFFSET) as usize - start;
            if separator & SPECIAL != 0 {
                let Some(quotes) = fields.quotes else { break };
                if !(2..=MOVE).contains(&length) {
                    break;
                }
                let inside = u64::MAX >> (MOVE - length);
                let quote = M::equal(text.add(start), quotes.quote) & inside;
                if quote != (1 | 1 << (length - 1)) {
                    break;
                }
                let escape = M::equal(text.add(start), quotes.escape) & inside;
                if escape != 0 && quotes.escape != quotes.quote {
                    break;
                }
                start += 1;
                length -= 2;
            } else if length == fields.null_bytes {
                break;
            }
            if length > bytes_max {
                break;
            }
            if written + length + MOVE > room {
                data.set_len(written);
                data.reserve(length + MOVE);
                room = data.capacity();
            }
            let (from, to) = (text.add(start), data.as_mut_ptr().add(written));
            if length <= MOVE {
                M::copy(from, to);
            } else {
                std::ptr::copy_nonoverlapping(from, to, length);
            }
            written += length;
            ends.as_mut_ptr().add(ends.len()).write(written as i32);
            ends.set_len(ends.len() + 1);
            at += fields.stride;
            row += 1;
        }
        data.set_len(written);
    }
    row
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
