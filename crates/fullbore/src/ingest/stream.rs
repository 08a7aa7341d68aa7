//! Streams: standard input, named pipes and sockets, written to files of whole records that are loaded as any others.
//!
//! A file is named after the bytes of the stream that it has, `<first>-<end>`, so that nothing of it is loaded twice, and
//! a stream that is sent again from its beginning is skipped up to where it was read (`--replay`). While more is waiting
//! than a few batches, nothing is read: the sender waits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fullbore_parse::dialect::Dialect;
use fullbore_read::cancellable::{CancellablePipe, Cancellation};
use fullbore_read::error::{Error, Result};

use super::record_ends::RecordEnds;

/// What is read at once.
const BLOCK: usize = 1 << 18;
/// Blocks that wait to be written.
const BLOCKS_WAITING: usize = 4;
/// How often the time is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// So many batches may wait to be loaded.
const BATCHES_WAITING: u64 = 4;
/// What the file that is being written begins with: where its first byte is in the stream follows.
const CURRENT: &str = ".from-";
const HEADER: &str = ".header";

/// Whether nothing is to be read any more.
pub type Stop<'a> = dyn Fn() -> bool + Sync + 'a;

/// How a stream is cut.
#[derive(Debug, Clone)]
pub struct Cutting {
    pub every: Duration,
    pub bytes: u64,
    /// Records that are a batch at once.
    pub rows: Option<u64>,
    /// A record without a line end is not taken: its sender may have been interrupted.
    pub is_of_lines: bool,
    /// What tells where records end.
    pub dialect: Dialect,
    /// The first line names the columns, of every file then.
    pub has_header: bool,
    /// The stream begins again from its first byte.
    pub replays: bool,
}

/// A stream on its way into files.
pub struct Spool {
    folder: PathBuf,
    cutting: Cutting,
    header: Vec<u8>,
    /// Of the file that is being written: where its first byte is in the stream, and how many there are.
    start: u64,
    length: u64,
    file: File,
    since: Option<Instant>,
    ends: RecordEnds,
    /// Bytes of the file up to the end of its last whole record, or of as many as make a batch; how many these are.
    whole: u64,
    records: u64,
    /// Of a stream that is sent again: how much of it is known.
    skip: u64,
    /// What was read of the header that each opening begins with; `None` once it is passed.
    heading: Option<Vec<u8>>,
}

impl Spool {
    pub fn open(folder: &Path, cutting: Cutting) -> Result<Self> {
        Self::opened(folder, cutting)
            .map_err(|source| Error::Write { path: folder.to_owned(), source })
    }

