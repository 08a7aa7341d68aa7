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

use super::cast::exact;
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
    let is_long = |root: usize| {
        (0..leaves.num_columns()).any(|leaf| {
            leaves.get_column_root_idx(leaf) == root
                && leaves.column(leaf).physical_type() == PhysicalType::INT96
        })
    };
    let stored = metadata.schema();
    if (0..stored.fields().len()).any(is_long) {
        let fields = stored.fields().iter().enumerate().map(|(root, field)| match is_long(root) {
            true => in_microseconds(field),
            false => field.clone(),
        });
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), stored.metadata.clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        return ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
    }
    Ok(metadata)
}

fn in_microseconds(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::List(item) => DataType::List(in_microseconds(item)),
        DataType::LargeList(item) => DataType::LargeList(in_microseconds(item)),
        other => other.clone(),
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
        if found.null_count_opt() != Some(0) || !is_exact || !is_ordered {
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
