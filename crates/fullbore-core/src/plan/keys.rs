//! Key ranges of pieces that become partitions.
//!
//! The sources must be in the order of the key, over all files. Only the records at the cuts are
//! read: the first keys of the pieces and the very last one; every row is held to its range while
//! it is loaded. Cuts are moved on to a change of key, so that equal keys stay together.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use super::{FileRange, PieceInput, PlannedPiece};
use crate::error::{Error, Result};
use crate::parse::Parser;
use crate::parse::block::Block;
use crate::parse::dialect::Dialect;
use crate::parse::types::{FieldType, ParseColumn, ParseShape};
use crate::source::SourceFile;
use crate::source::boundary::last_record_end;

/// Bytes read around a cut.
const LOOK_BYTES: usize = 64 * 1024;

/// A key: how it compares, and how it is written in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    order: i128,
    pub text: String,
}

/// Where a piece's keys begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub first: Key,
    /// The next piece's first key, or none for the last piece, which ends with `last`.
    pub next: Option<Key>,
    pub last: Option<Key>,
}

/// Reads keys at places of files.
pub struct KeyReader {
    parser: Parser,
    dialect: Dialect,
    column: String,
}

impl KeyReader {
    /// Refuses keys whose order is not known here.
    pub fn new(dialect: &Dialect, shape: &ParseShape, column: &str) -> Result<Self> {
        let Some(key) = shape.columns.iter().find(|candidate| candidate.name == column) else {
            return Err(Error::usage(format!(
                "the key {column:?} is not among the loaded columns"
            )));
        };
        let ordered = matches!(
            key.field_type,
            FieldType::Int16
                | FieldType::Int32
                | FieldType::Int64
                | FieldType::Date
                | FieldType::Timestamp
                | FieldType::TimestampTz { .. }
                | FieldType::Decimal { .. }
        );
        if !ordered {
            return Err(Error::usage_with_hint(
                format!("{column:?} is not of a type whose ranges can be found in the files"),
                "partition by a number, date or timestamp, or load with --publish append",
            ));
        }
        // The key once typed for its order, once as text for its literal.
        let columns = vec![
            key.clone(),
            ParseColumn { name: "text".into(), field: key.field, field_type: FieldType::text() },
        ];
        let shape = ParseShape { columns, ..shape.clone() };
        Ok(Self {
            parser: Parser::new(dialect.clone(), Arc::new(shape)),
            dialect: dialect.clone(),
            column: column.to_owned(),
        })
    }

    /// The key ranges of pieces in the order of their files; cuts are moved in `pieces`.
    pub fn ranges(
        &mut self,
        files: &[Arc<SourceFile>],
        pieces: &mut Vec<PlannedPiece>,
    ) -> Result<Vec<KeyRange>> {
        self.move_cuts(files, pieces)?;
        let mut firsts: Vec<Key> = Vec::new();
        for piece in pieces.iter() {
            let range = &ranges_of(piece)?[0];
            firsts.push(self.first_key(&files[range.file], range.start, range.end)?);
        }
        let Some(last_piece) = pieces.last() else { return Ok(Vec::new()) };
        let ranges = ranges_of(last_piece)?;
        let range = &ranges[ranges.len() - 1];
        let last = self.last_key(&files[range.file], range)?;
        for at in 1..firsts.len() {
            if firsts[at].order <= firsts[at - 1].order {
                return Err(self.out_of_order(files, &pieces[at - 1], &pieces[at], &firsts, at));
            }
        }
        if last.order < firsts[firsts.len() - 1].order {
            return Err(Error::usage_with_hint(
                format!(
                    "the last key, {}, is below the last piece's first, {}",
                    last.text,
                    firsts[firsts.len() - 1].text
                ),
                "sort the files by the key, or load with --publish replace or append",
            ));
        }
        Ok(firsts
            .iter()
            .enumerate()
            .map(|(at, first)| KeyRange {
                first: first.clone(),
                next: firsts.get(at + 1).cloned(),
                last: (at + 1 == firsts.len()).then(|| last.clone()),
            })
            .collect())
    }

