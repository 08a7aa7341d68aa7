//! Columns of values that vary in size: text, byte strings and arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use super::{ColumnParser, Input, Nulls, Raw, RowSet};
use crate::types::FieldType;
use crate::wide::{self, Texts};
use crate::{array, text};

fn start(input: &Input<'_>) -> Texts {
    // A guess from the average field; the vector grows where it was too small.
    Texts::with_capacity(input.block.len() / input.rows.stride.max(1) * 2, input.rows.count)
}

fn finish(column: Texts) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
    let rows = column.rows();
    let mut nulls = Nulls::default();
    for row in column.nulls {
        nulls.insert(row as usize, rows);
    }
    // SAFETY: each end is where the data ended when it was pushed.
    let ends = unsafe { OffsetBuffer::new_unchecked(ScalarBuffer::from(column.ends)) };
    (ends, Buffer::from_vec(column.data), nulls.finish(rows))
}

impl ColumnParser {
    /// Text of at most so many characters.
    pub(super) fn text(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        characters_max: Option<u32>,
    ) -> ArrayRef {
        let rows = input.rows.count;
        let fields = input.fields(field);
        // As many bytes are no more characters; of more bytes the characters must be counted.
        let bytes_max = characters_max.map_or(usize::MAX, |characters| characters as usize);
        let mut column = start(input);
        loop {
            wide::append(&fields, bytes_max, &mut column);
            let row = column.rows();
            if row == rows {
                break;
            }
            match self.raw(input, field, row) {
                Raw::Null => column.nulls.push(row as u32),
                Raw::Value(span) if text::fits(span.bytes(), characters_max) => {
                    column.data.extend_from_slice(span.bytes());
                }
                Raw::Value(_) | Raw::NotText => odd.insert(row),
            }
            column.end_row();
        }
        strings(column)
    }

    /// Text of which only what `is_canonical` says goes on as it is.
    #[inline(always)]
    pub(super) fn strings(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        is_canonical: impl Fn(&[u8]) -> bool,
    ) -> ArrayRef {
        let column = self.variable(input, field, odd, |bytes, data| {
            let canonical = is_canonical(bytes);
            if canonical {
                data.extend_from_slice(bytes);
            }
            canonical
        });
        strings(column)
    }

    pub(super) fn byte_strings(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
    ) -> ArrayRef {
        let column = self.variable(input, field, odd, text::bytea);
        let (ends, data, nulls) = finish(column);
        Arc::new(BinaryArray::new(ends, data, nulls))
    }

    #[inline(always)]
    fn variable(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        mut parse: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) -> Texts {
        let mut column = start(input);
        self.one_by_one(input, field, |row, raw| {
            match raw {
                Raw::Null => column.nulls.push(row as u32),
                Raw::NotText => odd.insert(row),
                Raw::Value(span) => {
                    if !parse(span.bytes(), &mut column.data) {
                        odd.insert(row);
                    }
                }
            }
            column.end_row();
        });
        column
    }

    pub(super) fn arrays(
        &mut self,
        input: &Input<'_>,
        field: usize,
        item: &FieldType,
        odd: &mut RowSet,
    ) -> ArrayRef {
        let mut builder = array::ListParser::new(item, input.rows.count);
        self.one_by_one(input, field, |row, raw| match raw {
            Raw::Null => builder.push_null(),
            Raw::NotText => {
                builder.push_null();
                odd.insert(row);
            }
            Raw::Value(span) => {
                if !builder.push(span.bytes()) {
                    builder.push_null();
                    odd.insert(row);
                }
            }
        });
        builder.finish(odd)
    }
}

fn strings(column: Texts) -> ArrayRef {
    let (ends, data, nulls) = finish(column);
    // SAFETY: the block's text is UTF-8 (a block that is not has its broken records set aside
    // first), fields are cut at ASCII bytes, and what was decoded by number was checked.
    Arc::new(unsafe { StringArray::new_unchecked(ends, data, nulls) })
}
