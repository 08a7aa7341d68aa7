//! `fullbore preflight`: what disks, networks and servers can do, before a load.

mod all;
mod args;
mod db;
mod disk;
mod net;
mod rate;
mod sizes;

use fullbore::Ended;
use fullbore_preflight::Error;

use crate::words::complain;
use args::PreflightAction;
pub use args::PreflightArgs;

pub fn run(args: &PreflightArgs) -> Ended {
    let result = match &args.action {
        PreflightAction::Disk(args) => disk::run(args),
        PreflightAction::Net(args) => net::run(args),
        PreflightAction::Db(args) => db::run(args),
        PreflightAction::All(args) => return all::run(args),
    };
    match result {
        Ok(()) => Ended::Loaded,
        Err(error) => {
            complain(&error.to_string(), error.hint());
            if error.is_usage() { Ended::Usage } else { Ended::Failed }
        }
    }
}

/// Prints a report, as one JSON object or for people; a reader that has gone away is no error.
fn show<R: serde::Serialize>(
    as_json: bool,
    report: &R,
    print: impl FnOnce(&R) -> std::io::Result<()>,
) -> Result<(), Error> {
    if as_json {
        crate::words::print_json(report);
        return Ok(());
    }
    let _ = print(report);
    Ok(())
}

/// An error of the load's own parts, which say what is wrong with the job or the server.
fn usage_of(error: fullbore_load::Error) -> Error {
    let hint = error.hint().map(str::to_owned);
    Error::Server { message: error.to_string(), hint }
}
