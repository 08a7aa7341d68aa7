//! Columns of values that are all of one size.

use std::sync::Arc;

use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, ScalarBuffer};

use super::{ColumnParser, Input, Nulls, Raw, RowSet};
use crate::numbers::Span;
use crate::text;
use crate::wide::{self, Kernel};

impl ColumnParser {
    /// A column whose fields `kernel` takes where it can, and `parse` the others.
    #[inline(always)]
    pub(super) fn wide<T: ArrowPrimitiveType, K: Kernel<Native = T::Native>>(
        &mut self,
        kernel: &K,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        parse: impl FnMut(Span<'_>) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let rows = input.rows.count;
        let mut values = vec![T::Native::default(); rows];
        self.pending.all(rows);
        wide::parse(kernel, &input.fields(field), &mut values, &mut self.pending);
        self.rest(values, input, field, odd, parse)
    }

    /// A column whose fields are taken one by one.
    #[inline(always)]
    pub(super) fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        parse: impl FnMut(Span<'_>) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let rows = input.rows.count;
        self.pending.all(rows);
        self.rest(vec![T::Native::default(); rows], input, field, odd, parse)
    }

    pub(super) fn timestamps(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        parse: impl Fn(&[u8]) -> Option<i64>,
    ) -> PrimitiveArray<TimestampMicrosecondType> {
        self.wide(&wide::Timestamp, input, field, odd, |span| parse(span.bytes()))
    }

    /// What is still pending of a column.
    #[inline(always)]
    fn rest<T: ArrowPrimitiveType>(
        &mut self,
        mut values: Vec<T::Native>,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
        mut parse: impl FnMut(Span<'_>) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let rows = input.rows.count;
        let mut nulls = Nulls::default();
        self.each_pending(input, field, |row, raw| match raw {
            Raw::Value(span) => match parse(span) {
                Some(value) => values[row] = value,
                None => odd.insert(row),
            },
            Raw::Null => nulls.insert(row, rows),
            Raw::NotText => odd.insert(row),
        });
        PrimitiveArray::new(ScalarBuffer::from(values), nulls.finish(rows))
    }

    pub(super) fn booleans(
        &mut self,
        input: &Input<'_>,
        field: usize,
        odd: &mut RowSet,
    ) -> ArrayRef {
        let rows = input.rows.count;
        let mut bits = vec![0u8; rows.div_ceil(8)];
        let mut nulls = Nulls::default();
        self.one_by_one(input, field, |row, raw| match raw {
            Raw::Null => nulls.insert(row, rows),
            Raw::NotText => odd.insert(row),
            Raw::Value(span) => match text::boolean(span) {
                Some(value) => bits[row / 8] |= u8::from(value) << (row % 8),
                None => odd.insert(row),
            },
        });
        let values = BooleanBuffer::new(Buffer::from_vec(bits), 0, rows);
        Arc::new(BooleanArray::new(values, nulls.finish(rows)))
    }

    pub(super) fn uuids(&mut self, input: &Input<'_>, field: usize, odd: &mut RowSet) -> ArrayRef {
        let rows = input.rows.count;
        let mut bytes = MutableBuffer::with_capacity(rows * 16);
        let mut nulls = Nulls::default();
        self.one_by_one(input, field, |row, raw| {
            let value = match raw {
                Raw::Null => {
                    nulls.insert(row, rows);
                    None
                }
                Raw::Value(span) => {
                    let value = text::uuid(span.bytes());
                    if value.is_none() {
                        odd.insert(row);
                    }
                    value
                }
                Raw::NotText => {
                    odd.insert(row);
                    None
                }
            };
            bytes.extend_from_slice(&value.unwrap_or([0; 16]));
        });
        Arc::new(FixedSizeBinaryArray::new(16, bytes.into(), nulls.finish(rows)))
    }
}
