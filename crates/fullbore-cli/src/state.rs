//! The state folder: where runs keep their records.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fullbore_core::error::{Error, Result};
use fullbore_postgres::server::embedded::default_home;

/// The folder that holds a folder for each run.
pub fn runs_dir() -> Result<PathBuf> {
    let home = default_home()
        .map_err(|error| Error::Usage { hint: error.hint(), message: error.to_string() })?;
    Ok(home.join("runs"))
}

/// A new run's id: its moment in seconds and what tells it from others of the same second, short
/// enough to be part of a table's name.
pub fn new_run_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mixed = now.subsec_nanos() ^ std::process::id().rotate_left(16);
    format!("{:08x}{:04x}", now.as_secs() as u32, mixed & 0xffff)
}
