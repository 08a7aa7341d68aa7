//! `--log-file`: a log of a run, one timestamped line per event.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use fullbore_read::error::{Error, Result};
use tracing::level_filters::LevelFilter;

/// Appends to the file from now on. Without it nothing is formatted, let alone written.
pub fn open(path: &Path) -> Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        // It quotes statements and with them values of rows.
        .mode(0o600)
        .open(path)
        .map_err(|source| Error::Write { path: path.to_owned(), source })?;
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_ansi(false)
        // A disk that is full would be told on standard error, and end the thread where that is closed.
        .log_internal_errors(false)
        .with_thread_names(true)
        .with_max_level(LevelFilter::DEBUG)
        .try_init()
        .map_err(|error| Error::usage(format!("--log-file: {error}")))
}
