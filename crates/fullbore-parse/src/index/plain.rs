//! The index in plain Rust, for processors without the instructions of the other levels.

use super::masks::{self, Bytes, Instructions, Masks};
use super::quotes::Scan;
use super::separators::FieldIndex;
use crate::block::Block;
use crate::dialect::Dialect;

struct Plain;

/// One bit per byte of the 8 that equals `byte`.
#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let difference = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
    // The high bit of each byte is set exactly where the difference is zero.
    let zero = !(((difference & LOW) + LOW) | difference | LOW);
    // Gather the eight high bits.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

impl Instructions for Plain {
    #[inline(always)]
    unsafe fn masks(text: *const u8, bytes: Bytes, quote: bool, escape: bool) -> Masks {
        let mut masks =
            Masks { delimiter: 0, line_feed: 0, carriage_return: 0, nul: 0, quote: 0, escape: 0 };
        for part in 0..8 {
            // SAFETY: 64 bytes are readable, the caller's promise.
            let word = u64::from_le(unsafe { text.cast::<u64>().add(part).read_unaligned() });
            let shift = part * 8;
            masks.delimiter |= equal(word, bytes.delimiter) << shift;
            masks.line_feed |= equal(word, b'\n') << shift;
            masks.carriage_return |= equal(word, b'\r') << shift;
            masks.nul |= equal(word, 0) << shift;
            if quote {
                masks.quote |= equal(word, bytes.quote) << shift;
            }
            if escape {
                masks.escape |= equal(word, bytes.escape) << shift;
            }
        }
        masks
    }

    #[inline(always)]
    unsafe fn prefix_parity(mask: u64) -> u64 {
        let mut parity = mask;
        for shift in [1, 2, 4, 8, 16, 32] {
            parity ^= parity << shift;
        }
        parity
    }

    #[inline(always)]
    unsafe fn write_positions(mut mask: u64, base: u32, out: *mut u32) -> usize {
        let count = mask.count_ones() as usize;
        for entry in 0..count {
            // SAFETY: count is at most 64 and 128 entries are writable.
            unsafe { out.add(entry).write(base + mask.trailing_zeros()) };
            mask &= mask - 1;
        }
        count
    }
}

pub fn build(index: &mut FieldIndex, block: &Block, dialect: &Dialect) {
    // SAFETY: no special instructions; `build_with` reserved the room.
    unsafe { masks::build::<Plain>(index, block, dialect) }
}

pub fn look(scan: &mut Scan, text: &[u8]) {
    // SAFETY: no special instructions.
    unsafe { scan.run::<Plain>(text) }
}
