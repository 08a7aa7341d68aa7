//! The folders of runs, which only their users may look into.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use fullbore_read::error::{Error, Result};

/// Makes the folder of a new run. One that is there is another run's, and left alone.
pub fn claim(run_dir: &Path) -> Result<()> {
    let made = || {
        if let Some(parent) = run_dir.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::DirBuilder::new().mode(0o700).create(run_dir)
    };
    made().map_err(|source| Error::Write { path: run_dir.to_owned(), source })
}

/// Makes a run's folder, where it is not there, which only its user may look into: what is kept there quotes the source.
pub fn make_private(run_dir: &Path) -> std::io::Result<()> {
    if let Some(parent) = run_dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(run_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
