//! `fullbore runs`: lists runs from records and ledgers, and resumes, publishes or rolls back stopped
//! ones.

mod args;
pub mod folders;
mod list;
mod publish;
mod recount;
mod report;
mod resume;
mod show;
mod take_back;
mod verify;

use fullbore::Ended;
use fullbore_read::error::{DestinationFailure, Error};

use crate::words::complain;
use args::RunsAction;
pub use args::RunsArgs;

pub fn run(args: &RunsArgs) -> Ended {
    let result = match &args.action {
        RunsAction::List { json, ledger } => list::list(*json, ledger).map(|()| Ended::Loaded),
        RunsAction::Show { run, json, ledger } => {
            show::show(run, *json, ledger).map(|()| Ended::Loaded)
        }
        RunsAction::Report { run, output } => report::report(run, output).map(|()| Ended::Loaded),
        RunsAction::Verify(args) => verify::verify(args),
        RunsAction::Resume(args) => resume::resume(args),
        RunsAction::Throttle { run, rate } => throttle(run, rate).map(|()| Ended::Loaded),
        RunsAction::Publish(args) => publish::publish(args),
        RunsAction::Abort { run, delete_rows, ledger } => {
            take_back::abort(run, *delete_rows, ledger)
        }
        RunsAction::Undo { run, delete_rows, ledger } => take_back::undo(run, *delete_rows, ledger),
    };
    result.unwrap_or_else(|error| {
        complain(&error.to_string(), error.hint());
        let takes_back = matches!(args.action, RunsAction::Abort { .. } | RunsAction::Undo { .. });
        match error {
            Error::Usage { .. } => Ended::Usage,
            Error::Destination { kind: DestinationFailure::Refused, .. } => Ended::Usage,
            // Some of it may be gone already.
            _ if takes_back => Ended::Failed,
            _ => Ended::Usage,
        }
    })
}

fn throttle(run: &str, rate: &str) -> Result<(), Error> {
    let rate = match rate {
        "none" => None,
        rate => Some(
            rate.parse()
                .map_err(|wrong: String| Error::usage_with_hint(wrong, "`none` lifts the limit"))?,
        ),
    };
    fullbore::rate::throttle(run, rate)
}
