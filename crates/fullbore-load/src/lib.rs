//! From a job to rows that are loaded: job, plan, run.
//!
//! This crate knows no database and prints nothing. Between parse and encode there is only Arrow's
//! `RecordBatch`; where batches go is behind [`sink`].

pub mod constants;
pub mod job;
pub mod members;
pub mod plan;
pub mod run;
pub mod run_id;
pub mod sink;
pub mod sorted;
pub mod sums;
pub mod target;
mod target_column;

pub use fullbore_read::error::{Error, Result};

pub use target_column::TargetColumn;
