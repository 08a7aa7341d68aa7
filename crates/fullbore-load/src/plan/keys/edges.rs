//! Reads only the keys at the cuts of text that is believed to be in the order of its key.
//!
//! Cuts move to the next change of key, so that equal keys stay together. Every row is checked against
//! its range during the load, so an unsorted file is refused then.

use std::sync::Arc;

use fullbore_parse::block::Block;
use fullbore_parse::boundary::QuoteState;
use fullbore_parse::dialect::{Dialect, Family};
use fullbore_parse::{OddRow, Parsed, Parser};
use fullbore_read::error::{Error, Result};
use fullbore_read::lines::line_at;
use fullbore_read::ranges::{Sizes, read_records};
use fullbore_read::split::next_record;
use fullbore_read::{FileRange, Opened, SourceFile};

use super::scan::{KeyScanner, null_key};
use super::{Key, KeyColumn, KeyStretch};
use crate::plan::format::Format;

/// Bytes read around a cut.
const LOOK_BYTES: usize = 64 * 1024;

/// An end of a range of keys.
enum End {
    First,
    Last,
}

/// Reads keys at places of files.
pub struct EdgeReader<'a> {
    files: &'a [Arc<SourceFile>],
    key: &'a KeyColumn,
    dialect: Dialect,
    sizes: Sizes,
    parser: Parser,
    block: Block,
    /// The ranges of the partitions don't come of the keys that are read here alone.
    ranges_are_given: bool,
}

impl<'a> EdgeReader<'a> {
    /// `None` for sources that are no text.
    pub fn new(scanner: &KeyScanner<'a>, ranges_are_given: bool) -> Option<Self> {
        let Format::Delimited(dialect) = scanner.format else { return None };
        Some(Self {
            files: scanner.files,
            key: scanner.key,
            dialect: dialect.clone(),
            sizes: Sizes { read: LOOK_BYTES, record_max: scanner.record_bytes_max },
            parser: Parser::new(dialect.clone(), scanner.key.shape.clone()),
            block: Block::default(),
            ranges_are_given,
        })
    }

    /// Moves each cut within a file to where the key changes; stretches that become empty go.
    pub fn move_cuts(&mut self, ranges: &mut Vec<FileRange>) -> Result<()> {
        let mut at = 1;
        while at < ranges.len() {
            let (before, after) = (&ranges[at - 1], &ranges[at]);
            if before.file != after.file || before.end != after.start {
                at += 1;
                continue;
            }
            let cut = self.next_change(after)?;
            ranges[at - 1].end = cut;
            if cut == ranges[at].end {
                // One key fills the whole stretch: it belongs to the one before.
                ranges.remove(at);
                continue;
            }
            ranges[at].start = cut;
            at += 1;
        }
        Ok(())
    }

