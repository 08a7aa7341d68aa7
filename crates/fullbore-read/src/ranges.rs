//! The feed of ranges of files.
//!
//! What the page cache holds is read from there. What it does not hold is read past it, ahead of the
//! parsers: a large file is read once, and to bring it into the cache costs more than to parse it.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use fullbore_parse::block::Block;
use fullbore_parse::boundary::{lost_lines, whole_records};
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;

use super::direct_read::{Ahead, Read};
use super::opened::Opened;
use super::page_cache::cached_share;
use super::record_size::{grown, too_long};
use super::source_file::SourceFile;
use super::stream::StreamFeed;
use crate::constants::READ_AHEAD_BYTES;
use crate::error::Result;
use crate::source_file::FileRange;

/// Reads ranges of files; those that can only be read from their beginning are read up to them.
pub struct RangeFeed {
    files: Vec<Arc<SourceFile>>,
    ranges: Vec<FileRange>,
    dialect: Dialect,
    record_bytes_max: usize,
    current: usize,
    open: Option<OpenFile>,
    stream: Option<StreamFeed>,
    offset: u64,
    /// Lines before ranges of files, where lines are asked for; and the line that comes next.
    lines: Option<Arc<LinesBefore>>,
    line: Option<u64>,
}

/// Lines before ranges, by file and start.
pub type LinesBefore = HashMap<(usize, u64), u64>;

impl RangeFeed {
    pub fn new(
        files: Vec<Arc<SourceFile>>,
        ranges: Vec<FileRange>,
        dialect: Dialect,
        record_bytes_max: usize,
    ) -> Self {
        Self {
            files,
            ranges,
            dialect,
            record_bytes_max,
            current: 0,
            open: None,
            stream: None,
            offset: 0,
            lines: None,
            line: None,
        }
    }

    /// Tells each block its line in its file.
    pub fn with_lines(self, lines: Arc<LinesBefore>) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// Fills the block with the next records; false at the end of the piece.
    pub fn next(&mut self, block: &mut Block) -> Result<bool> {
        loop {
            let Some(range) = self.ranges.get(self.current) else { return Ok(false) };
            let source = self.files[range.file].clone();
            if !source.is_seekable() || source.object.is_some() {
                if self.next_of_stream(block)? {
                    return Ok(true);
                }
                self.stream = None;
                self.current += 1;
                continue;
            }
            if self.open.is_none() {
                self.open = Some(OpenFile::new(&source)?);
                self.offset = range.start;
                self.line = self.line_of(range);
            }
            let Some(open) = self.open.as_mut().filter(|_| self.offset < range.end) else {
                // Written to while we read: the last rows may be torn, so the piece must not count.
                if let Some(open) = self.open.take() {
                    source.check_unchanged(&open.through)?;
                }
                self.current += 1;
                continue;
            };
            let (dialect, limit) = (&self.dialect, self.record_bytes_max);
            let mut used = open.records(&source, self.offset..range.end, dialect, limit, block)?;
            // The range was ended while what follows it had been read ahead.
            if self.offset + used > range.end {
                used = range.end - self.offset;
                block.set_len(used as usize);
            }
            block.file = range.file;
            block.offset = self.offset;
            // Lines are counted within a range; its later blocks go on from the one before.
            block.first_line = (self.offset == range.start).then_some(1);
            self.number_lines(block);
            self.offset += used;
            return Ok(true);
        }
    }

    /// What it has not handed out yet, where all of that can be read by another one.
    pub fn left(&self) -> Vec<FileRange> {
        let mut left: Vec<FileRange> = self.ranges.get(self.current..).unwrap_or_default().to_vec();
        if !left.iter().all(|range| self.files[range.file].is_seekable()) {
            return Vec::new();
        }
        if let Some(range) = left.first_mut() {
            range.start = self.reached().max(range.start).min(range.end);
        }
        left.retain(|range| range.start < range.end);
        left
    }

    /// The place that was reached in the current range.
    fn reached(&self) -> u64 {
        match &self.stream {
            Some(stream) => stream.offset(),
            None if self.open.is_some() => self.offset,
            None => 0,
        }
    }

    /// Ends it where a range of what is left begins; false where it is past that.
    pub fn end_before(&mut self, next: &FileRange) -> bool {
        let holds = |range: &FileRange| {
            range.file == next.file && (range.start..range.end).contains(&next.start)
        };
        let Some(at) = (self.current..self.ranges.len()).find(|at| holds(&self.ranges[*at])) else {
            return false;
        };
        if at == self.current && self.reached() >= next.start {
            return false;
        }
        self.ranges.truncate(at + 1);
        match self.ranges[at].start < next.start {
            true => self.ranges[at].end = next.start,
            false => self.ranges.truncate(at),
        }
        true
    }

    /// The line at which a range begins, where lines are asked for.
    fn line_of(&self, range: &FileRange) -> Option<u64> {
        let before = self.lines.as_ref()?.get(&(range.file, range.start))?;
        Some(before + 1)
    }

