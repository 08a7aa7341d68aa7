//! A path that is measured: a file, a block device, or a folder's scratch file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, statvfs};

use super::extents::{Extents, extents_of};
use super::{PathKind, PathReport};
use crate::error::{Error, Result};
use crate::limits::{FILL_BLOCK_BYTES, FREE_BYTES_MIN};

/// Where the system does not say what direct I/O needs.
const ALIGNMENT_DEFAULT: usize = 4096;

#[derive(Debug)]
pub struct Target {
    pub path: PathBuf,
    pub kind: PathKind,
    pub bytes: u64,
    pub alignment: usize,
    file: File,
}

impl Target {
    /// Opens a path for direct I/O; a folder gets a scratch file of this size, still empty, for which
    /// there is room.
    pub fn open(path: &Path, scratch_bytes: u64) -> Result<Self> {
        let failed = |source| Error::Path {
            what: "measure",
            path: path.to_path_buf(),
            source,
            hint: Some("name a file, which is only read, or a folder".into()),
        };
        let kind = fs::metadata(path).map_err(failed)?.file_type();
        let (kind, file, bytes) = if kind.is_dir() {
            let bytes = scratch_bytes - scratch_bytes % FILL_BLOCK_BYTES as u64;
            (PathKind::Folder, scratch(path)?, bytes)
        } else if kind.is_file() || kind.is_block_device() {
            let file = open_direct(path)?;
            // Of a device, its end is the only way to know its size.
            let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
                .map_err(|error| failed(error.into()))?;
            (if kind.is_file() { PathKind::File } else { PathKind::Device }, file, end)
        } else {
            return Err(Error::refused(
                format!("{} is neither a file nor a folder", path.display()),
                "pipes and terminals have no block size to choose; name a file or a folder",
            ));
        };
        let alignment = alignment_of(&file);
        if bytes < alignment as u64 {
            return Err(Error::refused(
                format!(
                    "{} has {bytes} bytes: direct I/O reads {alignment} at a time",
                    path.display()
                ),
                "name a larger file, ideally one of the files to load",
            ));
        }
        Ok(Self { path: path.to_path_buf(), kind, bytes, alignment, file })
    }

    /// Only a scratch file of our own is ever written to.
    pub fn may_write(&self) -> bool {
        self.kind == PathKind::Folder
    }

    pub fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    pub fn failed(&self, what: &'static str, source: io::Error) -> Error {
        let hint = (source.kind() == io::ErrorKind::StorageFull)
            .then(|| "give a smaller --size, or another folder".to_owned());
        Error::Path { what, path: self.path.clone(), source, hint }
    }

    pub fn report(&self) -> Result<PathReport> {
        let found: Result<Extents, String> = match self.kind {
            PathKind::File => extents_of(&self.file).map_err(|error| match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOTTY) => "the file system does not tell".into(),
                _ => error.to_string(),
            }),
            PathKind::Device => Err("a device has no extents".into()),
            PathKind::Folder => Err("a scratch file says nothing of your files".into()),
        };
        let (extents, extents_reason) = match found {
            Ok(extents) => (Some(extents), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(PathReport {
            path: self.path.clone(),
            kind: self.kind,
            bytes: self.bytes,
            alignment: self.alignment,
            extents,
            extents_reason,
            first_write_bytes_per_second: None,
        })
    }
}

fn open_direct(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .map_err(|source| no_direct(path, source))
}

/// A file in the folder that never has a name. Where the file system can't do that, one that is
/// new for sure, and whose name is gone before anything is written.
fn scratch(folder: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
        }
        Err(error) => return Err(no_direct(folder, error.into())),
    }
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|error| Error::System {
        what: "have a random name for a scratch file",
        source: io::Error::other(error),
    })?;
    let name = format!(".fullbore-preflight-{:016x}", u64::from_le_bytes(number));
    let path = folder.join(name);
    // EXCL: a file that is there already, whoever made it, is never written over.
    let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)
        .map_err(|error| no_direct(folder, error.into()))?;
    fs::remove_file(&path).map_err(|source| Error::Path {
        what: "remove the name of the scratch file",
        path,
        source,
        hint: Some("remove it manually".into()),
    })?;
    Ok(file.into())
}

fn no_direct(path: &Path, source: io::Error) -> Error {
    let hint = match source.raw_os_error() {
        Some(libc::EINVAL) => {
            "its file system has no direct I/O, without which the page cache would be measured; name \
             a path on another one"
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "name a file that you may read, or a folder that you may write to"
        }
        _ => "name a file, which is only read, or a folder, which gets a scratch file",
    };
    Error::Path {
        what: "open for direct I/O",
        path: path.to_path_buf(),
        source,
        hint: Some(hint.into()),
    }
}

pub(super) fn check_free(folder: &Path, bytes: u64) -> Result<()> {
    let space = statvfs(folder).map_err(|error| Error::Path {
        what: "see how much is free in",
        path: folder.to_path_buf(),
        source: error.into(),
        hint: None,
    })?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < bytes.saturating_add(FREE_BYTES_MIN) {
        return Err(Error::refused(
            format!(
                "{} has {free} bytes free: a scratch file of {bytes} would not leave {FREE_BYTES_MIN} \
                 to others",
                folder.display()
            ),
            "give a smaller --size, or another folder",
        ));
    }
    Ok(())
}

/// What direct I/O asks of offsets, lengths and addresses: the stricter of the two, as one number.
fn alignment_of(file: &File) -> usize {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is empty and ends with a NUL, the structure is ours and of the right type; a
    // zeroed one is valid, and says nothing.
    let found = unsafe {
        let done = libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            found.as_mut_ptr(),
        );
        if done != 0 {
            return ALIGNMENT_DEFAULT;
        }
        found.assume_init()
    };
    let told = found.stx_dio_mem_align.max(found.stx_dio_offset_align) as usize;
    if found.stx_mask & libc::STATX_DIOALIGN == 0 || told == 0 { ALIGNMENT_DEFAULT } else { told }
}
