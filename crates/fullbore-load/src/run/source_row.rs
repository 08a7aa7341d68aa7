//! A record of the source as it was written, and where it stood.

use std::ops::Range;

use fullbore_parse::block::Block;

/// A record of the source, kept for the reject file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceRow {
    pub file: usize,
    /// Byte offset in the (decompressed) file; of Parquet the row, from 0.
    pub offset: u64,
    /// Line, from 1; within its range where the file is read in ranges, and within its block until
    /// its unit's turn has come.
    pub line: u64,
    pub raw: Vec<u8>,
}

/// Records of one block. Where they come in their order, each line feed is counted once.
pub struct Records<'a> {
    block: &'a Block,
    at: usize,
    lines: u64,
}

impl<'a> Records<'a> {
    pub fn of(block: &'a Block) -> Self {
        Self { block, at: 0, lines: 0 }
    }

    pub fn at(&mut self, range: Range<usize>) -> SourceRow {
        if range.start < self.at {
            (self.at, self.lines) = (0, 0);
        }
        self.lines += self.block.lines_between(self.at, range.start);
        self.at = range.start;
        SourceRow {
            file: self.block.file,
            offset: self.block.offset + range.start as u64,
            line: self.block.first_line.unwrap_or(1) + self.lines,
            raw: self.block.text()[range].to_vec(),
        }
    }
}

impl SourceRow {
    /// A record of a block.
    pub fn of(block: &Block, range: Range<usize>) -> Self {
        Records::of(block).at(range)
    }

    pub fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&(self.file as u64).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.line.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8], raw: Vec<u8>) -> Self {
        let number = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("24 bytes were written"))
        };
        Self { file: number(0) as usize, offset: number(8), line: number(16), raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_in_any_order() {
        let mut block = Block::of(b"a\n\"b\nb\"\nc\nd\n");
        block.first_line = Some(10);
        let mut records = Records::of(&block);
        let lines = [(0..2, 10), (2..8, 11), (10..12, 14), (8..10, 13), (0..2, 10)];
        for (range, line) in lines {
            let row = records.at(range.clone());
            assert_eq!((row.line, row.offset), (line, range.start as u64));
            assert_eq!(row.raw, block.text()[range.clone()]);
            assert_eq!(SourceRow::of(&block, range), row);
        }
    }
}
