//! The state folder: where runs keep their records, and how a person names a run.

use std::path::PathBuf;

use fullbore_load::run_id::RunId;
use fullbore_read::error::{Error, Result};
use fullbore_record::list_runs;
use fullbore_server::embedded::default_home;

/// The folder that holds a folder for each run.
pub fn runs_dir() -> Result<PathBuf> {
    let home = default_home()
        .map_err(|error| Error::Usage { hint: error.hint(), message: error.to_string() })?;
    Ok(home.join("runs"))
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
