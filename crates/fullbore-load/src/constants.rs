//! The queues, buffers and retries that are limited, and the relations between these limits; those of parsing
//! and reading are in [`fullbore_parse::constants`] and [`fullbore_read::constants`].

/// Encoded blocks that may wait for one stream's session.
pub const QUEUE_BLOCKS_PER_STREAM: usize = 4;

/// A run has at least this many pieces per stream where the data is large enough.
pub const PIECES_PER_STREAM_MIN: usize = 7;

/// Pieces are not cut smaller than this: the price of a transaction must not show.
pub const PIECE_BYTES_MIN: u64 = 16 << 20;

/// Unless there are so few that streams would go without, or do one more than others: then down to this.
pub const PIECE_BYTES_LEAST: u64 = 4 << 20;

/// Pieces are not cut larger than this: what is repeated after a crash stays small.
pub const PIECE_BYTES_MAX: u64 = 1 << 30;

/// But that a file whose quotes must be counted before it is cut, which is to read it twice, stays whole
/// below this many pieces where there are files enough for all streams.
pub const UNCUT_PIECES: u64 = 2;

/// Streams that `--streams auto` tries at most: a server's sessions are few, and each keeps some megabytes here.
pub const STREAMS_MAX: usize = 64;

/// So many times the streams that it begins with may have pieces enough.
pub const FINER_FOR_AUTO: usize = 4;

/// Parsers that `--parsers auto` has at most, where sources are what is waited for.
pub const PARSERS_MAX: usize = 32;

/// A stream that is not needed closes its session after this, in seconds.
pub const SESSION_KEPT_S: f64 = 5.0;

/// Places at which a piece of quoted text can be cut once more, ...
pub const JOINTS_PER_PIECE: u64 = 8;

/// ... which are this far from each other at least: each is a read of its own.
pub const JOINT_BYTES_MIN: u64 = 1 << 20;

/// A stream without work takes over the second half of a piece that would still take this long, in seconds: for
/// less, another transaction does not pay.
pub const REST_TAKEN_OVER_S: f64 = 2.0;

/// Or of which less than this is left to read.
pub const REST_BYTES_MIN: u64 = 1 << 20;

/// How often a stream without work looks for such a piece, in milliseconds.
pub const REST_LOOK_MS: u64 = 200;

/// Share of odd rows in a piece, in percent, above which the piece goes wholly as COPY text.
pub const ODD_ROWS_PERCENT_MAX: u64 = 5;

/// Rows a piece must have shown before its share of odd rows is judged.
pub const ODD_ROWS_JUDGED_AFTER: u64 = 10_000;

/// Odd rows kept in memory per piece before they are spooled to disk.
pub const ODD_BYTES_IN_MEMORY: usize = 1 << 20;

/// Rows sent as text before the destination's judgement is waited for: each may come back with a
/// notice, and these are kept until the end.
pub const JUDGED_ROWS_MAX: usize = 16_384;

/// Pieces of a table that may be refused as a whole before all of its pieces are judged row by row
/// from their beginning.
pub const CAREFUL_AFTER_PIECES: usize = 2;

/// Times that violations may be rejected before the other rows are published: a row that was taken out may have been
/// what another one refers to.
pub const VIOLATION_PASSES_MAX: u32 = 8;

/// A text column's plan names a type that nearly fits if at most this share of the sampled values, in
/// percent, does not fit it, ...
pub const INFER_ODD_PERCENT_MAX: u64 = 1;

/// ... of at least so many values.
pub const INFER_ODD_VALUES_FROM: u64 = 1000;

/// Bytes of an odd sampled value that are shown.
pub const SAMPLED_VALUE_SHOWN_BYTES: usize = 40;

/// How long pieces that are under way at the first signal may take to be committed, in seconds;
/// then they are rolled back.
pub const INTERRUPT_GRACE_S: u64 = 10;

/// How long a server that is gone is waited for, in seconds, unless `--retry-for` says otherwise.
pub const RETRY_FOR_DEFAULT_S: u64 = 120;

/// How long one attempt waits for a lock that others hold, in milliseconds, unless `--lock-timeout` says
/// otherwise.
pub const LOCK_TIMEOUT_DEFAULT_MS: u64 = 2_000;

/// The first pause before a lost connection is tried again, in milliseconds; each next one is twice
/// as long, ...
pub const RETRY_PAUSE_FIRST_MS: u64 = 50;

/// ... up to this.
pub const RETRY_PAUSE_MAX_MS: u64 = 5_000;

/// Times that a run may go on after lost connections without a piece being committed in between.
pub const ROUNDS_WITHOUT_PROGRESS_MAX: u32 = 5;

/// How often the limits of `--pause-when` are looked at, in milliseconds.
pub const PAUSE_LOOK_MS: u64 = 1_000;

/// Bytes of encoded rows that may wait for one stream's session, beyond the first block.
pub const QUEUE_BYTES_PER_STREAM: usize = 4 << 20;

/// Larger buffers are given back rather than kept for the next block.
pub const BUFFER_BYTES_KEPT: usize = 4 << 20;

const _: () = assert!(RETRY_PAUSE_FIRST_MS <= RETRY_PAUSE_MAX_MS);
const _: () = assert!(PIECE_BYTES_LEAST <= PIECE_BYTES_MIN && PIECE_BYTES_MIN <= PIECE_BYTES_MAX);