    /// The stretches with their keys, if each file is sorted: from its first key to the last one
    /// before the next stretch's first.
    pub fn parts(&mut self, ranges: Vec<FileRange>) -> Result<Vec<KeyStretch>> {
        let mut parts: Vec<KeyStretch> = Vec::with_capacity(ranges.len());
        for (at, range) in ranges.iter().enumerate() {
            let first = self.first_key(range)?;
            if let Some(before) = parts.last_mut().filter(|part| part.range.file == range.file) {
                before.last = first - self.key.unit;
                if before.last < before.first {
                    return Err(self.out_of_order(before, first, range));
                }
            }
            let goes_on = ranges.get(at + 1).is_some_and(|next| next.file == range.file);
            let last = if goes_on { first } else { self.last_key(range)? };
            let bytes = range.end - range.start;
            let part = KeyStretch { range: range.clone(), bytes, first, last, is_exact: false };
            if last < first {
                return Err(self.out_of_order(&part, last, range));
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn out_of_order(&self, before: &KeyStretch, found: Key, range: &FileRange) -> Error {
        Error::Source {
            path: self.files[range.file].path.clone(),
            message: format!(
                "is not sorted by {}: at byte {} it has {}, after byte {} {}",
                self.key.name,
                before.range.start,
                self.key.text(before.first),
                range.start.max(before.range.start),
                self.key.text(found)
            ),
            hint: Some(
                "sort it by the key, read all keys first with --scan-keys, or load with --publish \
                 replace or append"
                    .into(),
            ),
        }
    }

    /// The first place at which another key begins; the end where none does.
    fn next_change(&mut self, range: &FileRange) -> Result<u64> {
        let source = self.files[range.file].clone();
        self.block.file = range.file;
        let file = source.open()?;
        let mut at = range.start;
        let mut known: Option<Key> = None;
        while at < range.end {
            let used = self.read(&file, &source, at, range.end)?;
            for (row, key) in self.keys(&source)?.into_iter().enumerate() {
                if known.is_some_and(|known| known != key) {
                    let place = self.parser.locate(&self.block, row).expect("just parsed");
                    return Ok(at + place.start as u64);
                }
                known = Some(key);
            }
            at += used;
        }
        Ok(range.end)
    }

    fn first_key(&mut self, range: &FileRange) -> Result<Key> {
        let source = self.files[range.file].clone();
        self.block.file = range.file;
        let file = source.open()?;
        let mut at = range.start;
        while at < range.end {
            let used = self.read(&file, &source, at, range.end)?;
            let parsed = self.parser.parse(&self.block);
            let keys = self.keys_of(&source, &parsed)?;
            if !parsed.odd.is_empty() {
                self.refuse_odd(&source, &parsed.odd, End::First)?;
            }
            if let Some(key) = keys.first() {
                return Ok(*key);
            }
            at += used;
        }
        Err(no_key(&source, self.key, range))
    }

    /// The last key of a range, found near its end where that is safe.
    fn last_key(&mut self, range: &FileRange) -> Result<Key> {
        let source = self.files[range.file].clone();
        self.block.file = range.file;
        let file = source.open()?;
        // Quotes make it unsafe to begin anywhere: then the range is read from its beginning.
        let near = range.end.saturating_sub(LOOK_BYTES as u64).max(range.start);
        let mut begin = range.start;
        let is_told = self.dialect.is_told_by_parity() && self.dialect.family != Family::Csv;
        if is_told && near > range.start {
            begin = next_record(&file, &source, near, QuoteState::default(), &self.dialect)?;
        }
        for from in [begin, range.start] {
            let (mut at, mut last) = (from, None);
            while at < range.end {
                let used = self.read(&file, &source, at, range.end)?;
                let parsed = self.parser.parse(&self.block);
                last = self.keys_of(&source, &parsed)?.last().copied().or(last);
                if at + used >= range.end && !parsed.odd.is_empty() {
                    self.refuse_odd(&source, &parsed.odd, End::Last)?;
                }
                at += used;
            }
            if let Some(last) = last {
                return Ok(last);
            }
        }
        Err(no_key(&source, self.key, range))
    }

    /// Reads whole records; the bytes of the file that they took.
    fn read(&mut self, file: &Opened, source: &SourceFile, at: u64, end: u64) -> Result<u64> {
        self.block.offset = at;
        read_records(file, source, &(at..end), &self.dialect, self.sizes, &mut self.block)
    }

    /// The keys of the block; a NULL is refused.
    fn keys(&mut self, source: &SourceFile) -> Result<Vec<Key>> {
        let parsed = self.parser.parse(&self.block);
        self.keys_of(source, &parsed)
    }

    fn keys_of(&mut self, source: &SourceFile, parsed: &Parsed) -> Result<Vec<Key>> {
        let mut keys = Vec::with_capacity(parsed.batch.num_rows());
        let mut null = None;
        self.key.each(parsed.batch.column(0), |row, key| {
            keys.extend(key);
            null = key.is_none().then_some(row);
            null.is_some()
        });
        let Some(row) = null else { return Ok(keys) };
        let place = self.parser.locate(&self.block, row).expect("just parsed");
        Err(null_key(source, &self.key.name, &self.words(source, place.start)))
    }

    /// Refuses a key at the end of a range that only the server can read: where the range ends is not
    /// known then.
    fn refuse_odd(&mut self, source: &SourceFile, odd: &[OddRow], end: End) -> Result<()> {
        if self.ranges_are_given {
            return Ok(());
        }
        let rows = self.parser.records(&self.block);
        let found = match end {
            End::First => {
                odd.first().filter(|odd| rows.first().is_none_or(|row| odd.range.start < row.start))
            }
            End::Last => {
                odd.last().filter(|odd| rows.last().is_none_or(|row| odd.range.start > row.start))
            }
        };
        let Some(found) = found else { return Ok(()) };
        Err(Error::Source {
            path: source.path.clone(),
            message: format!(
                "{}: {} has a form that only the server can read, so the range of the keys is \
                 unknown",
                self.words(source, found.range.start),
                self.key.name
            ),
            hint: Some(
                "write the key in canonical form, set the ranges with --partition-bounds, or load \
                 with --publish append or replace"
                    .into(),
            ),
        })
    }

    /// A place in the block, for people.
    fn words(&self, source: &SourceFile, place: usize) -> String {
        let place = self.block.offset + place as u64;
        match line_at(source, place) {
            Some(line) => format!("line {line}"),
            None => format!("byte {place}"),
        }
    }
}

/// The refusal of a stretch in which no key can be read.
pub fn no_key(source: &SourceFile, key: &KeyColumn, range: &FileRange) -> Error {
    Error::Source {
        path: source.path.clone(),
        message: format!("no {} can be read from byte {} on", key.name, range.start),
        hint: Some(
            "check --columns and how the key is written, or load with --publish append".into(),
        ),
    }
}
