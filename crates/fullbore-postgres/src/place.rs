//! Where a server keeps its files, if that is on this machine: volumes, and the space free on them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_record::observe::Volumes;
use rustix::fs::statvfs;
use serde::Serialize;

/// A server's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    pub path: PathBuf,
    pub free_bytes: u64,
    pub device: u64,
    /// Mount point and device: `/mnt/a (/dev/vdb)`.
    pub volume: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub data: Folder,
    /// The write-ahead log.
    pub wal: Option<Folder>,
    /// Tablespaces with a folder of their own, by name.
    pub tablespaces: Vec<(String, Folder)>,
}

impl Place {
    /// Whether the log is written to another device than the data.
    pub fn has_own_wal_device(&self) -> Option<bool> {
        self.wal.as_ref().map(|wal| wal.device != self.data.device)
    }

    /// The names of its volumes.
    pub fn volumes(&self) -> Volumes {
        let named = |(name, folder): &(String, Folder)| (name.clone(), folder.volume.clone());
        Volumes {
            data: self.data.volume.clone(),
            wal: self.wal.as_ref().map(|folder| folder.volume.clone()),
            tablespaces: self.tablespaces.iter().map(named).collect(),
        }
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
    if !started.is_some_and(|started| is_here(&folder, started)) {
        return Ok(None);
    }
    let tablespaces = session.query(
        "SELECT spcname AS name, pg_tablespace_location(oid) AS folder
           FROM pg_tablespace WHERE pg_tablespace_location(oid) <> '' ORDER BY spcname",
    )?;
    let Some(data) = folder_at(&folder) else { return Ok(None) };
    Ok(Some(Place {
        data,
        wal: folder_at(&folder.join("pg_wal")),
        tablespaces: tablespaces
            .iter()
            // Of an older server one may be relative to the data.
            .filter_map(|row| {
                Some((row.text("name"), folder_at(&folder.join(row.text("folder")))?))
            })
            .collect(),
    }))
}

/// Another machine, or a container, may have a folder of that name too. The server's own file in it
/// says when that server started.
fn is_here(folder: &Path, started: i64) -> bool {
    let Ok(text) = fs::read_to_string(folder.join("postmaster.pid")) else { return false };
    let told: Option<i64> = text.lines().nth(2).and_then(|line| line.trim().parse().ok());
    // The two clocks are read a moment apart.
    told.is_some_and(|told| (told - started).abs() <= 2)
}

/// Bytes that may still be written to the disk of a folder.
pub fn free_bytes(path: &Path) -> Option<u64> {
    folder_at(path).map(|folder| folder.free_bytes)
}

fn folder_at(path: &Path) -> Option<Folder> {
    let path = path.canonicalize().ok()?;
    let device = fs::metadata(&path).ok()?.dev();
    let space = statvfs(&path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Some(Folder {
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        volume: volume(&mounts, &path),
        path,
        device,
    })
}

/// The mount point under which a path is, and what is mounted there. Lines are like
/// `36 35 98:0 / /mnt/a rw,noatime master:1 - ext4 /dev/vdb rw` (man proc_pid_mountinfo).
fn volume(mounts: &str, path: &Path) -> String {
    let mounted = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let at = left.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&at).then(|| (at, right.split(' ').nth(1).unwrap_or_default()))
    });
    // Of several on one place, the last one covers the others.
    match mounted.max_by_key(|(at, _)| at.len()) {
        Some((at, from)) => format!("{at} ({from})"),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_named_by_its_mount_point_and_device() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      36 22 254:16 / /mnt/a rw,noatime master:1 - ext4 /dev/vdb rw\n\
                      37 22 0:31 / /mnt/with\\040space rw - tmpfs tmpfs rw\n";
        let of = |path: &str| volume(mounts, Path::new(path));
        assert_eq!(of("/mnt/a/pg"), "/mnt/a (/dev/vdb)");
        assert_eq!(of("/mnt/ab"), "/ (/dev/vda)");
        assert_eq!(of("/mnt/with space/wal"), "/mnt/with space (tmpfs)");
        assert_eq!(volume("", Path::new("/data")), "/data");
    }
}
