//! Feeds: return blocks of whole records, one after the other, to any parser.
//!
//! One thread at a time holds a feed. It reads and cuts at a record's end; parsing happens outside.

use fullbore_parse::Lane;
use fullbore_parse::block::Block;

use super::columnar::RowFeed;
use super::ranges::RangeFeed;
use super::remaining::RemainingFeed;
use super::stream::StreamFeed;
use crate::error::Result;
pub use crate::fed::{Fed, RowFault, Rows};
use crate::source_file::FileRange;

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

    /// What it has not handed out yet, as far as another feed could read that: in the order of its reading.
    pub fn left(&self) -> Vec<FileRange> {
        match self {
            Self::Ranges(feed) => feed.left(),
            Self::Rows(feed) => feed.left(),
            Self::Stream(_) | Self::Remaining(_) => Vec::new(),
        }
    }

    /// Ends it where a range of what is left begins; false where it is past that by now.
    pub fn end_before(&mut self, next: &FileRange) -> bool {
        match self {
            Self::Ranges(feed) => feed.end_before(next),
            Self::Rows(feed) => feed.end_before(next),
            Self::Stream(_) | Self::Remaining(_) => false,
        }
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
