//! The limits of reading, with the relations between them asserted.

use fullbore_parse::constants::BLOCK_BYTES;

/// Reads in flight for one piece that is read past the page cache.
pub const READ_DEPTH: u64 = 2;

/// What such reads are multiples of, in the file and in memory: the largest that devices ask for.
pub const READ_ALIGNMENT: usize = 4096;

/// Room kept before what such a read fills, for the part of a record that the one before ended with.
pub const READ_ROOM_BYTES: usize = 16 << 10;

/// After so many bytes it is looked again whether the page cache holds what comes.
pub const READ_AHEAD_BYTES: u64 = 64 << 20;

/// Largest field accepted unless `--max-field-bytes` says otherwise.
pub const MAX_FIELD_BYTES_DEFAULT: usize = 64 << 20;

/// COPY's own limit for one field.
pub const MAX_FIELD_BYTES_LIMIT: usize = (1 << 30) - 1;

/// Memory that unpacking one xz file may take: the highest of xz's own levels needs 65 MiB.
pub const XZ_MEMORY_BYTES: u64 = 128 << 20;

/// Bytes sampled from each place of a file by the sniffer and by schema inference.
pub const SAMPLE_BYTES: usize = 256 * 1024;

/// Bytes of one chunk whose quotes are counted at a time when a quoted file is split.
pub const SCAN_CHUNK_BYTES: usize = 256 << 10;

/// Rows of a Parquet file decoded at a time, ...
pub const PARQUET_BATCH_ROWS: usize = 8192;

/// ... fewer where they would take more than this, in bytes.
pub const PARQUET_BATCH_BYTES: u64 = 4 << 20;

/// Bytes of decoded rows that are handed to a parser at a time.
pub const PARQUET_UNIT_BYTES: u64 = 1 << 20;

/// Bytes that the pages of all Parquet files that are read at once may take, ...
pub const PAGES_BYTES_SHARED: u64 = 128 << 20;

/// ... and those of a single one, which then is read alone; four times the longest field where that is
/// more.
pub const PAGES_BYTES_MAX: u64 = 256 << 20;

const _: () =
    assert!(PARQUET_UNIT_BYTES <= PARQUET_BATCH_BYTES && PAGES_BYTES_SHARED <= PAGES_BYTES_MAX);
const _: () = assert!(BLOCK_BYTES.is_multiple_of(READ_ALIGNMENT) && READ_DEPTH > 0);
const _: () = assert!(MAX_FIELD_BYTES_DEFAULT <= MAX_FIELD_BYTES_LIMIT);
