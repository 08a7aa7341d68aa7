//! Parquet: row groups as splits, batches as they are stored.
//!
//! [`feed`] returns rows in batches that [`pages`] keeps small whatever a file claims, decoded as views of
//! their pages. [`unpack`] decompresses pages, [`measure`] estimates the memory of their rows, and
//! [`memory`] that of all concurrent reads.

mod feed;
mod measure;
pub(crate) mod memory;
mod pages;
mod places;
#[cfg(test)]
mod tests;
mod unpack;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};
use fullbore_parse::types::ParseShape;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::ColumnDescPtr;

use super::cast::{exact, is_of_another_kind, judged_by_server};
use crate::columnar::inspected::{GroupRange, Inspected};
use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::source_file::SourceFile;
pub use feed::ParquetFeed;
pub use memory::PageMemory;
use places::Anywhere;

/// Reads what stands at a file's end. Moments of 96 bits (Spark's and Impala's) are taken as microseconds:
/// as nanoseconds, which they are taken for else, they would wrap in the year 2262.
fn open(file: &Arc<Opened>) -> Result<ArrowReaderMetadata, ParquetError> {
    let metadata =
        ArrowReaderMetadata::load(&Anywhere(file.clone()), ArrowReaderOptions::default())?;
    let leaves = metadata.parquet_schema();
    let is_long = |leaf: &ColumnDescPtr| leaf.physical_type() == PhysicalType::INT96;
    let stored = metadata.schema();
    if leaves.columns().iter().any(is_long) {
        let mut longs = leaves.columns().iter().map(is_long);
        let fields = stored.fields().iter().map(|field| in_microseconds(field, &mut longs));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), stored.metadata.clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        return ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
    }
    Ok(metadata)
}

/// `longs`: of each leaf from here on, whether it has moments of 96 bits.
fn in_microseconds(field: &FieldRef, longs: &mut impl Iterator<Item = bool>) -> FieldRef {
    let kind = match field.data_type() {
        DataType::List(item) => DataType::List(in_microseconds(item, longs)),
        DataType::LargeList(item) => DataType::LargeList(in_microseconds(item, longs)),
        DataType::FixedSizeList(item, count) => {
            DataType::FixedSizeList(in_microseconds(item, longs), *count)
        }
        DataType::Map(entries, is_sorted) => {
            DataType::Map(in_microseconds(entries, longs), *is_sorted)
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| in_microseconds(field, longs)).collect())
        }
        leaf => match (leaf, longs.next()) {
            (DataType::Timestamp(_, zone), Some(true)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => leaf.clone(),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// What went wrong with a file: at its store, or in itself.
fn wrong(source: &SourceFile, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    match Error::of_store(std::io::Error::other(error)) {
        Ok(refusal) => refusal,
        Err(error) => damaged(source, error),
    }
}

fn damaged(source: &SourceFile, error: impl std::fmt::Display) -> Error {
    Error::Source {
        path: source.path.clone(),
        message: format!("is no Parquet file that can be read: {error}"),
        hint: None,
    }
}

/// What stands at a file's end; of an object it is fetched once.
fn footer(source: &SourceFile, opened: &Arc<Opened>) -> Result<ArrowReaderMetadata> {
    if let Some(known) = source.footer.get() {
        return Ok(known.clone());
    }
    let metadata = open(opened).map_err(|error| wrong(source, error))?;
    let rows = metadata.metadata().row_groups().iter().map(RowGroupMetaData::num_rows);
    let count = |all: i64, rows: i64| all.checked_add(rows).filter(|_| rows >= 0);
    if rows.clone().try_fold(0, count).is_none() {
        return Err(damaged(source, "its row groups can't have so many rows"));
    }
    if source.object.is_some() {
        let _ = source.footer.set(metadata.clone());
    }
    Ok(metadata)
}

/// Reads a file's footer.
pub fn inspect(source: &SourceFile) -> Result<Inspected> {
    let metadata = footer(source, &Arc::new(source.open()?))?;
    let groups = metadata.metadata().row_groups().iter();
    Ok(Inspected {
        schema: metadata.schema().clone(),
        groups: groups
            .map(|group| (group.num_rows() as u64, group.total_byte_size().max(0) as u64))
            .collect(),
    })
}

/// What the statistics of a file say of its only wanted column, group by group.
pub fn group_ranges(source: &SourceFile, shape: &ParseShape) -> Result<Vec<GroupRange>> {
    let metadata = footer(source, &Arc::new(source.open()?))?;
    let column = &shape.columns[0];
    let name = &shape.field_names[column.field];
    let wanted = column.field_type.arrow();
    let read = |group: &RowGroupMetaData| -> Option<(ArrayRef, ArrayRef)> {
        let statistics =
            StatisticsConverter::try_new(name, metadata.schema(), metadata.parquet_schema())
                .ok()?;
        let stored = group.columns().get(statistics.parquet_column_index()?)?;
        let found = stored.statistics()?;
        // Numbers are never shortened; what is kept as bytes may be, and says whether it was.
        let is_number = matches!(stored.column_type(), PhysicalType::INT32 | PhysicalType::INT64);
        let is_exact = is_number || found.min_is_exact() && found.max_is_exact();
        let is_ordered = statistics.arrow_field().data_type().is_numeric()
            || statistics.arrow_field().data_type().is_temporal();
        let stored_as = statistics.arrow_field().data_type();
        let is_judged = judged_by_server(stored_as, &column.field_type).is_some()
            || is_of_another_kind(stored_as, &column.field_type);
        if found.null_count_opt() != Some(0) || !is_exact || !is_ordered || is_judged {
            return None;
        }
        let one = |array: ArrayRef| {
            let array = exact(&array, &wanted).ok()?.array;
            (array.len() == 1 && array.null_count() == 0).then_some(array)
        };
        Some((
            one(statistics.row_group_mins([group]).ok()?)?,
            one(statistics.row_group_maxes([group]).ok()?)?,
        ))
    };
    let groups = metadata.metadata().row_groups().iter();
    Ok(groups
        .map(|group| GroupRange { rows: group.num_rows() as u64, ends: read(group) })
        .collect())
}
