//! Rewrites messy text in a form that the column parsers accept.
//!
//! Records are walked, and their decoded values are written one after the other. Separators are known only
//! by position, and NULL is a byte that no text contains, so no byte of a value has a special meaning. The
//! position of each row in the block is kept, so that messages quote the text as it was read.

use std::ops::Range;

use super::Counts;
use super::block::Block;
use super::dialect::{Dialect, Family, Ragged};
use super::fixed;
use super::index::{FieldIndex, OFFSET};
use super::json::{JsonFields, LineReader};
use super::rows::{Fault, FaultReason, is_blank, text_fault};
use super::text::{self, Decoded};
use super::types::ParseShape;
use super::walk::{Found, Walker};
use crate::constants::BLOCK_PADDING;

/// NULL; a value is UTF-8, where this byte has no place.
const NULL: u8 = 0xff;

/// The rows of a block in canonical form.
#[derive(Debug)]
pub struct Canonical {
    pub block: Block,
    pub index: FieldIndex,
    /// How the block is written.
    pub dialect: Dialect,
    /// Where each row's record stood in the text that was read, line end included.
    pub origins: Vec<Range<usize>>,
    text: Vec<u8>,
}

/// A record on its way to a row.
struct Record<'a> {
    /// The text that its fields stand in.
    text: &'a [u8],
    range: Range<usize>,
    dialect: &'a Dialect,
}

impl Default for Canonical {
    fn default() -> Self {
        let dialect = Dialect { null: vec![NULL], trailing_delimiter: false, ..Dialect::tbl() };
        Self {
            block: Block::default(),
            index: FieldIndex::default(),
            dialect,
            origins: Vec::new(),
            text: Vec::new(),
        }
    }
}

impl Canonical {
    /// Writes the rows of a block; records that can't be rows are appended to `faults`.
    pub fn write(
        &mut self,
        block: &Block,
        dialect: &Dialect,
        shape: &ParseShape,
        text_is_clean: bool,
        faults: &mut Vec<Fault>,
    ) -> Counts {
        let mut counts = Counts::default();
        let is_loaded = shape.loaded_fields(block.file);
        self.begin();
        let mut walker = Walker::new(dialect);
        let text = block.text();
        let mut from = 0;
        while from < text.len() {
            let (found, end) = walker.next(text, from, true).expect("nothing follows the text");
            let range = from..end;
            from = end;
            let fault = match found {
                Found::Comment => {
                    counts.comments += 1;
                    continue;
                }
                _ if is_blank(&text[range.clone()], walker.fields.len(), shape) => {
                    counts.blank += 1;
                    continue;
                }
                found => {
                    let before = self.row_start();
                    let fault = text_fault(&text[range.clone()], text_is_clean).or(match found {
                        Found::Fault(reason) => Some(reason),
                        _ => {
                            let record = Record { text, range: range.clone(), dialect };
                            self.row(record, &mut walker.fields, &is_loaded, &mut counts).err()
                        }
                    });
                    if fault.is_some() {
                        self.take_back(before);
                    }
                    fault
                }
            };
            match fault {
                Some(reason) => faults.push(Fault { range, reason }),
                None => self.origins.push(range),
            }
        }
        self.finish();
        counts
    }

    /// Nothing is written of the block yet.
    fn begin(&mut self) {
        self.text.clear();
        self.origins.clear();
        self.index.separators.clear();
        // A byte stands before the first field, as between any two.
        self.index.separators.push(BLOCK_PADDING as u32 - 1);
    }

    /// Where the next row begins: its text and its first separator.
    fn row_start(&self) -> (usize, usize) {
        (self.text.len(), self.index.separators.len())
    }

    /// Takes back what was written since.
    fn take_back(&mut self, (text, separators): (usize, usize)) {
        self.text.truncate(text);
        self.index.separators.truncate(separators);
    }

    /// What was written becomes the block.
    fn finish(&mut self) {
        self.index.line_ends = self.origins.len();
        let len = self.text.len();
        self.block.space(len)[..len].copy_from_slice(&self.text);
        self.block.set_len(len);
    }

    /// Writes the rows of a block of JSON lines; those that can't be rows are appended to `faults`.
    pub fn write_json(
        &mut self,
        block: &Block,
        json: &JsonFields,
        shape: &ParseShape,
        text_is_clean: bool,
        faults: &mut Vec<Fault>,
    ) -> Counts {
        let is_loaded = shape.loaded_fields(block.file);
        let reader = LineReader::new(json);
        let mut values = Vec::new();
        self.write_lines(block, text_is_clean, faults, |canonical, line| {
            canonical.json_row(line, &reader, shape, &is_loaded, &mut values)
        })
    }

    /// Writes the rows of a block of fixed-width text; those that can't be rows are appended to `faults`.
    pub fn write_fixed(
        &mut self,
        block: &Block,
        dialect: &Dialect,
        shape: &ParseShape,
        text_is_clean: bool,
        faults: &mut Vec<Fault>,
    ) -> Counts {
        let is_loaded = shape.loaded_fields(block.file);
        let mut values = Vec::new();
        self.write_lines(block, text_is_clean, faults, |canonical, line| {
            let line = std::str::from_utf8(line).expect("it was checked");
            fixed::fields(line.trim_end_matches(['\r', '\n']), dialect, &mut values)?;
            for (value, is_loaded) in values.iter().zip(&is_loaded) {
                match value {
                    Some(value) if *is_loaded => {
                        canonical.text.extend_from_slice(value.as_bytes());
                    }
                    _ => canonical.text.push(NULL),
                }
                canonical.end_field();
            }
            Ok(())
        })
    }

