//! Every bound of the probes, in one place, with the relations between them asserted.

use std::time::Duration;

/// Largest block of one disk I/O.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;

/// Most I/Os in flight on one path.
pub const DEPTH_MAX: usize = 1024;

/// Most memory for the buffers of all paths together.
pub const BUFFER_BYTES_MAX: usize = 1 << 30;

/// Free space that a scratch file leaves to others.
pub const FREE_BYTES_MIN: u64 = 256 << 20;

/// Longest that one setting is measured.
pub const CELL_SECONDS_MAX: f64 = 600.0;

/// Most settings of one matrix.
pub const CELLS_MAX: usize = 1000;

/// How a scratch file is filled: large blocks and a few of them in flight.
pub const FILL_BLOCK_BYTES: usize = 1 << 20;
pub const FILL_DEPTH: usize = 16;

/// Extents of a file that are counted; a file of more is in pieces however many more there are.
pub const EXTENTS_MAX: usize = 1 << 20;

/// Share of the best rate that the knee still has.
pub const KNEE_SHARE: f64 = 0.95;

/// Most streams of one network measurement.
pub const STREAMS_MAX: usize = 64;

/// Largest message, written at once by a network stream.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Largest window that can be asked for.
pub const WINDOW_BYTES_MAX: usize = 1 << 30;

/// Largest frame of a control connection once it is authenticated; before that, messages have a
/// fixed size of less than this.
pub const FRAME_BYTES_MAX: usize = 256 << 10;

/// Connections whose other end has not proven yet that it knows the token.
pub const STRANGERS_MAX: usize = 32;

/// How long a stranger may take to prove it.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the other side of a control connection may be silent beside what a measurement takes.
pub const CONTROL_SILENCE_MAX: Duration = Duration::from_secs(20);

/// How long what is under way at the end of a measurement may take to arrive.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// How often streams are looked at, at the most.
pub const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Samples of one measurement; a longer one is looked at less often.
pub const SAMPLES_MAX: usize = 600;

/// Kernel settings that one side may tell, and the length of each.
pub const SETTINGS_MAX: usize = 64;
pub const SETTING_BYTES_MAX: usize = 256;

const _: () = assert!(FILL_BLOCK_BYTES <= BLOCK_BYTES_MAX && FILL_DEPTH <= DEPTH_MAX);
const _: () = assert!(BLOCK_BYTES_MAX <= BUFFER_BYTES_MAX);
const _: () = assert!(SETTINGS_MAX * SETTING_BYTES_MAX * 2 < FRAME_BYTES_MAX);
// A sample is a number of at most 20 digits and a comma.
const _: () = assert!(SAMPLES_MAX * 21 + STREAMS_MAX * 1024 < FRAME_BYTES_MAX);
