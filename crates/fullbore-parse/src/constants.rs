//! The limits of parsing, with the relations between them asserted.

/// Bytes of text in one block: what one parser takes at a time. Small enough that the block, its
/// index and its columns stay in a core's second-level cache (measured flat from 256 to 512 KiB).
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Readable bytes kept before and after a block's text, so that wide loads near either end stay
/// inside the buffer.
pub const BLOCK_PADDING: usize = 64;

/// No block grows over this, whatever a record may have: places in it are counted in 30 bits. The
/// last line's end is added after it.
pub const BLOCK_BYTES_LIMIT: usize = (1 << 30) - 2 * BLOCK_PADDING;

/// Records in one block where missing fields are padded: a short one may become a row of many columns.
pub const PADDED_RECORDS_MAX: usize = 4096;

/// Bytes of a rejected value shown in its reason.
pub const REJECT_VALUE_BYTES: usize = 200;

const _: () = assert!(BLOCK_BYTES >= 4096 && BLOCK_BYTES < BLOCK_BYTES_LIMIT);
