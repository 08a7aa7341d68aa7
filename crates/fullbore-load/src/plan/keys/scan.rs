//! Reads all keys of a range of any source, and groups those that belong together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::ArrayRef;
use fullbore_parse::block::Block;
use fullbore_parse::{Lane, Parser};
use fullbore_read::columnar::{FileFeed, Reading};
use fullbore_read::error::{Error, Result};
use fullbore_read::feed::Fed;
use fullbore_read::lines::line_at;
use fullbore_read::stream::StreamFeed;
use fullbore_read::{FileRange, SourceFile};

use super::edges::no_key;
use super::{Key, KeyColumn};
use crate::plan::format::Format;

/// Runs that a stretch may fall into; a stretch with more of them is not nearly sorted.
pub const RUNS_MAX: usize = 1000;

/// Rows in a row whose keys belong to the same region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub region: usize,
    /// Where it begins and ends: bytes, or rows of Parquet.
    pub start: u64,
    pub end: u64,
    pub first: Key,
    pub last: Key,
}

/// A table's sources as far as their keys are concerned.
#[derive(Clone)]
pub struct KeyScanner<'a> {
    pub files: &'a [Arc<SourceFile>],
    pub format: &'a Format,
    pub key: &'a KeyColumn,
    /// Longer records are refused.
    pub record_bytes_max: usize,
}

impl KeyScanner<'_> {
    /// Reads the keys of a stretch and divides it by the region of each key; `None` where that
    /// gives more than [`RUNS_MAX`] runs.
    pub fn runs(
        &self,
        range: &FileRange,
        region: &dyn Fn(Key) -> usize,
    ) -> Result<Option<Vec<Run>>> {
        let source = &self.files[range.file];
        let mut reader = Reader::open(self, range)?;
        let mut runs: Vec<Run> = Vec::new();
        while let Some(keys) = reader.next()? {
            // Places are asked for after the walk: finding one reads the block again.
            let mut begun: Vec<usize> = Vec::new();
            let mut null = None;
            let known = runs.len();
            self.key.each(&keys, |row, key| {
                let Some(key) = key else {
                    null = Some(row);
                    return true;
                };
                let region = region(key);
                match runs.last_mut().filter(|run| run.region == region) {
                    Some(run) => {
                        run.first = run.first.min(key);
                        run.last = run.last.max(key);
                    }
                    None => {
                        begun.push(row);
                        runs.push(Run { region, start: 0, end: 0, first: key, last: key });
                    }
                }
                runs.len() > RUNS_MAX
            });
            if let Some(row) = null {
                return Err(null_key(source, &self.key.name, &reader.words(source, row)));
            }
            if runs.len() > RUNS_MAX {
                return Ok(None);
            }
            for (run, row) in runs[known..].iter_mut().zip(begun) {
                run.start = reader.place(row);
            }
        }
        for at in 0..runs.len() {
            runs[at].end = runs.get(at + 1).map_or(reader.end(), |next| next.start);
        }
        if runs.is_empty() && reader.end() > range.start {
            return Err(no_key(source, self.key, range));
        }
        // Records without a key that can be read belong to the run after them.
        if let Some(first) = runs.first_mut() {
            first.start = range.start;
        }
        Ok(Some(runs))
    }

    /// The runs of several stretches, read side by side by some threads.
    pub fn runs_of_all(
        &self,
        ranges: &[FileRange],
        region: &(dyn Fn(Key) -> usize + Sync),
        threads: usize,
    ) -> Result<Vec<Option<Vec<Run>>>> {
        let next = AtomicUsize::new(0);
        let mut all: Vec<Option<Vec<Run>>> = vec![None; ranges.len()];
        std::thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..threads.clamp(1, ranges.len().max(1)))
                .map(|_| {
                    scope.spawn(|| -> Result<Vec<_>> {
                        let mut done = Vec::new();
                        loop {
                            let at = next.fetch_add(1, Ordering::Relaxed);
                            let Some(range) = ranges.get(at) else { return Ok(done) };
                            done.push((at, self.runs(range, region)?));
                        }
                    })
                })
                .collect();
            for worker in workers {
                for (at, runs) in worker.join().expect("a scan does not panic")? {
                    all[at] = runs;
                }
            }
            Ok(())
        })?;
        Ok(all)
    }
}

