//! A record of the source as it was written, and where it stood.

use std::ops::Range;

use crate::parse::block::Block;

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

impl SourceRow {
    /// A record of a block.
    pub fn of(block: &Block, range: Range<usize>) -> Self {
        let before = memchr::memchr_iter(b'\n', &block.text()[..range.start]).count() as u64;
        Self {
            file: block.file,
            offset: block.offset + range.start as u64,
            line: block.first_line.unwrap_or(1) + before,
            raw: block.text()[range].to_vec(),
        }
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
