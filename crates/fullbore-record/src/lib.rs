//! The run record: events and samples, one JSON object a line, written once and read by all.
//!
//! Progress, summary, report, live page, `runs show` and tests read nothing else. The first line names
//! the version of the format.

pub mod ceilings;
pub mod constants;
pub mod diagnose;
mod event;
mod folder;
mod follow;
mod latest;
pub mod observe;
mod recorder;
mod store;
mod summaries;
pub mod terms;
mod thin;
mod watcher;
mod whole;

pub use event::{
    Entry, Event, Merged, Phase, RECORD_VERSION, TableMethod, TableTotals, Tried, Verified,
    now_unix_ms,
};
pub use folder::{claim, make_private};
pub use follow::Follower;
pub use recorder::{Listener, Recorder};
pub use store::{RunState, RunSummary, list_runs, read_events, summary_of};
pub use summaries::{
    HostSummary, PartSummary, PlanSummary, Reason, RejectKind, RejectSummary, TableSummary,
};
pub use watcher::watch_run;
pub use whole::Whole;
