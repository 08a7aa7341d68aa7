//! A block: a run of whole records, held so that wide loads near its ends are safe.

use crate::constants::BLOCK_PADDING;

/// Whole records of one source, with readable padding on both sides.
///
/// The buffer is kept when the block is refilled, so that a parser's loop allocates nothing.
#[derive(Debug, Default)]
pub struct Block {
    /// `[padding][text][padding]`
    buffer: Vec<u8>,
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
}

impl Block {
    /// A block over a copy of `text`.
    pub fn of(text: &[u8]) -> Self {
        let mut block = Self::default();
        block.space(text.len())[..text.len()].copy_from_slice(text);
        block.set_len(text.len());
        block
    }

    /// Makes room for `bytes` bytes and returns them all for writing; what was there stays.
    pub fn space(&mut self, bytes: usize) -> &mut [u8] {
        let needed = bytes + 2 * BLOCK_PADDING;
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        &mut self.buffer[BLOCK_PADDING..BLOCK_PADDING + bytes]
    }

    /// Says how many of the bytes last written are text.
    ///
    /// # Panics
    /// If there was no such space.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes + 2 * BLOCK_PADDING <= self.buffer.len().max(2 * BLOCK_PADDING));
        if self.buffer.is_empty() {
            self.buffer.resize(2 * BLOCK_PADDING, 0);
        }
        self.text_bytes = bytes;
    }

    /// Appends a line end where the last record has none.
    pub fn end_last_line(&mut self, line_end: &[u8]) {
        if !self.text().ends_with(b"\n") && !self.text().is_empty() {
            let len = self.text_bytes;
            self.space(len + line_end.len())[len..].copy_from_slice(line_end);
            self.text_bytes = len + line_end.len();
        }
    }

    pub fn text(&self) -> &[u8] {
        if self.buffer.is_empty() {
            return &[];
        }
        &self.buffer[BLOCK_PADDING..BLOCK_PADDING + self.text_bytes]
    }

    /// The whole buffer: the text begins at [`BLOCK_PADDING`], and as many bytes follow it.
    pub fn padded(&self) -> &[u8] {
        &self.buffer
    }

    /// Bytes of text.
    pub fn len(&self) -> usize {
        self.text_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.text_bytes == 0
    }
}
