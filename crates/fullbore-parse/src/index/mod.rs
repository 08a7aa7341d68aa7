//! Finds where fields end: one pass over a block, 64 bytes at a time.
//!
//! The result is a list of separators (delimiters and line ends that are not quoted or escaped),
//! each an offset into the block's padded buffer; [`SPECIAL`] is set where the field before it
//! contains a quote or a backslash and must be decoded. The idea of turning text into 64-bit masks
//! and masks into positions is simdjson's (Langdale and Lemire, "Parsing gigabytes of JSON per
//! second", 2019).
//!
//! Three levels of instructions give the same answer: AVX-512 (with VBMI2), AVX2, and plain Rust.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod level;
mod masks;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
pub mod quotes;
mod separators;

use super::block::Block;
use super::dialect::Dialect;
use crate::constants::BLOCK_PADDING;
pub use level::Level;
pub use separators::{FieldIndex, OFFSET, SPECIAL};

impl FieldIndex {
    /// Indexes a block with the best level; the former content is replaced, its memory kept.
    pub fn build(&mut self, block: &Block, dialect: &Dialect) {
        self.build_with(Level::best(), block, dialect);
    }

    /// Indexes a block with a given level.
    ///
    /// # Panics
    /// If the processor lacks the level, or the block is 1 GiB or larger.
    pub fn build_with(&mut self, level: Level, block: &Block, dialect: &Dialect) {
        assert!(block.len() < (1 << 30), "a block is under 1 GiB");
        self.separators.clear();
        // Every byte may be a separator, and a level may write up to 64 entries past the last one.
        self.separators.reserve(block.len() + 1 + 128);
        self.separators.push(BLOCK_PADDING as u32 - 1);
        self.line_ends = 0;
        self.line_feeds = 0;
        self.has_nul = false;
        self.has_carriage_return = false;
        self.ends_in_quotes = false;
        if block.is_empty() {
            return;
        }
        match level {
            Level::Plain => plain::build(self, block, dialect),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                assert!(level.is_available());
                // SAFETY: the processor has the instructions, checked just above.
                unsafe { avx2::build(self, block, dialect) }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                assert!(level.is_available());
                // SAFETY: the processor has the instructions, checked just above.
                unsafe { avx512::build(self, block, dialect) }
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every aarch64 processor has NEON.
            Level::Neon => unsafe { neon::build(self, block, dialect) },
        }
    }
}
