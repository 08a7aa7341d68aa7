//! `fullbore runs`: what was loaded, from the records and from ledgers; and what becomes of runs that
//! stopped.

mod args;
mod list;
mod publish;
mod recount;
mod report;
mod resume;
mod show;
mod take_back;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use fullbore_load::run_id::RunId;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::list_runs;

use crate::exit::Ended;
use crate::state::runs_dir;
use crate::words::{Screen, complain};
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

/// Prints a line; a reader that has gone away is no error.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(Screen, "{line}");
}

/// The id of a run by what a person wrote; a name in the folder and nothing else.
fn id_of(run: &str) -> Result<String> {
    let id = match run {
        "last" => list_runs(&runs_dir()?)?.into_iter().next().map(|run| run.run_id),
        id => RunId::parse(id).map(String::from),
    };
    id.ok_or_else(|| missing(run))
}

/// The folder of a run whose record is on this machine.
pub fn folder_of(run: &str) -> Result<PathBuf> {
    let folder = runs_dir()?.join(id_of(run)?);
    if folder.is_dir() { Ok(folder) } else { Err(missing(run)) }
}

fn missing(run: &str) -> Error {
    Error::usage_with_hint(format!("there is no run {run:?}"), "see `fullbore runs list`")
}
