//! Copies of the servers that the system's packages install: tests put their extension into a server's
//! folders, and the system's are nobody's but root's to write to, and not a test's even then.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};

use crate::servers::checkout;

/// Where Debian's packages are.
const SYSTEM: &str = "/usr";

/// The programs of a copy of Debian's PostgreSQL of this version; made the first time, and anew when the
/// package is another. `None` where it is not installed.
///
/// PostgreSQL finds its folders from where its programs are, as long as they keep their places to each
/// other (`make_relative_path` in its `path.c`).
pub fn of_debian(version: &str) -> io::Result<Option<PathBuf>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = format!("lib/postgresql/{version}/bin");
    let Ok(found) = fs::metadata(Path::new(SYSTEM).join(&programs).join("postgres")) else {
        return Ok(None);
    };
    let servers = checkout().join(".cache/servers");
    let copy = servers.join(format!("debian{version}-{:x}-{:x}", found.mtime(), found.len()));
    make_once(&copy, |unfinished| make(version, unfinished))?;
    Ok(Some(copy.join(programs)))
}

/// Makes a folder that is not there beside its place and renames it, so that it is whole or absent;
/// another process may do the same.
pub(crate) fn make_once<E: From<io::Error>>(
    folder: &Path,
    make: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    let unfinished = folder.with_extension(format!("unfinished.{}", process::id()));
    make(&unfinished)?;
    // Another process may have been quicker.
    if fs::rename(&unfinished, folder).is_err() && folder.is_dir() {
        fs::remove_dir_all(&unfinished)?;
    }
    Ok(())
}

fn make(version: &str, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let parts = ["lib/postgresql", "share/postgresql", "include/postgresql"];
    let parts = parts.map(|part| format!("{part}/{version}"));
    let there = parts.iter().filter(|part| Path::new(SYSTEM).join(part).is_dir());
    let done = Command::new("cp")
        .args(["-R", "-p", "--parents"])
        .args(there)
        .arg(folder)
        .current_dir(SYSTEM)
        .output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}
