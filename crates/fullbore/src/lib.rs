//! A load from a job to its result: what the command and Python share.
//!
//! [`job_file`] reads one, [`check`] refuses a job that contradicts itself, [`destinations`] opens what it loads into,
//! [`ledger_state`] asks the ledger what is to be done ([`databases`] that of another database), and [`load()`] makes the plan and runs it. Nothing is
//! printed here: what people should know goes to an [`Audience`], and what became of a load is a
//! [`Loaded`]. [`ingest`] loads without end. The state folder ([`state`]) keeps jobs ([`saved`]), ceilings, numbers of streams, and what was appended
//! ([`here`]).

mod assemble;
pub mod ceilings;
pub mod check;
pub mod databases;
pub mod destinations;
mod ended;
mod error_json;
mod here;
pub mod ingest;
pub mod job_file;
pub mod json_summary;
pub mod kept;
mod ledger_state;
mod load;
mod loaded;
mod ordered;
mod part;
pub mod plan_json;
pub mod plan_view;
pub mod rate;
mod remains;
mod resume;
pub mod saved;
pub mod sources;
pub mod state;
mod tables;
mod tuned;
mod unfinished;
pub mod whole;
pub mod write;

pub use assemble::assemble;
pub use ended::Ended;
pub use error_json::refusal;
pub use load::{Audience, LoadOptions, Loaded, load, plan};
pub use resume::resumed;
