//! Parse: from a block of delimited text to a batch of typed columns.
//!
//! [`index`] finds where fields end, [`rows`] checks the number of fields of each record, and [`columns`]
//! turns each column into an array. [`walk`] and [`canonical`] handle messy text, which the index does not
//! support. A record becomes a row of the batch, a *fault* (it has no valid form), or a *non-canonical
//! row*, which the destination checks as text.

mod array;
pub mod block;
pub mod boundary;
pub mod calendar;
pub mod canonical;
pub mod columns;
pub mod constants;
pub mod dialect;
pub mod fixed;
pub mod floats;
pub mod guess;
pub mod index;
pub mod json;
pub mod numbers;
pub mod reference;
pub mod rows;
pub mod sql_types;
pub mod temporal;
pub mod text;
pub mod types;
pub mod walk;
pub mod wide;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use block::Block;
use canonical::Canonical;
use columns::{ColumnParser, Input, RowSet};
use dialect::{Dialect, Family, Ragged};
use guess::gives_back;
use index::{FieldIndex, OFFSET, SPECIAL};
use rows::{Fault, FaultReason, Rows};
use types::ParseShape;

/// How a table's rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Typed columns in the destination's own binary form.
    Binary,
    /// Every column as text, judged by the destination.
    Text,
}

/// A row that the destination must judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddRow {
    /// Where its record stands in the block's text, line end included.
    pub range: Range<usize>,
    /// Its columns as one line of COPY's text format, line feed included.
    pub copy_text: Vec<u8>,
}

/// What was not taken as it stood, without being a fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    /// Blank lines skipped.
    pub blank: u64,
    /// Comment lines skipped.
    pub comments: u64,
    /// Rows with missing fields, which were filled with NULL.
    pub padded: u64,
    /// Rows with extra fields, which were dropped.
    pub cut: u64,
    /// Rows left out by `where`.
    pub filtered: u64,
}

impl Counts {
    /// Whether all was taken as it stood.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.blank += other.blank;
        self.comments += other.comments;
        self.padded += other.padded;
        self.cut += other.cut;
        self.filtered += other.filtered;
    }
}

/// What became of a block's records.
#[derive(Debug)]
pub struct Parsed {
    pub batch: RecordBatch,
    pub faults: Vec<Fault>,
    pub odd: Vec<OddRow>,
    /// Lines in the block, those that end within fields included.
    pub lines: u64,
    pub counts: Counts,
}

/// Parses blocks of one table; its memory is kept from block to block.
pub struct Parser {
    dialect: Dialect,
    shape: Arc<ParseShape>,
    schema: SchemaRef,
    index: FieldIndex,
    rows: Rows,
    /// The block that was parsed last, where it was written anew.
    canonical: Option<Box<Canonical>>,
    is_canonical: bool,
    odd: RowSet,
    columns: ColumnParser,
}