    /// Tells a block its line in its file.
    fn number_lines(&mut self, block: &mut Block) {
        block.line_of_file = self.line;
        if let Some(line) = &mut self.line {
            *line += block.lines();
        }
    }

    fn next_of_stream(&mut self, block: &mut Block) -> Result<bool> {
        let range = &self.ranges[self.current];
        let feed = match &mut self.stream {
            Some(feed) => feed,
            None => {
                let source = self.files[range.file].clone();
                let (dialect, most) = (self.dialect.clone(), self.record_bytes_max);
                // Ranges of objects are read as streams: requests are made ahead of the parsers.
                let feed = match source.is_seekable() {
                    true => {
                        self.line = self.line_of(range);
                        StreamFeed::of_range(source, range, dialect, most)?
                    }
                    false => StreamFeed::open_at(source, range.file, dialect, most, range.start)?,
                };
                self.stream.insert(feed)
            }
        };
        if feed.offset() >= range.end || !feed.next(block)? {
            return Ok(false);
        }
        feed.keep_before(range.end, block)?;
        if self.files[range.file].is_seekable() {
            self.number_lines(block);
        }
        Ok(true)
    }
}

/// A file that is read in ranges.
struct OpenFile {
    /// Through the page cache.
    through: Arc<Opened>,
    /// Past it, where the file system has such a way.
    past: Option<Arc<File>>,
    /// Up to here the cache is the way.
    cached_until: u64,
    ahead: Option<Ahead>,
}

impl OpenFile {
    fn new(source: &SourceFile) -> Result<Self> {
        let through = source.open()?;
        let past = match through.file() {
            Some(file) => source.open_past_cache(file)?,
            None => None,
        };
        Ok(Self {
            through: Arc::new(through),
            past: past.map(Arc::new),
            cached_until: 0,
            ahead: None,
        })
    }

    /// Reads whole records from a place on, about a block's worth, up to the range's end; the bytes
    /// of the file they took.
    fn records(
        &mut self,
        source: &SourceFile,
        range: Range<u64>,
        dialect: &Dialect,
        record_bytes_max: usize,
        block: &mut Block,
    ) -> Result<u64> {
        loop {
            if self.ahead.is_none() && self.cached_until <= range.start {
                self.choose(source, &range, dialect)?;
            }
            let Some(ahead) = &mut self.ahead else { break };
            match ahead.next(source, range.end, dialect, block)? {
                Read::Records(bytes) => return Ok(bytes),
                Read::Done => self.ahead = None,
                Read::TooLong => {
                    self.ahead = None;
                    break;
                }
            }
        }
        let sizes = Sizes { read: BLOCK_BYTES, record_max: record_bytes_max };
        read_records(&self.through, source, &range, dialect, sizes, block)
    }

    /// Chooses the way for the next stretch: what is mostly in the cache comes from there. Not block
    /// by block: to read a cached one makes the kernel bring in those after it. What is taken in small
    /// portions is not read ahead.
    fn choose(&mut self, source: &SourceFile, range: &Range<u64>, dialect: &Dialect) -> Result<()> {
        let stretch = range.start..range.end.min(range.start + READ_AHEAD_BYTES);
        let share = self.through.file().and_then(|file| cached_share(file, &stretch));
        let is_cold = share.is_some_and(|share| share < 0.5);
        match &self.past {
            Some(past) if is_cold && !dialect.pads_records() => {
                let (through, stop) = (&self.through, stretch.end);
                self.ahead = Some(Ahead::start(source, past, through, range.start, stop)?);
            }
            _ => self.cached_until = stretch.end,
        }
        Ok(())
    }
}

/// How much is read at once.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub read: usize,
    /// More than that is read only of a longer record, which is refused then.
    pub record_max: usize,
}

/// Reads whole records from a range's beginning on, through the page cache; the bytes of the file that
/// they took. The last line of a file may have no end.
pub fn read_records(
    file: &Opened,
    source: &SourceFile,
    range: &Range<u64>,
    dialect: &Dialect,
    sizes: Sizes,
    block: &mut Block,
) -> Result<u64> {
    let (offset, left) = (range.start, range.end - range.start);
    let mut have = 0;
    let mut want = (sizes.read as u64).min(left) as usize;
    block.line_end = dialect.line_end;
    loop {
        while have < want {
            let space = &mut block.space(want)[have..];
            let read = file
                .read_at(space, offset + have as u64)
                .map_err(|error| source.unreadable(error))?;
            if read == 0 {
                return Err(source.ends_at(offset + have as u64));
            }
            have += read;
        }
        block.set_len(have);
        let is_end = have as u64 == left;
        if is_end {
            // The range ends where a record does, or the file without a line end.
            block.end_last_line();
        }
        let mut whole = whole_records(block.text(), dialect, is_end);
        let more = grown(have, sizes.record_max);
        if whole.is_none() && more.is_none() {
            whole = lost_lines(block.text(), dialect);
        }
        if let Some(whole) = whole {
            block.take(whole);
            return Ok((whole.end as u64).min(left));
        }
        want = more.ok_or_else(|| too_long(source, offset, sizes.record_max))?.min(left as usize);
    }
}
