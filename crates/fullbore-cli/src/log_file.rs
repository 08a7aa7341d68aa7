//! `--log-file`: a log of a run, one timestamped line per event.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fullbore_read::error::{Error, Result};
use tracing::level_filters::LevelFilter;

/// Appends to the file from now on. Without it nothing is formatted, let alone written.
pub fn open(path: &Path) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let file = opened(path).map_err(failed)?;
    // Another directory may become the current one.
    let path = std::path::absolute(path).map_err(failed)?;
    let log = Arc::new(Log { path, file: Mutex::new(file) });
    tracing_subscriber::fmt()
        .with_writer(move || Line(log.clone()))
        .with_ansi(false)
        // A disk that is full would be told on standard error, and end the thread where that is closed.
        .log_internal_errors(false)
        .with_thread_names(true)
        .with_max_level(LevelFilter::DEBUG)
        .try_init()
        .map_err(|error| Error::usage(format!("--log-file: {error}")))
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        // It quotes statements and with them values of rows.
        .mode(0o600)
        .open(path)
}

/// A file that may be moved away to be rotated: another one of its name is opened then.
struct Log {
    path: PathBuf,
    file: Mutex<File>,
}

struct Line(Arc<Log>);

impl Write for Line {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let own = file.metadata()?;
        let is_there = self
            .0
            .path
            .metadata()
            .is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
        if !is_there {
            *file = opened(&self.0.path)?;
        }
        file.write_all(text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
