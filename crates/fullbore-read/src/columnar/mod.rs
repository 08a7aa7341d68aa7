//! Sources whose rows come as batches rather than text: Parquet files, and Arrow data of this process.
//!
//! [`units`] cuts batches and casts their columns, as [`views`] where texts are so; [`types`] maps stored
//! types to column types; [`data`] holds the data of this process, which [`arrow`] hands out, and
//! [`crate::parquet`] reads files.

mod arrow;
pub mod data;
pub(crate) mod inspected;
pub mod types;
pub(crate) mod units;
mod utf8;
pub(crate) mod views;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use fullbore_parse::Lane;
use fullbore_parse::types::ParseShape;

use crate::error::Result;
use crate::fed::Fed;
use crate::parquet::{self, ParquetFeed};
use crate::source_file::{FileRange, Packing, SourceFile};
use arrow::ArrowFeed;
pub use data::bytes_of;
pub use inspected::{Columnar, GroupRange, Inspected};
pub use types::{StoredAs, is_finer, stored_as};
pub use units::{Reading, line_of};

/// Looks at a source's columns and how many rows it has.
pub fn inspect(source: &SourceFile) -> Result<Inspected> {
    match &source.arrow {
        Some(data) => Ok(data.inspect()),
        None => parquet::inspect(source),
    }
}

/// What is known of the only wanted column of a source, group by group.
pub fn group_ranges(source: &SourceFile, shape: &ParseShape) -> Result<Vec<GroupRange>> {
    match source.packing {
        Packing::Arrow => {
            let groups = inspect(source)?.groups.into_iter();
            Ok(groups.map(|(rows, _)| GroupRange { rows, ends: None }).collect())
        }
        _ => parquet::group_ranges(source, shape),
    }
}

/// Reads some rows of a file.
pub enum FileFeed {
    Parquet(Box<ParquetFeed>),
    Arrow(Box<ArrowFeed>),
}

impl FileFeed {
    /// Opens a file, the table's `number`th, at some of its rows, counted from 0.
    pub fn open(
        source: Arc<SourceFile>,
        number: usize,
        rows: Range<u64>,
        reading: &Reading,
    ) -> Result<Self> {
        Ok(match source.packing {
            Packing::Arrow => {
                Self::Arrow(Box::new(ArrowFeed::open(source, number, rows, reading)?))
            }
            _ => Self::Parquet(Box::new(ParquetFeed::open(source, number, rows, reading)?)),
        })
    }

    /// The next rows, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        match self {
            Self::Parquet(feed) => feed.next(lane),
            Self::Arrow(feed) => feed.next(lane),
        }
    }

    /// Its row groups that are still untouched, by their rows.
    fn groups_left(&self) -> Vec<Range<u64>> {
        match self {
            Self::Parquet(feed) => feed.groups_left(),
            // What is in memory is not what anybody waits for.
            Self::Arrow(_) => Vec::new(),
        }
    }

    /// Ends it before one of these.
    fn end_before_group(&mut self, row: u64) -> bool {
        match self {
            Self::Parquet(feed) => feed.end_before_group(row),
            Self::Arrow(_) => false,
        }
    }
}

/// Reads ranges of rows of files, one after the other.
pub struct RowFeed {
    files: Vec<Arc<SourceFile>>,
    ranges: VecDeque<FileRange>,
    reading: Reading,
    /// The file that is read, by its number.
    open: Option<(usize, FileFeed)>,
}

impl RowFeed {
    pub fn new(files: Vec<Arc<SourceFile>>, ranges: Vec<FileRange>, reading: Reading) -> Self {
        Self { files, ranges: ranges.into(), reading, open: None }
    }

    /// The next rows, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        loop {
            let (_, feed) = match &mut self.open {
                Some(open) => open,
                None => {
                    let Some(range) = self.ranges.pop_front() else { return Ok(Fed::End) };
                    let source = self.files[range.file].clone();
                    let rows = range.start..range.end;
                    let feed = FileFeed::open(source, range.file, rows, &self.reading)?;
                    self.open.insert((range.file, feed))
                }
            };
            match feed.next(lane)? {
                Fed::End => self.open = None,
                fed => return Ok(fed),
            }
        }
    }

    /// What it has not begun to read, cut into row groups where they are known.
    pub fn left(&self) -> Vec<FileRange> {
        let of_open = self.open.iter().flat_map(|(file, feed)| {
            let ranges = feed.groups_left().into_iter();
            ranges.map(|rows| FileRange { file: *file, start: rows.start, end: rows.end })
        });
        of_open.chain(self.ranges.iter().cloned()).collect()
    }

    /// Ends it where one of these begins; false where it is past that.
    pub fn end_before(&mut self, next: &FileRange) -> bool {
        let begins = |range: &FileRange| (range.file, range.start) == (next.file, next.start);
        if let Some(at) = self.ranges.iter().position(begins) {
            self.ranges.truncate(at);
            return true;
        }
        let ended = match &mut self.open {
            Some((file, feed)) if *file == next.file => feed.end_before_group(next.start),
            _ => false,
        };
        if ended {
            self.ranges.clear();
        }
        ended
    }
}
