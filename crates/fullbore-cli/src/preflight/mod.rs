//! `fullbore preflight`: what disks, networks and servers can do, before a load.

mod args;
mod disk;
mod net;
mod sizes;
mod table;

pub use args::PreflightArgs;

use fullbore_preflight::Error;

use crate::exit::Ended;
use crate::words::complain;
use args::PreflightAction;

pub fn run(args: &PreflightArgs) -> Ended {
    let result = match &args.action {
        PreflightAction::Disk(args) => disk::run(args),
        PreflightAction::Net(args) => net::run(args),
    };
    match result {
        Ok(()) => Ended::Loaded,
        Err(error) => {
            complain(&error.to_string(), error.hint());
            if error.is_usage() { Ended::Usage } else { Ended::Failed }
        }
    }
}

/// Prints a report as one JSON object; a reader that has gone away is no error.
fn print_json(report: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;
    let text = serde_json::to_string(report).expect("plain data becomes JSON");
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
