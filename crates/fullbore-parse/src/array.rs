//! One-dimensional arrays in PostgreSQL's own notation: `{1,2,NULL,"a,b"}`.
//!
//! Elements are gathered as one more column of text and parsed by the same column passes, so that
//! an array's elements can have every type of a column. Nested arrays, bounds (`[2:3]=...`) and
//! spaces between elements are non-canonical: the server checks them.

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;

use super::block::Block;
use super::columns::{ColumnParser, Input, RowSet};
use super::dialect::Dialect;
use super::index::FieldIndex;
use super::rows::Rows;
use super::types::FieldType;
use crate::constants::BLOCK_PADDING;

/// Stands for a NULL element; no text contains it.
const NULL_ELEMENT: &[u8] = &[0];

/// Gathers the arrays of one column.
pub struct ListParser<'a> {
    item: &'a FieldType,
    /// Elements one after the other, each followed by a line feed.
    elements: Vec<u8>,
    /// The end of each element, as offsets into the padded block it will be.
    separators: Vec<u32>,
    offsets: Vec<i32>,
    valid: BooleanBufferBuilder,
}

impl<'a> ListParser<'a> {
    pub fn new(item: &'a FieldType, rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            item,
            elements: Vec::new(),
            separators: vec![BLOCK_PADDING as u32 - 1],
            offsets,
            valid: BooleanBufferBuilder::new(rows),
        }
    }

    pub fn push_null(&mut self) {
        self.end_row(false);
    }

    /// Takes one array; false, and nothing taken, where its notation is not the plain one.
    pub fn push(&mut self, field: &[u8]) -> bool {
        let (elements, separators) = (self.elements.len(), self.separators.len());
        if self.split(field).is_none() {
            self.elements.truncate(elements);
            self.separators.truncate(separators);
            return false;
        }
        self.end_row(true);
        true
    }

    fn end_row(&mut self, valid: bool) {
        self.offsets.push((self.separators.len() - 1) as i32);
        self.valid.append(valid);
    }

    fn end_element(&mut self) {
        self.separators.push((BLOCK_PADDING + self.elements.len()) as u32);
        self.elements.push(b'\n');
    }

    fn split(&mut self, field: &[u8]) -> Option<()> {
        let mut rest = field.strip_prefix(b"{")?.strip_suffix(b"}")?;
        if rest.is_empty() {
            return Some(());
        }
        loop {
            if let Some(quoted) = rest.strip_prefix(b"\"") {
                rest = self.quoted_element(quoted)?;
            } else {
                let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
                let element = &rest[..end];
                // The server takes a vertical tab for a blank, too.
                let plain = |b: &u8| {
                    !matches!(b, b'{' | b'}' | b'"' | b'\\' | 0x0b) && !b.is_ascii_whitespace()
                };
                if element.is_empty() || !element.iter().all(plain) {
                    return None;
                }
                let is_null = element.eq_ignore_ascii_case(b"null");
                self.elements.extend_from_slice(if is_null { NULL_ELEMENT } else { element });
                rest = &rest[end..];
            }
            self.end_element();
            match rest.split_first() {
                None => return Some(()),
                Some((b',', next)) => rest = next,
                Some(_) => return None,
            }
        }
    }

    /// Takes the element whose opening quote is gone already; what follows the closing one.
    fn quoted_element<'b>(&mut self, mut rest: &'b [u8]) -> Option<&'b [u8]> {
        loop {
            let at = memchr::memchr2(b'"', b'\\', rest)?;
            self.elements.extend_from_slice(&rest[..at]);
            if rest[at] == b'"' {
                return Some(&rest[at + 1..]);
            }
            self.elements.push(*rest.get(at + 1)?);
            rest = &rest[at + 2..];
        }
    }

    /// The arrays as one column; rows with an element that is not canonical are put into `odd`.
    pub fn finish(mut self, odd: &mut RowSet) -> ArrayRef {
        let dialect = Dialect { null: NULL_ELEMENT.to_vec(), ..Dialect::tbl() };
        let block = Block::of(&self.elements);
        let count = self.separators.len() - 1;
        let index = FieldIndex {
            separators: std::mem::take(&mut self.separators),
            line_ends: count,
            ..FieldIndex::default()
        };
        let rows = Rows::even(1, count);
        let input = Input { block: &block, index: &index, rows: &rows, dialect: &dialect };
        let mut odd_elements = RowSet::default();
        odd_elements.reset(count);
        let elements = ColumnParser::default().parse(&input, 0, self.item, &mut odd_elements);
        if !odd_elements.is_empty() {
            for (row, ends) in self.offsets.windows(2).enumerate() {
                if (ends[0]..ends[1]).any(|element| odd_elements.contains(element as usize)) {
                    odd.insert(row);
                }
            }
        }
        let field = Arc::new(Field::new("item", self.item.arrow(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let nulls = NullBuffer::new(self.valid.finish());
        Arc::new(ListArray::new(field, offsets, elements, Some(nulls)))
    }
}
