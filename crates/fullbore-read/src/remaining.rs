//! A partly loaded stream: returns the ranges that are not committed yet.
//!
//! The pieces of a file that can be read only from its beginning take blocks in turn, so the committed
//! ranges are many and short. They begin and end between records. The file is read again from the start,
//! and blocks are cut at these ranges' ends.

use std::collections::VecDeque;
use std::ops::Range;

use fullbore_parse::block::Block;

use super::stream::StreamFeed;
use crate::error::Result;
use crate::source_file::FileRange;

/// The stretches of a file among those of its table that are committed, in order, those that touch joined.
pub fn stretches<'a>(ranges: impl Iterator<Item = &'a FileRange>, file: usize) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> =
        ranges.filter(|range| range.file == file).map(|range| range.start..range.end).collect();
    found.sort_by_key(|range| range.start);
    found.dedup_by(|next, range| {
        let touches = next.start <= range.end;
        if touches {
            range.end = range.end.max(next.end);
        }
        touches
    });
    found
}

/// Whether a file is committed from its first record to its end.
pub fn cover(committed: &[Range<u64>], data_start: u64) -> bool {
    matches!(committed, [all] if all.start <= data_start && all.end == u64::MAX)
}

/// Hands out the blocks of a stream without what is committed.
pub struct RemainingFeed {
    inner: StreamFeed,
    /// Not yet passed.
    committed: VecDeque<Range<u64>>,
    /// What is left of the last block that was read.
    waiting: VecDeque<Block>,
}

impl RemainingFeed {
    pub fn new(inner: StreamFeed, committed: Vec<Range<u64>>) -> Self {
        Self { inner, committed: committed.into(), waiting: VecDeque::new() }
    }

    /// Fills the block with the next records that are missing; false at the end of the stream.
    pub fn next(&mut self, block: &mut Block) -> Result<bool> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                *block = next;
                return Ok(true);
            }
            if !self.inner.next(block)? {
                return Ok(false);
            }
            let (start, end) = (block.offset, block.offset + block.len() as u64);
            while self.committed.front().is_some_and(|range| range.end <= start) {
                self.committed.pop_front();
            }
            if self.committed.front().is_none_or(|range| range.start >= end) {
                return Ok(true);
            }
            self.cut(block);
        }
    }

    /// Whether the last block stood at the stream's end.
    pub fn has_ended(&self) -> bool {
        self.waiting.is_empty() && self.inner.has_ended()
    }

    /// Keeps what of a block lies between the committed stretches.
    fn cut(&mut self, block: &Block) {
        let end = block.offset + block.len() as u64;
        let mut at = block.offset;
        for range in &self.committed {
            if range.start >= end {
                break;
            }
            if range.start > at {
                self.waiting.push_back(part(block, at..range.start));
            }
            at = at.max(range.end);
        }
        if at < end {
            self.waiting.push_back(part(block, at..end));
        }
    }
}

/// A part of a block, by its offsets in the file.
fn part(block: &Block, offsets: Range<u64>) -> Block {
    let place = |offset: u64| (offset - block.offset) as usize;
    let (before, text) = block.text().split_at(place(offsets.start));
    let text = &text[..place(offsets.end) - before.len()];
    let mut made = Block::of(text);
    made.file = block.file;
    made.offset = offsets.start;
    made.line_end = block.line_end;
    made.is_messy = block.is_messy;
    made.first_line = block.first_line.map(|line| line + block.line_end.count(before));
    made.line_of_file = made.first_line;
    made
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::discover::stdin;
    use fullbore_parse::dialect::Dialect;

    fn feed(text: &[u8]) -> StreamFeed {
        let reader = Box::new(std::io::Cursor::new(text.to_vec()));
        StreamFeed::over(reader, Arc::new(stdin()), 0, Dialect::tbl(), 1 << 20).expect("opened")
    }

    #[test]
    fn what_is_committed_is_left_out_and_nothing_else() {
        let lines: Vec<String> = (0..200_000).map(|n| format!("{n}|{}|\n", n % 7)).collect();
        let text = lines.concat();
        // Every few lines some are committed, and not in order.
        let mut committed = Vec::new();
        let mut expected = String::new();
        let mut at = 0_u64;
        for (number, line) in lines.iter().enumerate() {
            let end = at + line.len() as u64;
            if number / 1000 % 3 == 1 {
                committed.push(FileRange { file: 0, start: at, end });
            } else {
                expected.push_str(line);
            }
            at = end;
        }
        committed.reverse();
        let stretches = super::stretches(committed.iter(), 0);
        assert_eq!(stretches.len(), 67);
        let mut remaining = RemainingFeed::new(feed(text.as_bytes()), stretches);
        let (mut block, mut found) = (Block::default(), Vec::new());
        while remaining.next(&mut block).expect("read") {
            let before = memchr::memchr_iter(b'\n', &text.as_bytes()[..block.offset as usize]);
            assert_eq!(block.first_line, Some(before.count() as u64 + 1));
            assert_eq!(block.line_of_file, block.first_line);
            found.extend_from_slice(block.text());
        }
        assert!(remaining.has_ended());
        assert!(found == expected.as_bytes(), "what is handed out is not what is missing");
    }

    #[test]
    fn a_file_is_covered_from_its_first_record_to_its_end() {
        for (range, covers) in [(5..u64::MAX, true), (6..u64::MAX, false), (5..100, false)] {
            assert_eq!(cover(std::slice::from_ref(&range), 5), covers, "{range:?}");
        }
        assert!(!cover(&[], 0));
        assert!(!cover(&[5..10, 11..u64::MAX], 5));
    }
}
