//! The command itself: calls, options, output, and what a run says of itself.

mod calls;
mod live;
mod log_file;
mod observe;
mod options;
mod orphans;
mod orphans_elsewhere;
mod plan_agrees;
mod throttle;