/// The refusal of a NULL key.
pub fn null_key(source: &SourceFile, key: &str, place: &str) -> Error {
    Error::Source {
        path: source.path.clone(),
        message: format!("{place}: {key} is NULL, and a NULL key belongs to no range partition"),
        hint: Some(
            "correct the row, or load with --publish append into a table with a DEFAULT partition"
                .into(),
        ),
    }
}

/// What hands out keys, a block or batch at a time.
enum Reader {
    Stream {
        feed: Box<StreamFeed>,
        parser: Box<Parser>,
        block: Block,
        end: u64,
    },
    Rows {
        feed: FileFeed,
        /// The rows of the batch given last.
        numbers: Vec<u64>,
        /// Where they began, and where what comes next does.
        ends: (u64, u64),
    },
}

impl Reader {
    fn open(scanner: &KeyScanner<'_>, range: &FileRange) -> Result<Self> {
        let source = scanner.files[range.file].clone();
        let shape = scanner.key.shape.clone();
        let Format::Delimited(dialect) = scanner.format else {
            let reading = Reading::alone(shape, scanner.record_bytes_max);
            let feed = FileFeed::open(source, range.file, range.start..range.end, &reading)?;
            let ends = (range.start, range.start);
            return Ok(Self::Rows { feed, numbers: Vec::new(), ends });
        };
        let parser = Box::new(Parser::new(dialect.clone(), shape));
        let (dialect, block) = (dialect.clone(), Block::default());
        let most = scanner.record_bytes_max;
        let feed = match source.is_seekable() {
            true => StreamFeed::of_range(source, range, dialect, most)?,
            false => StreamFeed::open_at(source, range.file, dialect, most, range.start)?,
        };
        Ok(Self::Stream { feed: Box::new(feed), parser, block, end: range.end })
    }

    /// The next keys, typed; those that only the destination understands are left out.
    fn next(&mut self) -> Result<Option<ArrayRef>> {
        match self {
            Self::Stream { feed, parser, block, end } => {
                if feed.offset() >= *end || !feed.next(block)? {
                    *end = (*end).min(feed.offset());
                    return Ok(None);
                }
                feed.keep_before(*end, block)?;
                Ok(Some(parser.parse(block).batch.column(0).clone()))
            }
            Self::Rows { feed, numbers, ends } => {
                let Fed::Rows(rows) = feed.next(Lane::Binary)? else { return Ok(None) };
                // Those that can't be loaded have no keys; they stand in the range all the same.
                let last =
                    rows.numbers.iter().chain(rows.faults.iter().map(|fault| &fault.row)).max();
                *ends = (ends.1, last.map_or(ends.1, |last| last + 1));
                *numbers = rows.numbers;
                Ok(Some(rows.batch.column(0).clone()))
            }
        }
    }

    /// Where a row of the keys last given begins.
    fn place(&mut self, row: usize) -> u64 {
        match self {
            Self::Stream { parser, block, .. } => {
                let range = parser.locate(block, row).expect("the row was just parsed");
                block.offset + range.start as u64
            }
            Self::Rows { numbers, .. } => numbers[row],
        }
    }

    fn end(&self) -> u64 {
        match self {
            Self::Stream { end, .. } => *end,
            Self::Rows { ends, .. } => ends.1,
        }
    }

    /// A row's place in the words of a message.
    fn words(&mut self, source: &SourceFile, row: usize) -> String {
        let place = self.place(row);
        match self {
            Self::Stream { .. } if source.is_seekable() => match line_at(source, place) {
                Some(line) => format!("line {line}"),
                None => format!("byte {place}"),
            },
            Self::Stream { block, .. } => {
                let before = block.lines_between(0, (place - block.offset) as usize);
                let line = block.first_line.unwrap_or(1) + before;
                format!("line {line}")
            }
            Self::Rows { .. } => format!("row {}", place + 1),
        }
    }
}
