//! Feeds: hand out blocks of whole records, one after the other, to whichever parser asks.
//!
//! A feed is the narrow place of its input: whoever holds it reads, cuts at a record's end, and
//! lets go; parsing happens outside.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::SourceFile;
use super::boundary::last_record_end;
use super::gaps::GapFeed;
use super::parquet::RowFeed;
use super::stream::StreamFeed;
use crate::constants::BLOCK_BYTES;
use crate::destination::Lane;
use crate::error::{Error, Result};
use crate::parse::block::Block;
use crate::parse::dialect::{Dialect, LineEnd};
use crate::plan::FileRange;

/// Where a piece's rows come from.
pub enum Feed {
    Ranges(RangeFeed),
    Stream(StreamFeed),
    /// A stream of which parts are loaded already.
    Gaps(GapFeed),
    Rows(RowFeed),
}

impl Feed {
    /// Gives the next rows: as text in `block`, or as a batch.
    pub fn next(&mut self, block: &mut Block, lane: Lane) -> Result<Fed> {
        let has_block = match self {
            Self::Ranges(feed) => feed.next(block)?,
            Self::Stream(feed) => feed.next(block)?,
            Self::Gaps(feed) => feed.next(block)?,
            Self::Rows(feed) => return feed.next(lane),
        };
        Ok(if has_block { Fed::Block } else { Fed::End })
    }

    /// Whether what it gave last stood at the end of a file that is read from its beginning.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Stream(feed) => feed.has_ended(),
            Self::Gaps(feed) => feed.has_ended(),
            Self::Ranges(_) | Self::Rows(_) => false,
        }
    }
}

/// What a feed gave.
pub enum Fed {
    Block,
    /// Rows of a file, from `row` on, counted from 0.
    Batch {
        batch: RecordBatch,
        file: usize,
        row: u64,
    },
    End,
}

pub(crate) fn line_end(dialect: &Dialect) -> &'static [u8] {
    match dialect.line_end {
        LineEnd::Lf => b"\n",
        LineEnd::CrLf => b"\r\n",
    }
}

/// The refusal of a record that does not end within the limit.
pub(super) fn too_long(file: &SourceFile, offset: u64, limit: usize) -> Error {
    Error::Source {
        path: file.path.clone(),
        message: format!("the record at byte {offset} is longer than {limit} bytes"),
        hint: Some(
            "a quote may be unterminated (see --quote, --escape), or raise --max-field-bytes"
                .into(),
        ),
    }
}

/// Reads ranges of files; those that can only be read from their beginning are read up to them.
pub struct RangeFeed {
    files: Vec<Arc<SourceFile>>,
    ranges: Vec<FileRange>,
    dialect: Dialect,
    record_bytes_max: usize,
    current: usize,
    open: Option<File>,
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
            if !source.is_seekable() {
                if self.next_of_stream(block)? {
                    return Ok(true);
                }
                self.stream = None;
                self.current += 1;
                continue;
            }
            if self.open.is_none() {
                self.open = Some(source.open()?);
                self.offset = range.start;
                let before =
                    self.lines.as_ref().and_then(|lines| lines.get(&(range.file, range.start)));
                self.line = before.map(|before| before + 1);
            }
            let left = range.end - self.offset;
            let Some(file) = self.open.as_ref().filter(|_| left > 0) else {
                // Written to while we read: the last rows may be torn, so the piece must not count.
                if let Some(file) = self.open.take() {
                    source.check_unchanged(&file)?;
                }
                self.current += 1;
                continue;
            };
            let used = read_records(
                file,
                &source,
                self.offset,
                left,
                &self.dialect,
                self.record_bytes_max,
                block,
            )?;
            block.file = range.file;
            block.offset = self.offset;
            // Lines are counted within a range; its later blocks go on from the one before.
            block.first_line = (self.offset == range.start).then_some(1);
            block.line_of_file = self.line;
            if let Some(line) = &mut self.line {
                *line += memchr::memchr_iter(b'\n', block.text()).count() as u64;
            }
            self.offset += used;
            return Ok(true);
        }
    }

    fn next_of_stream(&mut self, block: &mut Block) -> Result<bool> {
        let range = &self.ranges[self.current];
        let feed = match &mut self.stream {
            Some(feed) => feed,
            None => self.stream.insert(StreamFeed::open_at(
                self.files[range.file].clone(),
                range.file,
                self.dialect.clone(),
                self.record_bytes_max,
                range.start,
            )?),
        };
        if feed.offset() >= range.end || !feed.next(block)? {
            return Ok(false);
        }
        feed.keep_before(range.end, block);
        Ok(true)
    }
}

/// Reads whole records from `offset` on, about a block's worth, at most `left` bytes; the bytes
/// of the file they took.
fn read_records(
    file: &File,
    source: &SourceFile,
    offset: u64,
    left: u64,
    dialect: &Dialect,
    record_bytes_max: usize,
    block: &mut Block,
) -> Result<u64> {
    let mut have = 0;
    let mut want = (BLOCK_BYTES as u64).min(left) as usize;
    loop {
        while have < want {
            let space = &mut block.space(want)[have..];
            let read = file.read_at(space, offset + have as u64).map_err(|source_error| {
                Error::Read { path: source.path.clone(), source: source_error }
            })?;
            if read == 0 {
                return Err(Error::SourceChanged {
                    path: source.path.clone(),
                    what: format!(
                        "it ends at byte {}, not at {}",
                        offset + have as u64,
                        source.size
                    ),
                });
            }
            have += read;
        }
        block.set_len(have);
        if have as u64 == left {
            // The range ends where a record does, or the file without a line end.
            block.end_last_line(line_end(dialect));
            return Ok(left);
        }
        if let Some(end) = last_record_end(block.text(), dialect) {
            block.set_len(end);
            return Ok(end as u64);
        }
        if have > record_bytes_max {
            return Err(too_long(source, offset, record_bytes_max));
        }
        want = (have * 2).min(left as usize);
    }
}
