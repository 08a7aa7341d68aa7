//! The index with NEON.

use std::arch::aarch64::*;

use super::masks::{self, Bytes, Instructions, Masks};
use super::quotes::Scan;
use super::separators::FieldIndex;
use crate::block::Block;
use crate::dialect::Dialect;

struct Neon;

impl Instructions for Neon {
    #[inline(always)]
    unsafe fn masks(text: *const u8, bytes: Bytes, quote: bool, escape: bool) -> Masks {
        // SAFETY: 64 bytes are readable, the caller's promise; every aarch64 processor has NEON.
        unsafe {
            let parts = [0, 16, 32, 48].map(|at| vld1q_u8(text.add(at)));
            let weights: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
            let weights = vld1q_u8(weights.as_ptr());
            let equal = |byte: u8| {
                let wanted = vdupq_n_u8(byte);
                let hit = parts.map(|part| vandq_u8(vceqq_u8(part, wanted), weights));
                // Three pairwise sums gather 64 weighted bytes into 8 bytes of bits.
                let sum = vpaddq_u8(vpaddq_u8(hit[0], hit[1]), vpaddq_u8(hit[2], hit[3]));
                let sum = vpaddq_u8(sum, sum);
                vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sum))
            };
            Masks {
                delimiter: equal(bytes.delimiter),
                line_feed: equal(b'\n'),
                carriage_return: equal(b'\r'),
                nul: equal(0),
                quote: if quote { equal(bytes.quote) } else { 0 },
                escape: if escape { equal(bytes.escape) } else { 0 },
            }
        }
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

/// # Safety
/// None beyond `build_with`'s: every aarch64 processor has NEON.
pub unsafe fn build(index: &mut FieldIndex, block: &Block, dialect: &Dialect) {
    // SAFETY: `build_with` reserved the room.
    unsafe { masks::build::<Neon>(index, block, dialect) }
}

/// # Safety
/// None: every aarch64 processor has NEON.
pub unsafe fn look(scan: &mut Scan, text: &[u8]) {
    // SAFETY: the processor has the instructions.
    unsafe { scan.run::<Neon>(text) }
}
