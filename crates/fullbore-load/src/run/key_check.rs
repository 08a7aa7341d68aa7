//! Checks that rows are within the key range of their piece's partition.
//!
//! The CHECK of the piece's table would refuse other rows as well, but would not name file and line.
//! Non-canonical rows are checked only by the destination.

use std::sync::Arc;

use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_read::error::{Error, Result};
use fullbore_read::lines::line_at;

use super::source_row::SourceRow;
use crate::plan::keys::scan::null_key;
use crate::plan::keys::{Key, KeyColumn, each_key};
use crate::plan::{Format, KeyLimits, PieceInput, Plan};

/// The check of one table's keys; each parser thread has its own.
pub struct KeyCheck {
    table: usize,
    key: KeyColumn,
    /// Reads nothing but the key.
    parser: Parser,
}

impl KeyCheck {
    /// `None` for sources that aren't text: all their keys were read by the planner.
    pub fn new(plan: &Plan, table: usize, limits: &KeyLimits) -> Result<Option<Self>> {
        let found = &plan.tables[table];
        let Format::Delimited(dialect) = &found.format else { return Ok(None) };
        let name = &found.shape.columns[limits.column].name;
        let key = KeyColumn::new(&found.shape, name)?;
        let parser = Parser::new(dialect.clone(), key.shape.clone());
        Ok(Some(Self { table, key, parser }))
    }

    /// Checks a block by reading its keys once more: for rows that go as text.
    pub fn check_block(&mut self, plan: &Plan, limits: &KeyLimits, block: &Block) -> Result<()> {
        let batch = self.parser.parse(block).batch;
        match first_outside(batch.column(0), limits) {
            Some((row, key)) => Err(self.refusal(plan, block, row, key)),
            None => Ok(()),
        }
    }

    /// Checks the keys of a parsed block; only where one is outside is the block read again.
    pub fn check_keys(
        &mut self,
        plan: &Plan,
        limits: &KeyLimits,
        block: &Block,
        keys: &dyn arrow_array::Array,
    ) -> Result<()> {
        if first_outside(keys, limits).is_none() {
            return Ok(());
        }
        self.check_block(plan, limits, block)
    }

    fn refusal(&mut self, plan: &Plan, block: &Block, row: usize, key: Option<Key>) -> Error {
        let table = &plan.tables[self.table];
        let source = &table.files[block.file];
        let place = self.parser.locate(block, row).expect("the row was just parsed");
        let record = SourceRow::of(block, place);
        let line = match source.is_seekable() {
            true => line_at(source, record.offset),
            false => Some(record.line),
        };
        let words = line.map_or(format!("byte {}", record.offset), |line| format!("line {line}"));
        let Some(key) = key else { return null_key(source, &self.key.name, &words) };
        let its = self.piece_at(plan, |input| holds(input, block.file, record.offset));
        let other = self.piece_of(plan, key);
        Error::Source {
            path: source.path.clone(),
            message: format!(
                "{words}: the key ranges overlap: {} is {}, but this part of the file holds the \
                 keys {its}; {other}",
                self.key.name,
                self.key.text(key),
            ),
            hint: Some(
                "sort the files by the key, read all keys first with --scan-keys, or load with \
                 --publish replace or append"
                    .into(),
            ),
        }
    }

    fn piece_at(&self, plan: &Plan, is_it: impl Fn(&PieceInput) -> bool) -> String {
        let mut pieces = plan.pieces.iter().filter(|piece| piece.table == self.table);
        let found = pieces.find(|piece| is_it(&piece.input)).and_then(|p| p.bounds.as_ref());
        found.map_or("of another piece".into(), |b| format!("from {} to {}", b.lower, b.upper))
    }

    /// The piece that a key belongs to, in words.
    fn piece_of(&self, plan: &Plan, key: Key) -> String {
        let pieces = plan.pieces.iter().filter(|piece| piece.table == self.table);
        for piece in pieces {
            let Some(bounds) = &piece.bounds else { continue };
            if !is_inside(&bounds.keys, key) {
                continue;
            }
            let file = match &piece.input {
                PieceInput::Ranges(ranges) | PieceInput::Rows(ranges) => ranges[0].file,
                PieceInput::Stream { file } => *file,
            };
            let path = plan.tables[self.table].files[file].path.display();
            return format!("those from {} to {} are in {path}", bounds.lower, bounds.upper);
        }
        "no other piece holds it".into()
    }
}

fn holds(input: &PieceInput, file: usize, place: u64) -> bool {
    match input {
        PieceInput::Ranges(ranges) | PieceInput::Rows(ranges) => ranges
            .iter()
            .any(|range| range.file == file && (range.start..range.end).contains(&place)),
        PieceInput::Stream { .. } => false,
    }
}

fn is_inside(limits: &KeyLimits, key: Key) -> bool {
    limits.lower.is_none_or(|lower| lower <= key) && limits.upper.is_none_or(|upper| key < upper)
}

/// The first row whose key is NULL or outside the limits.
fn first_outside(
    keys: &dyn arrow_array::Array,
    limits: &KeyLimits,
) -> Option<(usize, Option<Key>)> {
    let lower = limits.lower.unwrap_or(Key::MIN);
    let upper = limits.upper.unwrap_or(Key::MAX);
    let mut found = None;
    each_key(keys, |row, key| {
        let outside = key.is_none_or(|key| key < lower || key >= upper);
        if outside {
            found = Some((row, key));
        }
        outside
    });
    found
}

/// A check that is made when its table's first block comes.
pub fn check_for<'a>(
    checks: &'a mut Vec<(usize, Option<KeyCheck>)>,
    plan: &Arc<Plan>,
    table: usize,
    limits: &KeyLimits,
) -> Result<Option<&'a mut KeyCheck>> {
    let at = match checks.iter().position(|(known, _)| *known == table) {
        Some(at) => at,
        None => {
            checks.push((table, KeyCheck::new(plan, table, limits)?));
            checks.len() - 1
        }
    };
    Ok(checks[at].1.as_mut())
}