    /// Writes a row for each line of a block that is not blank; `row` writes one, which is UTF-8.
    fn write_lines<'a>(
        &mut self,
        block: &'a Block,
        text_is_clean: bool,
        faults: &mut Vec<Fault>,
        mut row: impl FnMut(&mut Self, &'a [u8]) -> Result<(), FaultReason>,
    ) -> Counts {
        let mut counts = Counts::default();
        self.begin();
        let text = block.text();
        let mut from = 0;
        while from < text.len() {
            let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at + 1);
            let range = from..end;
            from = end;
            let line = &text[range.clone()];
            if line.trim_ascii().is_empty() {
                counts.blank += 1;
                continue;
            }
            let before = self.row_start();
            let written = match text_fault(line, text_is_clean) {
                Some(reason) => Err(reason),
                None => row(self, line),
            };
            match written {
                Ok(()) => self.origins.push(range),
                Err(reason) => {
                    self.take_back(before);
                    faults.push(Fault { range, reason });
                }
            }
        }
        self.finish();
        counts
    }

    /// Ends a field of the row that is written.
    fn end_field(&mut self) {
        let end = BLOCK_PADDING + self.text.len();
        assert!(end < OFFSET as usize, "a block is under 1 GiB");
        self.index.separators.push(end as u32);
        self.text.push(b'\n');
    }

    /// Writes the row of a line that is UTF-8.
    fn json_row<'a>(
        &mut self,
        line: &'a [u8],
        reader: &LineReader<'_>,
        shape: &ParseShape,
        is_loaded: &[bool],
        values: &mut Vec<Option<&'a str>>,
    ) -> Result<(), FaultReason> {
        let wrong = |fault| FaultReason::Json(Box::new(fault));
        let line = std::str::from_utf8(line).expect("it was checked");
        reader.read(line, values).map_err(wrong)?;
        for (field, is_loaded) in is_loaded.iter().enumerate() {
            if *is_loaded {
                let key = &shape.field_names[field];
                let is_value =
                    reader.write(field, key, values[field], &mut self.text).map_err(wrong)?;
                if !is_value {
                    self.text.push(NULL);
                }
            }
            self.end_field();
        }
        Ok(())
    }

    /// Writes one row, or says why its record can't be one.
    fn row(
        &mut self,
        record: Record<'_>,
        fields: &mut Vec<Range<usize>>,
        is_loaded: &[bool],
        counts: &mut Counts,
    ) -> Result<(), FaultReason> {
        let Record { text, range, dialect } = record;
        let wanted = is_loaded.len();
        let found = fields.len();
        if dialect.trailing_delimiter {
            match fields.pop() {
                // More than it should have, or nothing after the last delimiter.
                Some(last) if found > wanted + 1 || last.is_empty() => {}
                Some(_) if found == wanted + 1 && dialect.ragged != Ragged::Cut => {
                    return Err(FaultReason::ExtraField);
                }
                // The last field lacks the delimiter that ends it.
                Some(last) => fields.push(last),
                None => {}
            }
        }
        let is_short = fields.len() < wanted || dialect.trailing_delimiter && found <= wanted;
        match (fields.len() > wanted, is_short, dialect.ragged) {
            (true, _, Ragged::Cut) => {
                fields.truncate(wanted);
                counts.cut += 1;
            }
            (true, ..) => return Err(FaultReason::ExtraField),
            (_, true, Ragged::Pad) => counts.padded += 1,
            (_, true, _) => {
                let is_mark = text[range].trim_ascii_end() == b"\\.";
                return Err(match dialect.family == Family::Text && is_mark {
                    true => FaultReason::EndMark,
                    false => FaultReason::MissingField(found.min(wanted - 1)),
                });
            }
            (false, false, _) => {}
        }
        for (number, is_loaded) in is_loaded.iter().enumerate() {
            if *is_loaded {
                let field = fields.get(number).map(|field| &text[field.clone()]);
                self.field(field, dialect)?;
            }
            let end = BLOCK_PADDING + self.text.len();
            assert!(end < OFFSET as usize, "a block is under 1 GiB");
            self.index.separators.push(end as u32);
            self.text.push(b'\n');
        }
        Ok(())
    }

    /// Writes a field that is loaded; none where the record lacks it.
    fn field(&mut self, raw: Option<&[u8]>, dialect: &Dialect) -> Result<(), FaultReason> {
        let decoded = match raw {
            None => Decoded::Null,
            Some(raw) => text::value(raw, dialect, &mut self.text),
        };
        match decoded {
            Decoded::Value => Ok(()),
            Decoded::Null => {
                self.text.push(NULL);
                Ok(())
            }
            Decoded::NotText => Err(FaultReason::NotText),
            Decoded::EndMark => Err(FaultReason::EndMark),
        }
    }
}
