//! Feeds: return blocks of whole records, one after the other, to any parser.
//!
//! One thread at a time holds a feed. It reads and cuts at a record's end; parsing happens outside.

use arrow_array::RecordBatch;
use fullbore_parse::Lane;
use fullbore_parse::block::Block;

use super::parquet::RowFeed;
use super::ranges::RangeFeed;
use super::remaining::RemainingFeed;
use super::stream::StreamFeed;
use crate::error::Result;

/// Where a piece's rows come from.
pub enum Feed {
    Ranges(Box<RangeFeed>),
    Stream(StreamFeed),
    /// A stream of which parts are loaded already.
    Remaining(RemainingFeed),
    Rows(Box<RowFeed>),
}

impl Feed {
    /// Gives the next rows: as text in `block`, or as a batch.
    pub fn next(&mut self, block: &mut Block, lane: Lane) -> Result<Fed> {
        let has_block = match self {
            Self::Ranges(feed) => feed.next(block)?,
            Self::Stream(feed) => feed.next(block)?,
            Self::Remaining(feed) => feed.next(block)?,
            Self::Rows(feed) => return feed.next(lane),
        };
        Ok(if has_block { Fed::Block } else { Fed::End })
    }

    /// Whether what it gave last stood at the end of a file that is read from its beginning.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Stream(feed) => feed.has_ended(),
            Self::Remaining(feed) => feed.has_ended(),
            Self::Ranges(_) | Self::Rows(_) => false,
        }
    }
}

/// What a feed gave.
pub enum Fed {
    Block,
    Rows(Rows),
    /// Nothing now: others hold the memory that it needs.
    Later,
    End,
}

/// Rows of a file that came as a batch.
pub struct Rows {
    pub batch: RecordBatch,
    pub file: usize,
    /// Which row of the file each is, from 0.
    pub numbers: Vec<u64>,
    /// Rows that stood among them and can't be loaded.
    pub faults: Vec<RowFault>,
    /// Values whose nanoseconds were rounded.
    pub rounded: u64,
}

/// A row that came as values and can't be loaded.
#[derive(Debug)]
pub struct RowFault {
    /// Its row in the file, from 0.
    pub row: u64,
    pub column: Option<String>,
    pub value: Option<String>,
    pub reason: String,
    /// What stands for it in the reject file.
    pub raw: Vec<u8>,
}
