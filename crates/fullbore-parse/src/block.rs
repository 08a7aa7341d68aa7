//! A block: a run of whole records, held so that wide loads near its ends are safe.

use std::ops::Range;

use super::dialect::LineEnd;
use crate::constants::BLOCK_PADDING;

/// The whole records at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Where the last of them ends.
    pub end: usize,
    /// They must be walked.
    pub is_messy: bool,
}

/// Whole records of one source, with readable padding on both sides.
///
/// The buffer is kept when the block is refilled, so that a parser's loop allocates nothing.
#[derive(Debug, Default)]
pub struct Block {
    /// `[unused][padding][text][padding]`
    buffer: Vec<u8>,
    /// Where the text begins; 0 as long as there is no buffer.
    begin: usize,
    text_bytes: usize,
    /// Where the text stands: which file of the table's sources, and the byte offset in it (after
    /// decompression).
    pub file: usize,
    pub offset: u64,
    /// Line number of the first line, counted from 1, where the feed knows it: one that reads on
    /// leaves the counting to the parser, which sees every line feed anyway.
    pub first_line: Option<u64>,
    /// The same within the file whatever is read of it, where lines are asked for.
    pub line_of_file: Option<u64>,
    /// What ends its lines.
    pub line_end: LineEnd,
    /// Its records are to be walked: the index would not find them.
    pub is_messy: bool,
}

impl Block {
    /// A block over a copy of `text`.
    pub fn of(text: &[u8]) -> Self {
        let mut block = Self::default();
        block.space(text.len())[..text.len()].copy_from_slice(text);
        block.set_len(text.len());
        block
    }

    /// Some records of it, as a block that holds no others.
    pub fn of_records(&self, records: &[Range<usize>]) -> Self {
        let text: Vec<&[u8]> = records.iter().map(|record| &self.text()[record.clone()]).collect();
        let mut part = Self::of(&text.concat());
        (part.file, part.line_end, part.is_messy) = (self.file, self.line_end, self.is_messy);
        part
    }

    /// Makes room for `bytes` bytes and returns them all for writing; what was there stays.
    pub fn space(&mut self, bytes: usize) -> &mut [u8] {
        self.begin = self.begin.max(BLOCK_PADDING);
        self.space_from(self.begin, bytes)
    }

    /// Makes room for `bytes` bytes at a multiple of `alignment` in memory, with `room_before` bytes
    /// before them for [`Block::prepend`]; what was there is lost.
    pub fn aligned_space(
        &mut self,
        bytes: usize,
        alignment: usize,
        room_before: usize,
    ) -> &mut [u8] {
        let begin = BLOCK_PADDING + room_before;
        self.space_from(begin, alignment + bytes);
        // Where memory can't tell its address there is no alignment, and the read says so.
        let unaligned = self.buffer[begin..].as_ptr().align_offset(alignment).min(alignment);
        self.space_from(begin + unaligned, bytes)
    }

    fn space_from(&mut self, begin: usize, bytes: usize) -> &mut [u8] {
        self.begin = begin;
        let needed = begin + bytes + BLOCK_PADDING;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        &mut self.buffer[begin..begin + bytes]
    }

    /// Says how many of the bytes last written are text.
    ///
    /// # Panics
    /// If there was no such space.
    pub fn set_len(&mut self, bytes: usize) {
        if self.buffer.is_empty() {
            self.space(0);
        }
        assert!(self.begin + bytes + BLOCK_PADDING <= self.buffer.len());
        self.text_bytes = bytes;
    }

    /// Leaves the first bytes of the text out.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.text_bytes);
        self.begin += bytes;
        self.text_bytes -= bytes;
    }

    /// Puts this before the text.
    pub fn prepend(&mut self, before: &[u8]) {
        let text = self.begin..self.begin + self.text_bytes;
        if before.len() + BLOCK_PADDING > self.begin {
            // Longer than the room that was left: rare, and then all of it moves.
            let needed = before.len() + self.text_bytes + 2 * BLOCK_PADDING;
            self.buffer.resize(needed.max(self.buffer.len()), 0);
            self.buffer.copy_within(text, BLOCK_PADDING + before.len());
            self.begin = BLOCK_PADDING + before.len();
        }
        self.begin -= before.len();
        self.text_bytes += before.len();
        self.buffer[self.begin..self.begin + before.len()].copy_from_slice(before);
    }

    /// Appends a line end where the last record has none.
    pub fn end_last_line(&mut self) {
        if !self.line_end.ends(self.text()) && !self.text().is_empty() {
            let line_end = self.line_end.written();
            let len = self.text_bytes;
            self.space(len + line_end.len())[len..].copy_from_slice(line_end);
            self.text_bytes = len + line_end.len();
        }
    }

    /// Keeps the whole records of what was read.
    pub fn take(&mut self, whole: Whole) {
        self.set_len(whole.end);
        self.is_messy = whole.is_messy;
    }

    /// Lines in the block, those that end within fields included.
    pub fn lines(&self) -> u64 {
        self.lines_between(0, self.text_bytes)
    }

    /// Lines that end between two places of the text.
    pub fn lines_between(&self, from: usize, to: usize) -> u64 {
        self.line_end.count(&self.text()[from..to])
    }

    pub fn text(&self) -> &[u8] {
        &self.buffer[self.begin..self.begin + self.text_bytes]
    }

    /// The text with what is around it: it begins at [`BLOCK_PADDING`], and at least as many bytes
    /// follow it.
    pub fn padded(&self) -> &[u8] {
        &self.buffer[self.begin.saturating_sub(BLOCK_PADDING)..]
    }

    /// Bytes of its buffer.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes of text.
    pub fn len(&self) -> usize {
        self.text_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.text_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_prepended_stands_before_the_text_however_long_it_is() {
        for room in [0, 3, 100] {
            let mut block = Block::default();
            block.aligned_space(8, 4096, room).copy_from_slice(b"\0\0second");
            assert!(block.buffer[block.begin..].as_ptr().addr().is_multiple_of(4096));
            block.set_len(8);
            block.skip(2);
            block.prepend(b"the first and the ");
            assert_eq!(block.text(), b"the first and the second");
            assert_eq!(&block.padded()[BLOCK_PADDING..][..block.len()], block.text());
            assert!(block.padded().len() >= block.len() + 2 * BLOCK_PADDING);
            // Used again, for less and for more.
            block.space(3).copy_from_slice(b"new");
            block.set_len(3);
            block.end_last_line();
            assert_eq!(block.text(), b"new\n");
        }
    }
}
