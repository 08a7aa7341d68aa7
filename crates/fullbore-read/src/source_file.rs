//! A file of the sources, and what is known of it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use fullbore_objects::{Object, OpenObject, Pace, Reader};
use fullbore_parse::dialect::LineEnd;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use serde::{Deserialize, Serialize};

use crate::columnar::data::ArrowData;
use crate::content::Content;
use crate::encoding::TextEncoding;
use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::peeked::Peeked;

/// How a file's bytes are packed; found from its content, not from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
    Lz4,
    Xz,
    Parquet,
    /// Nothing was packed: Arrow data of this process.
    Arrow,
}

/// A range of bytes, or of a Parquet file's rows, of one of the table's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRange {
    pub file: usize,
    pub start: u64,
    pub end: u64,
}

/// A file of a table's sources, as it was when the plan was made.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The path, or the URL of an object; `-` is standard input.
    pub path: PathBuf,
    pub packing: Packing,
    /// Bytes on disk or in its store; 0 for what is no regular file.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// When content, name, owner or permissions changed last, in the same unit.
    pub changed_ns: i128,
    /// What lineage and rejects call it, where that is not its path: as the run called it that is gone on
    /// with.
    pub told: Option<String>,
    /// The checksum of its contents, where it was made.
    pub content: Option<Content>,
    pub is_regular: bool,
    /// The device that it is on; 0 for what is on none of this machine's.
    pub device: u64,
    /// The text's encoding, where it is not UTF-8.
    pub encoding: Option<TextEncoding>,
    /// Bytes before the first record: byte order mark and header.
    pub data_start: u64,
    /// Lines before the first record.
    pub data_start_lines: u64,
    /// Where the last record ends, where lines follow it that are none; only of what can be read anywhere.
    pub data_end: Option<u64>,
    /// What stands before its records, where its header has another order than the first file's.
    pub own_header: Option<Arc<[u8]>>,
    /// What ends its lines.
    pub line_end: LineEnd,
    /// The data itself, where it is of this process.
    pub arrow: Option<Arc<ArrowData>>,
    /// Where records begin in it may be guessed, and is checked by who reads it.
    pub is_guessed: bool,
    /// The object of a store, where it is one.
    pub object: Option<Arc<Object>>,
    /// Of a Parquet object, what stands at its end, once it was fetched: it may take megabytes, and every piece
    /// needs it.
    pub footer: Arc<OnceLock<ArrowReaderMetadata>>,
    /// A pipe that was opened to be looked at; what was read of it comes back with it.
    pub peeked: Option<Peeked>,
    /// The names in the header of a pipe that was not looked at: those of the first source.
    pub expected_header: Option<Vec<String>>,
}

impl SourceFile {
    /// What lineage and rejects call it.
    pub fn told(&self) -> String {
        self.told.clone().unwrap_or_else(|| self.path.display().to_string())
    }

    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Whether it can be read anywhere, and so be cut into ranges.
    pub fn is_seekable(&self) -> bool {
        self.packing == Packing::Plain && self.is_regular && self.encoding.is_none()
    }

    /// Where its records end, of a file that can be read anywhere.
    pub fn end(&self) -> u64 {
        self.data_end.unwrap_or(self.size)
    }

    /// Opens it, and refuses if it is not the file that was planned with.
    /// (An object is asked for nothing else: so each of its reads would refuse.)
    pub fn open(&self) -> Result<Opened> {
        if let Some(object) = &self.object {
            return Ok(Opened::Object(OpenObject::new(object.clone())));
        }
        let opened = File::open(&self.path).map_err(|error| self.unreadable(error))?;
        let opened = Opened::File(opened);
        self.check_unchanged(&opened)?;
        Ok(opened)
    }

    /// Opens it to be read from one place to another; at [`Pace::Ramp`], perhaps only a little of that.
    pub fn open_range(&self, range: Range<u64>, pace: Pace) -> Result<Box<dyn Read + Send>> {
        match self.open()? {
            Opened::File(mut file) => {
                if pace == Pace::Ramp {
                    read_little(&file);
                }
                let start = SeekFrom::Start(range.start);
                file.seek(start).map_err(|error| self.unreadable(error))?;
                Ok(Box::new(file.take(range.end - range.start)))
            }
            Opened::Object(object) => Ok(Box::new(Reader::new(object.object(), range, pace))),
        }
    }

    /// A read that failed.
    pub fn unreadable(&self, error: std::io::Error) -> Error {
        Error::reading(self.path.clone(), error)
    }

    /// Opens the same file for reading past the page cache; `None` where its file system has no such
    /// way.
    pub(crate) fn open_past_cache(&self, opened: &File) -> Result<Option<File>> {
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let options = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        let failed = |error| self.unreadable(error);
        let file = match options {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok(None),
            file => file.map_err(failed)?,
        };
        let identity =
            |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).map_err(failed);
        if identity(&file)? != identity(opened)? {
            let what = "another file has replaced it".into();
            return Err(Error::SourceChanged { path: self.path.clone(), what });
        }
        Ok(Some(file))
    }

    /// The refusal of a file that turned out shorter than planned.
    pub(crate) fn ends_at(&self, place: u64) -> Error {
        let what = format!("it ends at byte {place}, not at {}", self.size);
        Error::SourceChanged { path: self.path.clone(), what }
    }

    /// A stream that broke off: the words tell a damaged file from an unreadable one.
    pub(crate) fn broken(&self, error: std::io::Error) -> Error {
        let error = match Error::of_store(error) {
            Ok(refusal) => return refusal,
            Err(error) => error,
        };
        use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        if matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other) {
            return Error::Source {
                path: self.path.clone(),
                message: format!("is damaged or truncated: {error}"),
                hint: Some(
                    "test it with gzip -t, zstd -t, lz4 -t or xz -t and fetch it again".into(),
                ),
            };
        }
        Error::Read { path: self.path.clone(), source: error }
    }

    /// Refuses if the open file's size or time differs from the plan's. (Each read of an object does so.)
    pub fn check_unchanged(&self, opened: &Opened) -> Result<()> {
        let Some(file) = opened.file().filter(|_| self.is_regular) else { return Ok(()) };
        let metadata = file.metadata().map_err(|error| self.unreadable(error))?;
        let changed = |what: String| Err(Error::SourceChanged { path: self.path.clone(), what });
        if metadata.len() != self.size {
            return changed(format!("{} bytes when planned, {} now", self.size, metadata.len()));
        }
        if modified_ns(&metadata) != self.modified_ns {
            return changed("its modification time differs".into());
        }
        Ok(())
    }
}

pub(crate) fn changed_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec())
}

pub(crate) fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// Tells the kernel that little is read of a file: it reads megabytes ahead on some disks, and there may
/// be thousands of files. (Pages that were read ahead once are marked, and the next reader of the file
/// sets the reading ahead off again when it meets a mark: so each look at a file has to say it.)
pub(crate) fn read_little(file: &File) {
    // Where the file system takes no advice, more is read.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}
