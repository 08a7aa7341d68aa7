//! The folders of runs on this machine, and how a person names a run.

use std::io::Write;
use std::path::PathBuf;

use fullbore_load::run_id::RunId;
use fullbore_read::error::{Error, Result};
use fullbore_record::list_runs;

use crate::state::runs_dir;
use crate::words::Screen;

/// Prints a line; a reader that has gone away is no error.
pub fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(Screen, "{line}");
}

/// The id of a run by what a person wrote; a name in the folder and nothing else.
pub fn id_of(run: &str) -> Result<String> {
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