    fn opened(folder: &Path, cutting: Cutting) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let header = fs::read(folder.join(HEADER)).unwrap_or_default();
        let mut starts = starts(folder)?;
        // A process ended while it cut: the next file is there, with what follows.
        while let [start, until, ..] = starts[..] {
            let file = OpenOptions::new().write(true).open(current(folder, start))?;
            finish(folder, &file, header.len() as u64, start, until)?;
            starts.remove(0);
        }
        let start = starts.first().copied().unwrap_or(0);
        let path = current(folder, start);
        let left = fs::read(&path).unwrap_or_default();
        // What was left in the middle of a file is still of the stream.
        // With a header that it does not have there is nothing else in it.
        let (file, text) = match left.strip_prefix(header.as_slice()) {
            Some(text) => (continued(&path)?, text),
            None => (begun(folder, start, &header)?, &[][..]),
        };
        let mut spool = Self {
            file,
            folder: folder.to_owned(),
            ends: RecordEnds::new(cutting.dialect.clone()),
            cutting,
            header,
            start,
            length: 0,
            since: None,
            whole: 0,
            records: 0,
            skip: 0,
            heading: None,
        };
        spool.scan(text);
        Ok(spool)
    }

    /// Reads a stream to its end, or until it is told to stop. Returns how many bytes of it were not taken.
    pub fn read(&mut self, pipe: File, source: &str, stop: &Stop) -> Result<u64> {
        let failed = |error| Error::Read { path: source.into(), source: error };
        let left = self.begin().map_err(failed)?;
        let cancellation = Cancellation::default();
        let pipe = CancellablePipe::new(pipe, &cancellation);
        let (to, blocks) = sync_channel(BLOCKS_WAITING);
        std::thread::scope(|scope| {
            scope.spawn(move || pass(pipe, &to));
            let taken = self.take(&blocks, stop);
            // The reader may wait for more that is not wanted, or to hand over what nobody takes.
            cancellation.end();
            drop(blocks);
            taken.map(|taken| left + taken).map_err(failed)
        })
    }

    /// Each opening has its header, and may have what is known.
    fn begin(&mut self) -> io::Result<u64> {
        self.cut_full()?;
        let left = self.leave_rest()?;
        self.heading = self.cutting.has_header.then(Vec::new);
        self.skip = if self.cutting.replays { self.start + self.length } else { 0 };
        Ok(left)
    }

    /// Leaves out what an interrupted sender left of a record; how many bytes.
    fn leave_rest(&mut self) -> io::Result<u64> {
        let left = self.length - self.whole;
        if !self.cutting.is_of_lines || left == 0 {
            return Ok(0);
        }
        self.file.set_len(self.header.len() as u64 + self.whole)?;
        self.length = self.whole;
        self.ends.clear();
        Ok(left)
    }

    /// What follows the header; none once it is told to stop.
    fn without_header<'b>(&mut self, text: &'b [u8], stop: &Stop) -> io::Result<Option<&'b [u8]>> {
        let Some(heading) = &mut self.heading else { return Ok(Some(text)) };
        let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
        heading.extend_from_slice(&text[..end]);
        if heading.ends_with(b"\n") {
            let heading = std::mem::take(heading);
            if heading != self.header && !self.change_header(heading, stop)? {
                return Ok(None);
            }
            self.heading = None;
        }
        Ok(Some(&text[end..]))
    }

    /// Begins files with another header, once those with the one before are loaded: columns are found by one header for all
    /// files of a batch. Whether it was not told to stop before.
    fn change_header(&mut self, header: Vec<u8>, stop: &Stop) -> io::Result<bool> {
        self.cut(true)?;
        while self.waiting()?.files > 0 {
            if stop() {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        self.header = header;
        durably(&self.folder.join(HEADER), &self.header)?;
        // Nothing stands in it yet.
        self.file = begun(&self.folder, self.start, &self.header)?;
        Ok(true)
    }

    fn take(&mut self, blocks: &Receiver<io::Result<Vec<u8>>>, stop: &Stop) -> io::Result<u64> {
        loop {
            if stop() {
                return Ok(0);
            }
            let waiting = self.waiting()?;
            if waiting.bytes > BATCHES_WAITING * self.cutting.bytes {
                if waiting.files == 0 && self.whole == 0 {
                    return Err(self.endless());
                }
                std::thread::sleep(LOOK);
                continue;
            }
            match blocks.recv_timeout(LOOK) {
                Ok(block) => {
                    let block = block?;
                    let Some(text) = self.without_header(&block, stop)? else { return Ok(0) };
                    let known = self.skip.min(text.len() as u64);
                    self.skip -= known;
                    self.add(&text[known as usize..])?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let left = self.leave_rest()?;
                    return self.cut(true).map(|()| left);
                }
            }
            let is_late = self.since.is_some_and(|since| since.elapsed() >= self.cutting.every);
            if is_late || self.length >= self.cutting.bytes {
                self.cut(false)?;
            }
        }
    }

    fn endless(&self) -> io::Error {
        io::Error::other(format!(
            "no record ends within {} bytes: a quote may be unterminated (see --quote and --escape), or raise --batch-bytes",
            self.length
        ))
    }

    /// Ends files that have the records of a batch.
    fn cut_full(&mut self) -> io::Result<()> {
        while self.is_full() {
            self.cut(false)?;
        }
        Ok(())
    }

    /// Whether there are the records that make a batch.
    fn is_full(&self) -> bool {
        self.cutting.rows.is_some_and(|rows| self.records >= rows)
    }

    fn add(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        self.scan(text);
        self.cut_full()
    }

    /// Looks for the ends of records in what was written, as the load will.
    fn scan(&mut self, text: &[u8]) {
        if !text.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        self.length += text.len() as u64;
        self.ends.add(text);
        while !self.is_full()
            && let Some(bytes) = self.ends.next_record()
        {
            self.whole += bytes as u64;
            self.records += 1;
        }
    }

    /// Ends the file after its last whole record; what follows begins the next one. At the end of the stream, all of it.
    fn cut(&mut self, is_end: bool) -> io::Result<()> {
        let end = if is_end { self.length } else { self.whole };
        if end == 0 {
            return Ok(());
        }
        let header = self.header.len() as u64;
        let all = fs::read(current(&self.folder, self.start))?;
        let rest = &all[(header + end) as usize..];
        let until = self.start + end;
        // The next file comes first, as a whole: from then on it is certain where this one ends.
        let next = current(&self.folder, until);
        durably(&next, &[&self.header[..], rest].concat())?;
        let cut = std::mem::replace(&mut self.file, continued(&next)?);
        finish(&self.folder, &cut, header, self.start, until)?;
        (self.start, self.length, self.since) = (until, 0, None);
        (self.whole, self.records) = (0, 0);
        self.ends.clear();
        self.scan(rest);
        Ok(())
    }

    /// What is not loaded yet.
    fn waiting(&self) -> io::Result<Waiting> {
        let mut waiting = Waiting::default();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // It may have been loaded and removed meanwhile.
            waiting.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            waiting.files += u64::from(!entry.file_name().as_encoded_bytes().starts_with(b"."));
        }
        Ok(waiting)
    }
}

