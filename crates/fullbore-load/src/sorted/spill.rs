//! A run: sorted records in a file that has no name, so that it goes with the process.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::num::NonZero;
use std::path::Path;

use arrow_schema::ArrowError;
use rustix::fs::{Advice, fadvise};

use super::bytes::broken;
use super::keys::{Common, prefix};
use super::records::Record;

/// What is read or written of a run at a time.
pub const BUFFER_BYTES: usize = 256 << 10;

pub struct Run {
    file: File,
    pub rows: u64,
    pub bytes: u64,
    pub common: Common,
    pub longest_record: usize,
}

impl Run {
    pub fn read(mut self) -> Result<Reader, ArrowError> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(Reader {
            file: self.file,
            at: 0,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            filled: 0,
            record: Record::default(),
        })
    }

    /// Bytes of memory that are needed to read it.
    pub fn memory(&self) -> usize {
        self.longest_record.max(BUFFER_BYTES)
    }
}

/// Takes the records of a run in their order.
pub struct RunWriter {
    file: BufWriter<File>,
    rows: u64,
    longest_record: usize,
}

impl RunWriter {
    pub fn new(folder: &Path) -> Result<Self, ArrowError> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(folder)?);
        Ok(Self { file, rows: 0, longest_record: 0 })
    }

    pub fn write(&mut self, record: &[u8]) -> Result<(), ArrowError> {
        self.longest_record = self.longest_record.max(record.len());
        self.rows += 1;
        Ok(self.file.write_all(record)?)
    }

    /// `common`: the bytes that all keys of the run begin with.
    pub fn finish(self, common: Common) -> Result<Run, ArrowError> {
        let Self { file, rows, longest_record } = self;
        let mut file = file.into_inner().map_err(std::io::Error::from)?;
        let bytes = file.stream_position()?;
        Ok(Run { file, rows, bytes, common: common.shrunk(), longest_record })
    }
}

/// The records of a run, one after the other.
pub struct Reader {
    file: File,
    /// What was read of the file so far.
    at: u64,
    buffer: Vec<u8>,
    /// Where the record begins that was read last, and where what was read of the file ends.
    start: usize,
    filled: usize,
    record: Record,
}

impl Reader {
    /// Goes to the next record; whether there is one.
    pub fn advance(&mut self) -> Result<bool, ArrowError> {
        self.start = self.record.end;
        loop {
            if let Some(record) = Record::at(&self.buffer[..self.filled], self.start) {
                self.record = record;
                return Ok(true);
            }
            if !self.fill()? {
                return if self.filled == 0 { Ok(false) } else { Err(broken()) };
            }
        }
    }

    /// Reads more of the file; whether there was more.
    fn fill(&mut self) -> Result<bool, ArrowError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        // A long record needs more room.
        let needed = Record::length(&self.buffer[..self.filled]).unwrap_or_default();
        self.buffer.resize(self.buffer.len().max(needed), 0);
        loop {
            match self.file.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.look_ahead(count as u64);
                    self.filled += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tells the system that so much was read and is not needed again, and has it read what comes next meanwhile.
    fn look_ahead(&mut self, count: u64) {
        let read = self.at;
        self.at += count;
        // Where the file system takes no advice, it is read when it is needed.
        let next = NonZero::new(BUFFER_BYTES as u64);
        let _ = fadvise(&self.file, read, NonZero::new(count), Advice::DontNeed);
        let _ = fadvise(&self.file, self.at, next, Advice::WillNeed);
    }

    pub fn record(&self) -> &[u8] {
        &self.buffer[self.start..self.record.end]
    }

    pub fn key(&self) -> &[u8] {
        &self.buffer[self.record.key.clone()]
    }

    /// The first bytes of the key after the `common` ones that all keys begin with.
    pub fn prefix(&self, common: usize) -> u128 {
        prefix(&self.buffer, &self.record.key, common)
    }
}
