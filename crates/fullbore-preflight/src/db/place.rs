//! Where a server keeps its files, if that is on this machine: free space, and whether its log has a
//! device of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fullbore_pgwire::{ConnectionError, Session};
use rustix::fs::statvfs;
use serde::Serialize;

/// A server's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    pub path: PathBuf,
    pub free_bytes: u64,
    pub device: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub data: Folder,
    /// The write-ahead log.
    pub wal: Option<Folder>,
}

impl Place {
    /// Whether the log is written to another device than the data.
    pub fn has_own_wal_device(&self) -> Option<bool> {
        self.wal.as_ref().map(|wal| wal.device != self.data.device)
    }
}

/// The place, or `None` where the role may not know it, or it is not on this machine for sure.
pub fn place(session: &mut Session) -> Result<Option<Place>, ConnectionError> {
    // Without the right to see it the setting is not among the rows.
    let rows = session.query(
        "SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS folder,
                floor(extract(epoch FROM pg_postmaster_start_time()))::bigint AS started",
    )?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (Some(folder), Some(started)) = (row.get("folder"), row.get("started")) else {
        return Ok(None);
    };
    let (folder, started) = (PathBuf::from(folder), started.parse::<i64>().ok());
    Ok(started.filter(|started| is_here(&folder, *started)).and_then(|_| look(&folder)))
}

/// Another machine, or a container, may have a folder of that name too. The server's own file in it
/// says when that server started.
fn is_here(folder: &Path, started: i64) -> bool {
    let Ok(text) = fs::read_to_string(folder.join("postmaster.pid")) else { return false };
    let told: Option<i64> = text.lines().nth(2).and_then(|line| line.trim().parse().ok());
    // The two clocks are read a moment apart.
    told.is_some_and(|told| (told - started).abs() <= 2)
}

fn look(folder: &Path) -> Option<Place> {
    Some(Place { data: folder_at(folder)?, wal: folder_at(&folder.join("pg_wal")) })
}

/// Bytes that may still be written to the disk of a folder.
pub fn free_bytes(path: &Path) -> Option<u64> {
    folder_at(path).map(|folder| folder.free_bytes)
}

fn folder_at(path: &Path) -> Option<Folder> {
    let path = path.canonicalize().ok()?;
    let device = fs::metadata(&path).ok()?.dev();
    let space = statvfs(&path).ok()?;
    Some(Folder { free_bytes: space.f_bavail.saturating_mul(space.f_frsize), path, device })
}
