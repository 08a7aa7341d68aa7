//! Reads places of a file for the library: the footer anywhere, the pages of a column one after the other.

use std::fmt::Debug;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fullbore_objects::{Object, Pace, Reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use super::pages::{Bounds, Trouble};
use crate::opened::Opened;

/// Bytes read for a page's header.
const HEAD_BYTES: usize = 4096;

/// A file, read at any place.
#[derive(Debug, Clone)]
pub struct Anywhere(pub Arc<Opened>);

impl Length for Anywhere {
    fn len(&self) -> u64 {
        self.0.size().unwrap_or(0)
    }
}

impl ChunkReader for Anywhere {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(HEAD_BYTES, From { file: self.0.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut out = vec![0; length];
        self.0.read_exact_at(&mut out, start)?;
        Ok(out.into())
    }
}

/// A file, read on from a place.
pub struct From {
    file: Arc<Opened>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A column of a row group, whose pages are bounded.
#[derive(Debug, Clone)]
pub struct Column {
    place: Place,
    bounds: Arc<Bounds>,
}

#[derive(Debug, Clone)]
enum Place {
    File(Arc<Opened>),
    Object(Arc<Mutex<Ahead>>),
    /// All of its row group, from a place on.
    Memory(u64, Bytes),
}

impl Column {
    /// A column between two places of a file. Of an object its pages are read ahead, by requests of so many
    /// bytes.
    pub fn new(file: &Arc<Opened>, start: u64, end: u64, bytes: u64, bounds: Arc<Bounds>) -> Self {
        let place = match file.as_ref() {
            Opened::File(_) => Place::File(file.clone()),
            Opened::Object(open) => {
                Place::Object(Arc::new(Mutex::new(Ahead::new(open.object(), start, end, bytes))))
            }
        };
        Self { place, bounds }
    }

    /// A column of a row group that was fetched whole, from a place on.
    pub fn within(group: &(u64, Bytes), bounds: Arc<Bounds>) -> Self {
        Self { place: Place::Memory(group.0, group.1.clone()), bounds }
    }

    fn read(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.place {
            Place::Memory(from, bytes) => {
                let from = at.checked_sub(*from).and_then(|from| bytes.get(from as usize..));
                let left = from.unwrap_or_default();
                let count = out.len().min(left.len());
                out[..count].copy_from_slice(&left[..count]);
                Ok(count)
            }
            Place::File(file) => file.read_at(out, at),
            Place::Object(ahead) => {
                ahead.lock().unwrap_or_else(PoisonError::into_inner).read(out, at)
            }
        }
    }
}

impl Length for Column {
    fn len(&self) -> u64 {
        match &self.place {
            Place::File(file) => file.size().unwrap_or(0),
            Place::Memory(from, bytes) => from + bytes.len() as u64,
            Place::Object(ahead) => ahead.lock().unwrap_or_else(PoisonError::into_inner).end,
        }
    }
}

impl ChunkReader for Column {
    type T = BufReader<Pages>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(HEAD_BYTES, Pages { column: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond its end")));
        }
        if length as u64 > self.bounds.pages_bytes_max {
            let message = format!("a page at byte {start} has {length} bytes");
            return Err(self.bounds.stop(Trouble::TooMuch(message)));
        }
        let mut out = vec![0; length];
        Pages { column: self.clone(), at: start }.read_exact(&mut out)?;
        Ok(out.into())
    }
}

/// A column, read on from a place.
pub struct Pages {
    column: Column,
    at: u64,
}

impl Read for Pages {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.column.read(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A range of an object that is read once from its beginning, but for a page's header, of which more is
/// taken than it has.
struct Ahead {
    object: Arc<Object>,
    reader: Reader,
    bytes: u64,
    end: u64,
    /// What was read last, and where it begins; the reader goes on behind it.
    kept: Vec<u8>,
    kept_at: u64,
}

impl Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").field("kept_at", &self.kept_at).finish_non_exhaustive()
    }
}

impl Ahead {
    fn new(object: &Arc<Object>, start: u64, end: u64, bytes: u64) -> Self {
        let end = end.min(object.size());
        let mut reader = Reader::new(object, start..end, Pace::Steady(bytes));
        // Those of all columns are made at once, and not as each is come to.
        reader.begin();
        Self { object: object.clone(), reader, bytes, end, kept: Vec::new(), kept_at: start }
    }

    fn read(&mut self, out: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.end {
            return Ok(0);
        }
        let reached = self.kept_at + self.kept.len() as u64;
        // Pages that are left out are passed over, as long as that costs less than another request.
        let is_near = at >= self.kept_at && at <= reached + self.bytes;
        if !is_near {
            self.reader = Reader::new(&self.object, at..self.end, Pace::Steady(self.bytes));
            (self.kept_at, self.kept) = (at, Vec::new());
        }
        while self.kept_at + (self.kept.len() as u64) < at {
            if self.take(HEAD_BYTES)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.kept.drain(..(at - self.kept_at) as usize);
        self.kept_at = at;
        if self.kept.len() < out.len().min(HEAD_BYTES) {
            self.take(HEAD_BYTES)?;
        }
        let count = out.len().min(self.kept.len());
        out[..count].copy_from_slice(&self.kept[..count]);
        // The rest of a page goes straight to who wants it, and is not asked for twice.
        if count < out.len() && count == self.kept.len() {
            let more = self.reader.read(&mut out[count..])?;
            self.kept.clear();
            self.kept_at = at + (count + more) as u64;
            return Ok(count + more);
        }
        Ok(count)
    }

    /// Takes a few more bytes from the reader; none at the end.
    fn take(&mut self, bytes: usize) -> io::Result<usize> {
        let have = self.kept.len();
        self.kept.resize(have + bytes, 0);
        let read = self.reader.read(&mut self.kept[have..]);
        self.kept.truncate(have + read.as_ref().copied().unwrap_or(0));
        read
    }
}
