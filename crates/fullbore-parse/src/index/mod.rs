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
mod masks;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
pub mod quotes;

use std::sync::OnceLock;

use super::block::Block;
use super::dialect::Dialect;
use crate::constants::BLOCK_PADDING;

/// Set on a separator whose field holds a quote or a backslash.
pub const SPECIAL: u32 = 1 << 31;
/// The offset in a separator.
pub const OFFSET: u32 = SPECIAL - 1;

/// Where the fields of a block end.
#[derive(Debug, Default)]
pub struct FieldIndex {
    /// Offsets into the padded buffer, [`SPECIAL`] set where the field needs decoding. The first
    /// entry is not a separator but the place before the first field.
    pub separators: Vec<u32>,
    /// How many separators are line ends.
    pub line_ends: usize,
    /// Line feeds, those within fields included.
    pub line_feeds: usize,
    /// A NUL byte stands somewhere in the block.
    pub has_nul: bool,
    /// A carriage return stands outside quotes somewhere in the block.
    pub has_carriage_return: bool,
    /// The block ends inside quotes.
    pub ends_in_quotes: bool,
}

/// A set of instructions that the index can be built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Level {
    /// Every level that this processor has, slowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut levels = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("pclmulqdq")
            {
                levels.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("pclmulqdq")
            {
                levels.push(Self::Avx512);
            }
        }
        #[cfg(target_arch = "aarch64")]
        levels.push(Self::Neon);
        levels
    }

    /// The fastest level that this processor has.
    pub fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| *Self::available().last().expect("plain is always there"))
    }

    /// Whether this processor has the level.
    pub fn is_available(self) -> bool {
        self == Self::best() || Self::available().contains(&self)
    }
}

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
