//! How often is looked.

/// How often it is noted what streams and their backends do, in milliseconds.
pub const MOMENT_INTERVAL_MS: u64 = 100;

/// Where that costs more than this part of the load's own CPU, it is done less often, but at least so
/// often; not at first, so that short loads are seen as well as others.
pub const OBSERVING_PART_MAX: f64 = 0.01;
pub const MOMENT_INTERVAL_MS_MAX: u64 = 1_000;
pub const CLOSELY_OBSERVED_MS: u64 = 30_000;

/// How often all counters of a run are read and recorded, in milliseconds.
pub const OBSERVATION_INTERVAL_MS: u64 = 1_000;
