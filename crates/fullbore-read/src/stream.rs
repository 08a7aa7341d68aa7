//! The feed of what can only be read from its beginning: compressed files, pipes.

use std::io::Read;
use std::sync::Arc;

use fullbore_objects::Pace;
use fullbore_parse::block::Block;
use fullbore_parse::boundary::{ends_with_record, lost_lines, whole_records};
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;

use super::cancellable::Cancellation;
use super::decompress;
use super::lines::LineCounter;
use super::margins::footer_start;
use super::pipe::skip_header;
use super::record_size::{grown, too_long};
use super::source_file::{FileRange, SourceFile};
use crate::error::{Error, Result};

/// Reads a stream from its beginning; several pieces share it.
pub struct StreamFeed {
    source: Arc<SourceFile>,
    file: usize,
    reader: Box<dyn Read + Send>,
    dialect: Dialect,
    record_bytes_max: usize,
    /// What was read but is not part of a whole record yet.
    carried: Vec<u8>,
    offset: u64,
    /// Lines before the next record; not counted within a range, which does not know those before it.
    lines: Option<u64>,
    ended: bool,
    /// Its end was guessed to be that of a record.
    is_checked: bool,
    is_begun: bool,
    /// Lines at its end that are no records, as long as they are not taken off.
    footer_lines: u64,
}

impl StreamFeed {
    /// Opens the stream and skips what stands before the first record. A pipe is waited for while
    /// somebody waits for its records.
    pub fn open(
        source: Arc<SourceFile>,
        file: usize,
        dialect: Dialect,
        record_bytes_max: usize,
        attention: &Cancellation,
    ) -> Result<Self> {
        let reader = decompress::open_stream(&source, attention)?;
        Self::over(reader, source, file, dialect, record_bytes_max)
    }

    /// Reads a range of what can be read anywhere, between the starts of two records.
    pub fn of_range(
        source: Arc<SourceFile>,
        range: &FileRange,
        dialect: Dialect,
        record_bytes_max: usize,
    ) -> Result<Self> {
        Ok(Self {
            reader: source.open_range(range.start..range.end, Pace::Full)?,
            file: range.file,
            // A footer is beyond the last range.
            footer_lines: 0,
            dialect,
            record_bytes_max,
            carried: Vec::new(),
            offset: range.start,
            lines: None,
            is_checked: source.is_guessed && range.end < source.end(),
            ended: false,
            is_begun: false,
            source,
        })
    }

    /// As `open`, and reads on to the record that begins at `start`.
    pub fn open_at(
        source: Arc<SourceFile>,
        file: usize,
        dialect: Dialect,
        record_bytes_max: usize,
        start: u64,
    ) -> Result<Self> {
        let attention = Cancellation::default();
        let mut feed = Self::open(source, file, dialect, record_bytes_max, &attention)?;
        let mut chunk = vec![0; BLOCK_BYTES];
        let mut lines = LineCounter::new(feed.dialect.line_end);
        while feed.offset < start {
            let want = (start - feed.offset).min(BLOCK_BYTES as u64) as usize;
            let read = feed.reader.read(&mut chunk[..want]).map_err(|e| feed.source.broken(e))?;
            if read == 0 {
                break;
            }
            let more = lines.add(&chunk[..read]);
            feed.lines = feed.lines.map(|lines| lines + more);
            feed.offset += read as u64;
        }
        Ok(feed)
    }

    /// The place of the record after the last block.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the last block stood at the stream's end.
    pub fn has_ended(&self) -> bool {
        self.ended && self.carried.is_empty()
    }

    /// Takes the records from `end` on away from the block that was read last; refuses where none begins there,
    /// which can only be where that was guessed.
    pub fn keep_before(&self, end: u64, block: &mut Block) -> Result<()> {
        if self.offset > end {
            block.set_len((end - block.offset) as usize);
            if self.source.is_guessed && !ends_with_record(block.text(), &self.dialect) {
                return Err(self.wrong_guess(end));
            }
        }
        Ok(())
    }