impl Parser {
    pub fn new(dialect: Dialect, shape: Arc<ParseShape>) -> Self {
        Self {
            dialect,
            schema: shape.schema(),
            shape,
            index: FieldIndex::default(),
            rows: Rows::default(),
            canonical: None,
            is_canonical: false,
            odd: RowSet::default(),
            columns: ColumnParser::default(),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Parses a block of whole records, the last line end included.
    ///
    /// # Panics
    /// If the block is 1 GiB or larger.
    pub fn parse(&mut self, block: &Block) -> Parsed {
        let mut faults = Vec::new();
        let (counts, lines) = self.lay_out(block, &mut faults);
        self.odd.reset(self.rows.count);
        let input = match &self.canonical {
            Some(canonical) if self.is_canonical => Input {
                block: &canonical.block,
                index: &canonical.index,
                rows: &self.rows,
                dialect: &canonical.dialect,
            },
            _ => Input { block, index: &self.index, rows: &self.rows, dialect: &self.dialect },
        };
        let arrays = self
            .shape
            .columns
            .iter()
            .map(|column| {
                let field = self.shape.place(block.file, column.field);
                if let Some(guess) = &column.guess {
                    let is_parsed = *guess == column.field_type;
                    self.columns.set_unfit_apart(&input, field, guess, is_parsed, &mut self.odd);
                }
                self.columns.parse(&input, field, &column.field_type, &mut self.odd)
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.count));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("columns are of the schema's types and of one length");
        if self.odd.is_empty() {
            return Parsed { batch, faults, odd: Vec::new(), lines, counts };
        }
        let odd = self.take_odd_rows(block, &mut faults);
        let kept: BooleanBuffer = (0..self.rows.count).map(|row| !self.odd.contains(row)).collect();
        let batch =
            arrow_select::filter::filter_record_batch(&batch, &BooleanArray::new(kept, None))
                .expect("the filter is as long as the batch");
        Parsed { batch, faults, odd, lines, counts }
    }

    /// Finds the rows of a block and their fields; what was passed over, and the lines there are.
    fn lay_out(&mut self, block: &Block, faults: &mut Vec<Fault>) -> (Counts, u64) {
        let (dialect, shape) = (&self.dialect, &*self.shape);
        let is_text = |text: &[u8]| simdutf8::basic::from_utf8(text).is_ok();
        let mut is_clean = None;
        self.is_canonical =
            block.is_messy || matches!(dialect.family, Family::Json | Family::Fixed);
        if !self.is_canonical {
            self.index.build(block, dialect);
            let clean = !self.index.has_nul && is_text(block.text());
            if !self.rows.build_even(block, &self.index, dialect, shape, clean) {
                self.is_canonical = dialect.ragged != Ragged::Reject;
                if !self.is_canonical {
                    self.rows.build_uneven(block, &self.index, dialect, shape, clean, faults);
                }
            }
            is_clean = Some(clean);
        }
        if !self.is_canonical {
            if !dialect.more_nulls.is_empty() {
                let nulls = &dialect.more_nulls;
                self.rows.mark_nulls(block.padded(), &mut self.index, shape.fields, nulls);
            }
            let counts = Counts { blank: self.rows.blank, ..Counts::default() };
            return (counts, self.index.line_feeds as u64);
        }
        let clean = is_clean
            .unwrap_or_else(|| memchr::memchr(0, block.text()).is_none() && is_text(block.text()));
        let canonical = self.canonical.get_or_insert_default();
        let counts = match &shape.json {
            Some(json) => canonical.write_json(block, json, shape, clean, faults),
            None if dialect.family == Family::Fixed => {
                canonical.write_fixed(block, dialect, shape, clean, faults)
            }
            None => canonical.write(block, dialect, shape, clean, faults),
        };
        self.rows = Rows::even(shape.fields, canonical.origins.len());
        (counts, block.lines())
    }

    /// Where the rows of the batch that this block gives stand in its text, line ends included.
    pub fn records(&mut self, block: &Block) -> Vec<Range<usize>> {
        self.parse(block);
        self.parsed_records(block)
    }

    /// The same of the block that was parsed last.
    pub fn parsed_records(&self, block: &Block) -> Vec<Range<usize>> {
        let rows = (0..self.rows.count).filter(|row| !self.odd.contains(*row));
        rows.map(|row| self.with_line_end(block, row)).collect()
    }

    /// Where the `nth` row of the batch that this block gives stands in its text, line end included.
    pub fn locate(&mut self, block: &Block, nth: usize) -> Option<Range<usize>> {
        self.parse(block);
        let row = (0..self.rows.count).filter(|row| !self.odd.contains(*row)).nth(nth)?;
        Some(self.with_line_end(block, row))
    }

    /// On which line of the block's text each row of the batch begins that was parsed last, from 0.
    pub fn lines_of_rows(&self, block: &Block) -> Vec<u64> {
        let (mut at, mut line) = (0, 0);
        let rows = (0..self.rows.count).filter(|row| !self.odd.contains(*row));
        rows.map(|row| {
            let start = self.with_line_end(block, row).start;
            line += block.lines_between(at, start);
            at = start;
            line
        })
        .collect()
    }

    fn with_line_end(&self, block: &Block, row: usize) -> Range<usize> {
        if let Some(canonical) = self.canonical.as_ref().filter(|_| self.is_canonical) {
            return canonical.origins[row].clone();
        }
        let record = self.rows.record(&self.index, row);
        let line_feed = memchr::memchr(b'\n', &block.text()[record.end..]);
        record.start..line_feed.map_or(block.len(), |at| record.end + at + 1)
    }

    /// Takes the odd rows out as text. Those that are no text at all are faults.
    fn take_odd_rows(&self, block: &Block, faults: &mut Vec<Fault>) -> Vec<OddRow> {
        let (source, index, dialect) = match &self.canonical {
            Some(canonical) if self.is_canonical => {
                (&canonical.block, &canonical.index, &canonical.dialect)
            }
            _ => (block, &self.index, &self.dialect),
        };
        let separators = self.rows.separators(index);
        let padded = source.padded();
        let mut decoded = Vec::new();
        let mut taken = Vec::with_capacity(self.odd.len());
        'rows: for row in (0..self.rows.count).filter(|row| self.odd.contains(*row)) {
            let range = self.with_line_end(block, row);
            let mut line = Vec::new();
            for (place, column) in self.shape.columns.iter().enumerate() {
                if place > 0 {
                    line.push(b'\t');
                }
                let at = row * self.rows.stride + self.shape.place(block.file, column.field);
                let start = (separators[at] & OFFSET) as usize + 1;
                let end = (separators[at + 1] & OFFSET) as usize;
                let raw = &padded[start..end];
                decoded.clear();
                let is_special = separators[at + 1] & SPECIAL != 0;
                let seen = match is_special {
                    true => text::decode(raw, dialect, &mut decoded),
                    false if raw == dialect.null => text::Decoded::Null,
                    false => {
                        decoded.extend_from_slice(raw);
                        text::Decoded::Value
                    }
                };
                let unfit = column.guess.as_ref().filter(|_| seen == text::Decoded::Value);
                let reason = match seen {
                    _ if unfit.is_some_and(|guess| !gives_back(guess, &decoded)) => {
                        FaultReason::Unfit { column: place, value: decoded.clone() }
                    }
                    text::Decoded::Value => {
                        text::write_copy_text(&decoded, &mut line);
                        continue;
                    }
                    text::Decoded::Null => {
                        line.extend_from_slice(b"\\N");
                        continue;
                    }
                    text::Decoded::NotText => FaultReason::NotText,
                    text::Decoded::EndMark => FaultReason::EndMark,
                };
                faults.push(Fault { range, reason });
                continue 'rows;
            }
            line.push(b'\n');
            taken.push(OddRow { range, copy_text: line });
        }
        taken
    }
}
