//! Counts lines of files that can be read anywhere, for messages.

use fullbore_objects::Pace;
use fullbore_parse::dialect::LineEnd;

use super::source_file::SourceFile;
use crate::constants::SCAN_CHUNK_BYTES;

/// Counts lines of text that comes in portions, cut anywhere.
#[derive(Debug, Clone, Copy)]
pub struct LineCounter {
    line_end: LineEnd,
    /// The last byte was a carriage return that was counted already.
    after_return: bool,
}

impl LineCounter {
    pub fn new(line_end: LineEnd) -> Self {
        Self { line_end, after_return: false }
    }

    /// The lines that end in this portion.
    pub fn add(&mut self, text: &[u8]) -> u64 {
        let Some(last) = text.last() else { return 0 };
        let is_counted =
            self.line_end == LineEnd::Mixed && self.after_return && text.starts_with(b"\n");
        self.after_return = *last == b'\r';
        self.line_end.count(text) - u64::from(is_counted)
    }
}

/// Lines between two places of a file; `None` where it can't be read.
pub fn count(source: &SourceFile, start: u64, end: u64) -> Option<u64> {
    let mut reader = source.open_range(start..end, Pace::Full).ok()?;
    let mut chunk = vec![0; SCAN_CHUNK_BYTES];
    let (mut at, mut lines) = (start, 0);
    let mut counter = LineCounter::new(source.line_end);
    while at < end {
        let read = reader.read(&mut chunk).ok().filter(|read| *read > 0)?;
        lines += counter.add(&chunk[..read]);
        at += read as u64;
    }
    Some(lines)
}

/// The line, from 1, in which a byte stands.
pub fn line_at(source: &SourceFile, byte: u64) -> Option<u64> {
    let lines = count(source, source.data_start.min(byte), byte)?;
    Some(source.data_start_lines + lines + 1)
}