    /// As `open`, over a reader that was opened already.
    pub fn over(
        mut reader: Box<dyn Read + Send>,
        source: Arc<SourceFile>,
        file: usize,
        dialect: Dialect,
        record_bytes_max: usize,
    ) -> Result<Self> {
        let (carried, skipped, lines) = if source.is_regular || source.peeked.is_some() {
            let before = &mut (&mut reader).take(source.data_start);
            let skipped = std::io::copy(before, &mut std::io::sink())
                .map_err(|error| source.broken(error))?;
            (Vec::new(), skipped, source.data_start_lines)
        } else {
            skip_header(&mut reader, &source, &dialect)?
        };
        Ok(Self {
            reader,
            file,
            footer_lines: dialect.skip_footer,
            dialect,
            record_bytes_max,
            carried,
            offset: skipped,
            lines: Some(lines),
            is_checked: false,
            ended: false,
            is_begun: false,
            source,
        })
    }

    /// The refusal of a range that does not end where a record does.
    fn wrong_guess(&self, end: u64) -> Error {
        let message = format!(
            "byte {end} is inside quotes, where by those near it a record was guessed to begin"
        );
        Error::Source {
            path: self.source.path.clone(),
            message,
            hint: Some("load it with --scan-quotes, which counts all quotes first".into()),
        }
    }

    /// Fills the block with the next records; false at the end of the stream.
    pub fn next(&mut self, block: &mut Block) -> Result<bool> {
        let mut have = self.carried.len();
        // As much as a block may be left of the one before.
        let mut want = if have < BLOCK_BYTES { have + BLOCK_BYTES / 2 } else { have };
        want = want.max(BLOCK_BYTES);
        block.line_end = self.dialect.line_end;
        block.space(want)[..have].copy_from_slice(&self.carried);
        self.carried.clear();
        let used = loop {
            while have < want && !self.ended {
                let read = match self.reader.read(&mut block.space(want)[have..]) {
                    Ok(read) => read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(self.source.broken(error)),
                };
                self.ended = read == 0;
                have += read;
            }
            block.set_len(have);
            let kept = match self.footer_lines {
                0 => Some(have),
                lines => footer_start(block.text(), lines, block.line_end, self.ended),
            };
            if self.ended {
                // Nothing comes behind them: they are the last lines.
                have = kept.unwrap_or(have);
                self.footer_lines = 0;
                block.set_len(have);
                // Written to while we read: the last rows may be torn.
                if self.source.is_regular && self.source.object.is_none() {
                    self.source.open()?;
                }
                if std::mem::take(&mut self.is_checked)
                    && !ends_with_record(block.text(), &self.dialect)
                {
                    return Err(self.wrong_guess(self.offset + have as u64));
                }
                block.end_last_line();
            }
            // What may be the last lines waits.
            let text = &block.text()[..if self.ended { block.len() } else { kept.unwrap_or(0) }];
            let mut whole = whole_records(text, &self.dialect, self.ended);
            let more = grown(have, self.record_bytes_max);
            if whole.is_none() && more.is_none() {
                whole = lost_lines(text, &self.dialect);
            }
            if let Some(whole) = whole {
                self.carried.extend_from_slice(&block.text()[whole.end..]);
                block.take(whole);
                break whole.end.min(have);
            }
            if self.ended {
                break 0;
            }
            want =
                more.ok_or_else(|| too_long(&self.source, self.offset, self.record_bytes_max))?;
        };
        block.file = self.file;
        block.offset = self.offset;
        // Within a range, lines count from its first block, and on from there.
        let begins = (!self.is_begun).then_some(1);
        self.is_begun = true;
        block.first_line = self.lines.map_or(begins, |lines| Some(lines + 1));
        block.line_of_file = self.lines.and(block.first_line);
        if let Some(lines) = &mut self.lines {
            *lines += block.lines();
        }
        self.offset += used as u64;
        Ok(used > 0)
    }
}