    fn out_of_order(
        &self,
        files: &[Arc<SourceFile>],
        before: &PlannedPiece,
        after: &PlannedPiece,
        firsts: &[Key],
        at: usize,
    ) -> Error {
        let place = |piece: &PlannedPiece| match &piece.input {
            PieceInput::Ranges(ranges) => {
                format!("{} at byte {}", files[ranges[0].file].path.display(), ranges[0].start)
            }
            _ => "a piece".into(),
        };
        Error::usage_with_hint(
            format!(
                "the key ranges overlap: {} begins with {} {}, and {} after it with {}",
                place(before),
                self.column,
                firsts[at - 1].text,
                place(after),
                firsts[at].text
            ),
            "give the files in the order of the key and sorted by it, or load with --publish \
             replace or append",
        )
    }

    /// Moves each cut within a file to where the key changes; pieces that become empty go.
    fn move_cuts(
        &mut self,
        files: &[Arc<SourceFile>],
        pieces: &mut Vec<PlannedPiece>,
    ) -> Result<()> {
        let mut at = 1;
        while at < pieces.len() {
            let before = ranges_of(&pieces[at - 1])?.last().cloned();
            let after = ranges_of(&pieces[at])?.first().cloned();
            let (Some(before), Some(after)) = (before, after) else { break };
            if before.file != after.file {
                at += 1;
                continue;
            }
            let cut = self.next_change(&files[after.file], after.start, after.end)?;
            set_end(&mut pieces[at - 1], cut);
            if cut == after.end {
                // One key fills the whole piece: it belongs to the one before.
                pieces.remove(at);
                continue;
            }
            set_start(&mut pieces[at], cut);
            at += 1;
        }
        Ok(())
    }

    /// The first place after `start` at which another key begins; `end` where none does.
    fn next_change(&mut self, source: &SourceFile, start: u64, end: u64) -> Result<u64> {
        let file = source.open()?;
        let mut at = start;
        let mut known: Option<i128> = None;
        while at < end {
            let block = self.read(&file, source, at, end)?;
            let keys = self.keys(&block, source)?;
            for (row, key) in keys.iter().enumerate() {
                if known.is_some_and(|known| known != key.order) {
                    let range = self.parser.locate(&block, row).expect("the row was just parsed");
                    return Ok(at + range.start as u64);
                }
                known = Some(key.order);
            }
            at += block.len() as u64;
        }
        Ok(end)
    }

    fn first_key(&mut self, source: &SourceFile, start: u64, end: u64) -> Result<Key> {
        let file = source.open()?;
        let block = self.read(&file, source, start, end)?;
        let keys = self.keys(&block, source)?;
        keys.into_iter().next().ok_or_else(|| self.no_key(source, start))
    }

    /// The last key of a range, found by reading it in ever larger parts from its end.
    fn last_key(&mut self, source: &SourceFile, range: &FileRange) -> Result<Key> {
        // Quotes make it unsafe to begin anywhere: then the range is read from its beginning.
        let file = source.open()?;
        let mut at = range.start;
        if self.dialect.family != crate::parse::dialect::Family::Csv {
            let from = range.end.saturating_sub(LOOK_BYTES as u64).max(range.start);
            if from > range.start {
                let state = crate::source::boundary::QuoteState::default();
                let next =
                    crate::source::split::next_record(&file, source, from, state, &self.dialect)?;
                at = if next < range.end { next } else { range.start };
            }
        }
        let mut last = None;
        while at < range.end {
            let block = self.read(&file, source, at, range.end)?;
            last = self.keys(&block, source)?.into_iter().next_back().or(last);
            at += block.len() as u64;
        }
        last.ok_or_else(|| self.no_key(source, range.start))
    }

