//! The state folder: where runs keep their records.

use std::path::PathBuf;

use fullbore_read::error::{Error, Result};
use fullbore_server::embedded::default_home;

/// The folder that holds a folder for each run.
pub fn runs_dir() -> Result<PathBuf> {
    let home = default_home()
        .map_err(|error| Error::Usage { hint: error.hint(), message: error.to_string() })?;
    Ok(home.join("runs"))
}
