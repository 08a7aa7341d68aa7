//! A disk that is as slow as one likes: the files of a folder, mounted again through FUSE.
//!
//! Requests are served one after the other by each of some arms. A request takes a latency and the time of its bytes
//! at a rate; from a place on in each file both are worse by a factor, as on the inner tracks of a disk that is
//! nearly full, or where it is fragmented. Nothing is cached. Needs root.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request, SessionACL,
};

/// How long the kernel may remember names and sizes, which do not change.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Requests that may wait at a time.
const WAITING_MAX: usize = 64;

/// What a disk is like.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// What one arm reads, in bytes a second.
    pub bytes_per_second: f64,
    /// What each request takes besides.
    pub latency: Duration,
    pub arms: usize,
    /// Requests behind this part of a file take so many times as long.
    pub worse_from: f64,
    pub worse_times: f64,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            bytes_per_second: 200e6,
            latency: Duration::from_micros(100),
            arms: 1,
            worse_from: 1.0,
            worse_times: 1.0,
        }
    }
}

/// A disk that is mounted, until it is dropped.
pub struct Disk {
    _session: BackgroundSession,
}

impl Disk {
    /// Mounts the files of a folder in another, which is there.
    pub fn mount(folder: &Path, at: &Path, options: DiskOptions) -> io::Result<Self> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("fullbore-disk".into())];
        config.acl = SessionACL::All;
        config.n_threads = Some(WAITING_MAX);
        let files = Files::of(folder, options)?;
        Ok(Self { _session: fuser::spawn_mount(files, at, &config)? })
    }
}

struct Stored {
    name: String,
    file: File,
    attributes: FileAttr,
}

/// The files of a folder; the first one's number is 2.
struct Files {
    all: Vec<Stored>,
    options: DiskOptions,
    /// When each arm has done what it was asked for.
    arms: Mutex<Vec<Instant>>,
}

impl Files {
    fn of(folder: &Path, options: DiskOptions) -> io::Result<Self> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (metadata, number) = (entry.metadata()?, all.len() as u64 + 2);
            if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
                let file = File::open(entry.path())?;
                let kind = FileType::RegularFile;
                let attributes = attributes(number, kind, metadata.size(), metadata.modified()?);
                all.push(Stored { name, file, attributes });
            }
        }
        let arms = Mutex::new(vec![Instant::now(); options.arms.max(1)]);
        Ok(Self { all, options, arms })
    }

    fn at(&self, number: INodeNo) -> Option<&Stored> {
        self.all.get(u64::from(number).checked_sub(2)? as usize)
    }

    fn attributes(&self, number: INodeNo) -> Option<FileAttr> {
        if number == INodeNo::ROOT {
            return Some(attributes(1, FileType::Directory, 0, SystemTime::UNIX_EPOCH));
        }
        self.at(number).map(|stored| stored.attributes)
    }

    /// Takes as long as the disk does for so many bytes, at a part of a file.
    fn serve(&self, bytes: u64, part: f64) {
        let options = &self.options;
        let times = if part >= options.worse_from { options.worse_times } else { 1.0 };
        let seconds = bytes as f64 / options.bytes_per_second;
        let takes = (options.latency + Duration::from_secs_f64(seconds)).mul_f64(times);
        let done = {
            let mut arms = self.arms.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let Some(first) = arms.iter_mut().min() else { return };
            *first = (*first).max(Instant::now()) + takes;
            *first
        };
        thread::sleep(done.saturating_duration_since(Instant::now()));
    }
}

fn attributes(number: u64, kind: FileType, size: u64, modified: SystemTime) -> FileAttr {
    let perm = if kind == FileType::Directory { 0o755 } else { 0o644 };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.all.iter().find(|stored| OsStr::new(&stored.name) == name) {
            Some(stored) => reply.entry(&REMEMBERED, &stored.attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Some(attributes) => reply.attr(&REMEMBERED, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(stored) = self.at(number) else { return reply.error(Errno::ENOENT) };
        let mut bytes = vec![0; size as usize];
        match stored.file.read_at(&mut bytes, offset) {
            Ok(read) => {
                self.serve(read as u64, offset as f64 / stored.attributes.size.max(1) as f64);
                reply.data(&bytes[..read]);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let own = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let files = self
            .all
            .iter()
            .map(|stored| (stored.attributes.ino, FileType::RegularFile, stored.name.as_str()));
        let all = own.into_iter().chain(files).enumerate().skip(offset as usize);
        for (at, (number, kind, name)) in all {
            if reply.add(number, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