    fn no_key(&self, source: &SourceFile, at: u64) -> Error {
        Error::Source {
            path: source.path.clone(),
            message: format!("no row with a {} can be read from byte {at} on", self.column),
            hint: Some("NULL keys can't become partitions; load with --publish append".into()),
        }
    }

    /// Whole records from a place on, the last line end supplied where it is missing.
    fn read(&self, file: &File, source: &SourceFile, at: u64, end: u64) -> Result<Block> {
        let mut block = Block::default();
        let mut want = LOOK_BYTES as u64;
        loop {
            let bytes = want.min(end - at) as usize;
            file.read_exact_at(block.space(bytes), at)
                .map_err(|error| Error::Read { path: source.path.clone(), source: error })?;
            block.set_len(bytes);
            if at + bytes as u64 == end {
                return Ok(block);
            }
            if let Some(cut) = last_record_end(block.text(), &self.dialect) {
                block.set_len(cut);
                return Ok(block);
            }
            want *= 2;
        }
    }

    fn keys(&mut self, block: &Block, source: &SourceFile) -> Result<Vec<Key>> {
        let mut whole = Block::of(block.text());
        whole.end_last_line(b"\n");
        let batch = self.parser.parse(&whole).batch;
        let orders = orders(&batch);
        let texts = batch.column(1).as_string::<i32>();
        if orders.iter().any(Option::is_none) {
            return Err(self.no_key(source, block.offset));
        }
        Ok(orders
            .into_iter()
            .flatten()
            .zip(texts.iter().flatten())
            .map(|(order, text)| Key { order, text: text.to_owned() })
            .collect())
    }
}

fn ranges_of(piece: &PlannedPiece) -> Result<&Vec<FileRange>> {
    match &piece.input {
        PieceInput::Ranges(ranges) => Ok(ranges),
        PieceInput::Stream { .. } | PieceInput::RowGroups { .. } => Err(Error::usage_with_hint(
            "pieces of compressed files, pipes and Parquet can't be cut by key yet",
            "unpack the files, or load with --publish replace or append",
        )),
    }
}

fn set_end(piece: &mut PlannedPiece, end: u64) {
    if let PieceInput::Ranges(ranges) = &mut piece.input
        && let Some(last) = ranges.last_mut()
    {
        piece.bytes = piece.bytes + end - last.end;
        last.end = end;
    }
}

fn set_start(piece: &mut PlannedPiece, start: u64) {
    if let PieceInput::Ranges(ranges) = &mut piece.input
        && let Some(first) = ranges.first_mut()
    {
        piece.bytes = piece.bytes + first.start - start;
        first.start = start;
    }
}

/// The first column's values by their order; NULLs are `None`.
fn orders(batch: &RecordBatch) -> Vec<Option<i128>> {
    let column = batch.column(0);
    let take = |value: &dyn Fn(usize) -> i128| {
        (0..column.len()).map(|row| column.is_valid(row).then(|| value(row))).collect()
    };
    match column.data_type() {
        DataType::Int16 => take(&|row| i128::from(column.as_primitive::<Int16Type>().value(row))),
        DataType::Int32 => take(&|row| i128::from(column.as_primitive::<Int32Type>().value(row))),
        DataType::Int64 => take(&|row| i128::from(column.as_primitive::<Int64Type>().value(row))),
        DataType::Date32 => take(&|row| i128::from(column.as_primitive::<Date32Type>().value(row))),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            take(&|row| i128::from(column.as_primitive::<TimestampMicrosecondType>().value(row)))
        }
        DataType::Decimal64(..) => {
            take(&|row| i128::from(column.as_primitive::<Decimal64Type>().value(row)))
        }
        DataType::Decimal128(..) => take(&|row| column.as_primitive::<Decimal128Type>().value(row)),
        other => unreachable!("{other} was refused as a key"),
    }
}
