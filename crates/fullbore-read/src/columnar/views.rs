//! Batches as they are decoded, with texts as views of their pages: what their rows take, and how they
//! are cut so that little is copied out of the pages at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteArrayType, ByteViewType, StringViewType};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericByteArray, GenericByteViewArray, GenericListArray,
    MapArray, OffsetSizeTrait, RecordBatch, StructArray,
};
use arrow_buffer::{ArrowNativeType, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

use crate::constants::PARQUET_UNIT_BYTES;

/// The type to decode a column as: texts and bytes as views, nothing by a dictionary.
pub fn as_views(field: &FieldRef) -> FieldRef {
    plain(field, &|kind| match kind {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    })
}

/// The field with values instead of what looks them up, at any depth, and single values as `of_value` says.
pub fn plain(field: &FieldRef, of_value: &dyn Fn(&DataType) -> DataType) -> FieldRef {
    let inner = |field: &FieldRef| plain(field, of_value);
    let kind = match field.data_type() {
        DataType::Dictionary(_, value) => {
            inner(&Arc::new(Field::new("", value.as_ref().clone(), true))).data_type().clone()
        }
        DataType::RunEndEncoded(_, values) => inner(values).data_type().clone(),
        DataType::List(item) | DataType::ListView(item) => DataType::List(inner(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(inner(item))
        }
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        value => of_value(value),
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// Bytes that each row of a column takes; values of all types but texts, bytes and what holds such are
/// taken for as long as they are. Dictionaries are none: see [`as_views`].
pub fn sizes(array: &ArrayRef) -> Vec<u64> {
    match array.data_type() {
        DataType::Utf8 => of_texts(array.as_string::<i32>()),
        DataType::LargeUtf8 => of_texts(array.as_string::<i64>()),
        DataType::Binary => of_texts(array.as_binary::<i32>()),
        DataType::LargeBinary => of_texts(array.as_binary::<i64>()),
        DataType::FixedSizeBinary(bytes) => vec![*bytes as u64; array.len()],
        DataType::Utf8View => of_views::<StringViewType>(array.as_byte_view()),
        DataType::BinaryView => of_views::<BinaryViewType>(array.as_byte_view()),
        DataType::List(_) => of_lists(array.as_list::<i32>()),
        DataType::LargeList(_) => of_lists(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let (each, items) = (list.value_length() as usize, sizes(list.values()));
            (0..list.len()).map(|row| items[row * each..(row + 1) * each].iter().sum()).collect()
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            summed(map.value_offsets(), &sizes(&entries))
        }
        DataType::Struct(_) => {
            let mut all = vec![0; array.len()];
            for column in array.as_struct().columns() {
                all.iter_mut().zip(sizes(column)).for_each(|(all, bytes)| *all += bytes);
            }
            all
        }
        other => vec![other.primitive_width().unwrap_or(1) as u64; array.len()],
    }
}

fn of_texts<T: ByteArrayType>(array: &GenericByteArray<T>) -> Vec<u64> {
    array.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]).as_usize() as u64).collect()
}

fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Vec<u64> {
    // A view's lowest 32 bits are its value's length.
    array.views().iter().map(|view| u64::from(*view as u32)).collect()
}

fn of_lists<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Vec<u64> {
    summed(list.value_offsets(), &sizes(list.values()))
}

fn summed<O: OffsetSizeTrait>(offsets: &[O], items: &[u64]) -> Vec<u64> {
    let of = |ends: &[O]| items[ends[0].as_usize()..ends[1].as_usize()].iter().sum();
    offsets.windows(2).map(of).collect()
}

/// A row that is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong {
    pub row: usize,
    /// The column of a value that alone is longer.
    pub column: Option<usize>,
    pub bytes: u64,
}

/// How a batch is cut.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Runs of rows of about a unit's bytes each; those that are too long stand in none.
    pub runs: Vec<Range<usize>>,
    pub too_long: Vec<TooLong>,
}

/// Bytes that the rows of a column take.
enum Sizes {
    Each(u64),
    Of(Vec<u64>),
}

impl Sizes {
    fn of(array: &ArrayRef) -> Self {
        match array.data_type().primitive_width() {
            Some(width) => Self::Each(width as u64),
            None => Self::Of(sizes(array)),
        }
    }

    fn sum(&self, rows: usize) -> u64 {
        match self {
            Self::Each(bytes) => bytes * rows as u64,
            Self::Of(sizes) => sizes.iter().sum(),
        }
    }

