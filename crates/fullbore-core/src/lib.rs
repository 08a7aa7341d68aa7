//! Fullbore's data path: source, split, parse, run, record.
//!
//! This crate knows no database, prints nothing and makes no HTML. Between parse and encode there
//! is only Arrow's `RecordBatch`; where batches go is behind [`destination`].

pub mod ceilings;
pub mod constants;
pub mod destination;
pub mod diagnose;
pub mod job;
pub mod observe;
pub mod plan;
pub mod record;
pub mod run;
pub mod run_id;
pub mod sinks;
pub mod sums;

pub use fullbore_read::error::{Error, Result};
