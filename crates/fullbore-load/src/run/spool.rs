//! A spool: bytes kept in memory up to a limit, then in a private file.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use fullbore_read::error::{Error, Result};
use fullbore_record::make_private;

/// Records of a few byte strings each, written once and read back in order.
pub struct Spool {
    folder: PathBuf,
    memory: Vec<u8>,
    memory_max: usize,
    file: Option<BufWriter<File>>,
    pub records: u64,
}

impl Spool {
    pub fn new(folder: &Path, memory_max: usize) -> Self {
        Self { folder: folder.to_owned(), memory: Vec::new(), memory_max, file: None, records: 0 }
    }

    pub fn push(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.memory.extend_from_slice(&(part.len() as u64).to_le_bytes());
            self.memory.extend_from_slice(part);
        }
        self.records += 1;
        if self.memory.len() > self.memory_max {
            let unwritable = |source| Error::Write { path: self.folder.clone(), source };
            if self.file.is_none() {
                self.file = Some(BufWriter::new(nameless_file(&self.folder).map_err(unwritable)?));
            }
            if let Some(file) = &mut self.file {
                file.write_all(&self.memory).map_err(unwritable)?;
            }
            self.memory.clear();
        }
        Ok(())
    }

    /// Ends writing into a file of this name, which is there whole or not at all, and safely on
    /// disk: what is committed next may rely on it.
    pub fn save(self, path: &Path) -> Result<()> {
        let unwritable = |source| Error::Write { path: path.to_owned(), source };
        let unfinished = path.with_extension("tmp");
        let written = (|| {
            let folder = path.parent().unwrap_or(Path::new("."));
            make_private(folder)?;
            let mut file = File::create(&unfinished)?;
            file.write_all(&self.records.to_le_bytes())?;
            if let Some(writer) = self.file {
                let mut spooled = writer.into_inner().map_err(|error| error.into_error())?;
                spooled.rewind()?;
                std::io::copy(&mut spooled, &mut file)?;
            }
            file.write_all(&self.memory)?;
            file.sync_all()?;
            std::fs::rename(&unfinished, path)?;
            // Its name, too.
            File::open(folder)?.sync_all()
        })();
        written.map_err(unwritable)
    }

    /// The records of a file that was saved.
    pub fn saved(path: &Path, parts: usize) -> Result<SpoolReader> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut records = [0; 8];
        reader.read_exact(&mut records).map_err(unreadable)?;
        let left = u64::from_le_bytes(records);
        Ok(SpoolReader { reader: Box::new(reader), left, parts, folder: path.to_owned() })
    }

    /// Ends writing; the records come back in order, as many parts each as were pushed.
    pub fn into_reader(mut self, parts: usize) -> Result<SpoolReader> {
        let unwritable = |source| Error::Write { path: self.folder.clone(), source };
        let file = match self.file.take() {
            Some(writer) => {
                let mut file =
                    writer.into_inner().map_err(|error| unwritable(error.into_error()))?;
                file.rewind().map_err(unwritable)?;
                Some(file)
            }
            None => None,
        };
        let reader: Box<dyn Read + Send> = match file {
            Some(file) => Box::new(BufReader::new(file).chain(std::io::Cursor::new(self.memory))),
            None => Box::new(std::io::Cursor::new(self.memory)),
        };
        Ok(SpoolReader { reader, left: self.records, parts, folder: self.folder })
    }
}

pub struct SpoolReader {
    reader: Box<dyn Read + Send>,
    left: u64,
    parts: usize,
    folder: PathBuf,
}

impl SpoolReader {
    pub fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let unreadable = |source| Error::Read { path: self.folder.clone(), source };
        let mut record = Vec::with_capacity(self.parts);
        for _ in 0..self.parts {
            let mut length = [0; 8];
            self.reader.read_exact(&mut length).map_err(unreadable)?;
            let mut part = Vec::new();
            let length = u64::from_le_bytes(length);
            // Not a buffer of that length at once: a damaged file may say anything.
            let read = (&mut self.reader).take(length).read_to_end(&mut part);
            if read.map_err(unreadable)? as u64 != length {
                return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
            }
            record.push(part);
        }
        Ok(Some(record))
    }
}

/// A file that is gone when it is closed, whatever happens.
fn nameless_file(folder: &Path) -> std::io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    make_private(folder)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("spool-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