    fn at(&self, row: usize) -> u64 {
        match self {
            Self::Each(bytes) => *bytes,
            Self::Of(sizes) => sizes[row],
        }
    }
}

/// Cuts a batch whose rows and values may have so many bytes.
pub fn cuts(batch: &RecordBatch, row_bytes_max: u64) -> Cuts {
    let mut found = Cuts::default();
    let columns: Vec<Sizes> = batch.columns().iter().map(Sizes::of).collect();
    let all: u64 = columns.iter().map(|sizes| sizes.sum(batch.num_rows())).sum();
    // No row is too long, and all are a unit.
    if all <= PARQUET_UNIT_BYTES.min(row_bytes_max) && batch.num_rows() > 0 {
        found.runs.push(0..batch.num_rows());
        return found;
    }
    let mut rows = vec![0u64; batch.num_rows()];
    let mut longest = vec![(0, 0u64); batch.num_rows()];
    for (column, sizes) in columns.iter().enumerate() {
        for row in 0..batch.num_rows() {
            let bytes = sizes.at(row);
            rows[row] += bytes;
            if bytes > longest[row].1 {
                longest[row] = (column, bytes);
            }
        }
    }
    // Cuts of one size, not full ones and a rest.
    let wanted = all.div_ceil(all.div_ceil(PARQUET_UNIT_BYTES).max(1));
    let (mut start, mut bytes) = (0, 0);
    for (row, its) in rows.iter().enumerate() {
        let is_too_long = *its > row_bytes_max;
        // Not one that is large already with one that may be larger.
        if row > start && (is_too_long || bytes + its > PARQUET_UNIT_BYTES.max(wanted)) {
            found.runs.push(start..row);
            (start, bytes) = (row, 0);
        }
        if is_too_long {
            let (column, longest) = longest[row];
            found.too_long.push(match longest > row_bytes_max {
                true => TooLong { row, column: Some(column), bytes: longest },
                false => TooLong { row, column: None, bytes: *its },
            });
            start = row + 1;
            continue;
        }
        bytes += its;
        if bytes >= wanted {
            found.runs.push(start..row + 1);
            (start, bytes) = (row + 1, 0);
        }
    }
    if start < rows.len() {
        found.runs.push(start..rows.len());
    }
    found
}

/// The same values in memory of their own, no longer as views.
pub fn hydrated(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => cast(array, &DataType::Utf8)?,
        DataType::BinaryView => cast(array, &DataType::Binary)?,
        DataType::List(item) => Arc::new(list(array.as_list::<i32>(), item)?),
        DataType::LargeList(item) => Arc::new(list(array.as_list::<i64>(), item)?),
        DataType::FixedSizeList(item, each) => {
            let list = array.as_fixed_size_list();
            let values = hydrated(&list.values().slice(0, list.len() * *each as usize))?;
            let item = renewed(item, &values);
            Arc::new(FixedSizeListArray::try_new(item, *each, values, list.nulls().cloned())?)
        }
        DataType::Map(entries, is_sorted) => {
            let map = array.as_map();
            let (offsets, range) = rebased(map.offsets());
            let values: ArrayRef = Arc::new(map.entries().slice(range.start, range.len()));
            let values = hydrated(&values)?;
            let entries = renewed(entries, &values);
            let values = values.as_struct().clone();
            let nulls = map.nulls().cloned();
            Arc::new(MapArray::try_new(entries, offsets, values, nulls, *is_sorted)?)
        }
        DataType::Struct(fields) => {
            let found = array.as_struct();
            let columns = found.columns().iter().map(hydrated).collect::<Result<Vec<_>, _>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| renewed(field, column));
            let nulls = found.nulls().cloned();
            let length = array.len();
            Arc::new(StructArray::try_new_with_length(fields.collect(), columns, nulls, length)?)
        }
        _ => array.clone(),
    })
}

/// The field of values whose type may have become another.
fn renewed(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
}

fn list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<GenericListArray<O>, ArrowError> {
    let (offsets, range) = rebased(list.offsets());
    let values = hydrated(&list.values().slice(range.start, range.len()))?;
    GenericListArray::try_new(renewed(item, &values), offsets, values, list.nulls().cloned())
}

/// Offsets that begin at 0, and the values that they stand for.
fn rebased<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, Range<usize>) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let from_zero = offsets.iter().map(|offset| *offset - first).collect::<Vec<_>>();
    (OffsetBuffer::new(from_zero.into()), first.as_usize()..last.as_usize())
}