/// What is not loaded yet: bytes of all files, and how many of these are whole.
#[derive(Default)]
struct Waiting {
    bytes: u64,
    files: u64,
}

/// The file that has the stream from a byte on, while it is written.
fn current(folder: &Path, start: u64) -> PathBuf {
    folder.join(format!("{CURRENT}{start}"))
}

/// The same, made anew with a header.
fn begun(folder: &Path, start: u64, header: &[u8]) -> io::Result<File> {
    let path = current(folder, start);
    fs::write(&path, header)?;
    continued(&path)
}

/// A file whose end is written to.
fn continued(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Where files that are being written begin: one, or two where a cut was not finished.
fn starts(folder: &Path) -> io::Result<Vec<u64>> {
    let mut starts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let start = name.to_str().and_then(|name| name.strip_prefix(CURRENT));
        starts.extend(start.and_then(|start| start.parse::<u64>().ok()));
    }
    starts.sort_unstable();
    Ok(starts)
}

/// Ends a file where the next one begins, and gives it the name by which it is loaded.
fn finish(folder: &Path, file: &File, header: u64, start: u64, until: u64) -> io::Result<()> {
    file.set_len(header + until - start)?;
    file.sync_all()?;
    fs::rename(current(folder, start), folder.join(format!("{start:020}-{until:020}")))
}

/// Passes on what is read, until its end.
fn pass(mut pipe: CancellablePipe, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK];
        let read = pipe.read(&mut block);
        let passed = match read {
            Ok(0) => return,
            Ok(read) => {
                block.truncate(read);
                to.send(Ok(block)).is_ok()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) => {
                let _ = to.send(Err(error));
                return;
            }
        };
        if !passed {
            return;
        }
    }
}

/// Writes a small file as a whole.
fn durably(path: &Path, contents: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests;
