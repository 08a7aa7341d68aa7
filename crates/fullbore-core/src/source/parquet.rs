//! Parquet: row groups as splits, batches as they are stored, cast to the target's types.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use super::SourceFile;
use super::cast::{as_text, exact};
use super::feed::Fed;
use crate::destination::Lane;
use crate::error::{Error, Result};
use crate::parse::types::{FieldType, ParseShape};
use crate::plan::FileRange;

/// Rows decoded at a time, and how many bytes they may come to by what the footer says: the values of
/// some files are a hundred thousand times as long as those of others.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: u64 = 8 << 20;

fn batch_rows<'a>(groups: impl Iterator<Item = &'a RowGroupMetaData>) -> usize {
    let row_bytes = |group: &RowGroupMetaData| {
        group.total_byte_size().max(0) as u64 / (group.num_rows().max(1) as u64)
    };
    let widest = groups.map(row_bytes).max().unwrap_or(0).max(1);
    (BATCH_BYTES / widest).clamp(1, BATCH_ROWS as u64) as usize
}

/// Opens a file. Moments of 96 bits (Spark's and Impala's) are taken as microseconds: as nanoseconds,
/// which they are taken for else, they would wrap in the year 2262.
fn open(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    let mut metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())?;
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
        metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
    }
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
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

fn damaged(source: &SourceFile, error: impl std::fmt::Display) -> Error {
    Error::Source {
        path: source.path.clone(),
        message: format!("is no Parquet file that can be read: {error}"),
        hint: None,
    }
}

/// What the planner wants to know of a file.
pub struct ParquetFile {
    pub schema: SchemaRef,
    /// Rows and uncompressed bytes of each row group.
    pub groups: Vec<(u64, u64)>,
}

/// Reads a file's footer.
pub fn inspect(source: &SourceFile) -> Result<ParquetFile> {
    let builder = open(source.open()?).map_err(|error| damaged(source, error))?;
    let groups = builder.metadata().row_groups().iter();
    Ok(ParquetFile {
        schema: builder.schema().clone(),
        groups: groups
            .map(|group| (group.num_rows() as u64, group.total_byte_size().max(0) as u64))
            .collect(),
    })
}

/// Reads some rows of a file.
pub struct ParquetFeed {
    source: Arc<SourceFile>,
    reader: ParquetRecordBatchReader,
    file: File,
    shape: ParseShape,
    /// The file's place among the table's, and the row that comes next.
    place: (usize, u64),
}

impl ParquetFeed {
    /// Opens a file, the table's `number`th, at some of its rows, counted from 0.
    pub fn open(
        source: Arc<SourceFile>,
        number: usize,
        rows: Range<u64>,
        shape: &ParseShape,
    ) -> Result<Self> {
        let file = source.open()?;
        let handle = file
            .try_clone()
            .map_err(|error| Error::Read { path: source.path.clone(), source: error })?;
        let builder = open(handle).map_err(|error| damaged(&source, error))?;
        let wanted = shape.columns.iter().map(|column| column.field);
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        // The row groups that hold the rows, and the rows before them in the first one.
        let (mut groups, mut skipped, mut begins) = (Vec::new(), 0, 0);
        for (number, group) in builder.metadata().row_groups().iter().enumerate() {
            let ends = begins + group.num_rows() as u64;
            if begins < rows.end && ends > rows.start {
                if groups.is_empty() {
                    skipped = rows.start.saturating_sub(begins);
                }
                groups.push(number);
            }
            begins = ends;
        }
        let all = builder.metadata().row_groups();
        let batch_rows = batch_rows(groups.iter().map(|number| &all[*number]));
        let reader = builder
            .with_row_groups(groups)
            .with_offset(skipped as usize)
            .with_limit((rows.end - rows.start) as usize)
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
            .map_err(|error| damaged(&source, error))?;
        Ok(Self { source, reader, file, shape: shape.clone(), place: (number, rows.start) })
    }

    /// The next batch, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        let Some(batch) = self.reader.next() else {
            self.source.check_unchanged(&self.file)?;
            return Ok(Fed::End);
        };
        let batch = batch.map_err(|error| damaged(&self.source, error))?;
        let (file, row) = self.place;
        self.place.1 += batch.num_rows() as u64;
        Ok(Fed::Batch { batch: self.cast(&batch, row, lane)?, file, row })
    }

    /// The columns that are loaded of a batch, of which `first` rows stand before it in the file.
    fn cast(&self, batch: &RecordBatch, first: u64, lane: Lane) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.shape.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.shape.columns.len());
        // The projection keeps the file's order and drops the rest.
        let mut roots: Vec<usize> = self.shape.columns.iter().map(|column| column.field).collect();
        roots.sort_unstable();
        roots.dedup();
        for column in &self.shape.columns {
            let wanted = match lane {
                Lane::Binary => column.field_type.arrow(),
                Lane::Text => DataType::Utf8,
            };
            let name = &self.shape.field_names[column.field];
            let at = roots.binary_search(&column.field).expect("it is one of them");
            let stored = batch.columns().get(at).ok_or_else(|| {
                damaged(&self.source, format!("column {name:?} is not at the top level"))
            })?;
            let array = match lane {
                Lane::Binary => exact(stored, &wanted),
                Lane::Text => as_text(stored, &column.field_type),
            };
            let array = array.map_err(|(at, message)| Error::Source {
                path: self.source.path.clone(),
                message: match at {
                    Some(at) => format!("row {}: column {name:?} {message}", first + at as u64 + 1),
                    None => format!("column {name:?} {message}"),
                },
                hint: Some(
                    "give the target column a wider type, or let the server judge each row as text: \
                     --as-text"
                        .into(),
                ),
            })?;
            fields.push(Field::new(&column.name, wanted, true));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|error| damaged(&self.source, error))
    }
}

/// Reads ranges of rows of files, one after the other.
pub struct RowFeed {
    files: Vec<Arc<SourceFile>>,
    ranges: VecDeque<FileRange>,
    shape: Arc<ParseShape>,
    open: Option<ParquetFeed>,
}

impl RowFeed {
    pub fn new(
        files: Vec<Arc<SourceFile>>,
        ranges: Vec<FileRange>,
        shape: Arc<ParseShape>,
    ) -> Self {
        Self { files, ranges: ranges.into(), shape, open: None }
    }

    /// The next batch, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        loop {
            let feed = match &mut self.open {
                Some(feed) => feed,
                None => {
                    let Some(range) = self.ranges.pop_front() else { return Ok(Fed::End) };
                    let source = self.files[range.file].clone();
                    let rows = range.start..range.end;
                    self.open.insert(ParquetFeed::open(source, range.file, rows, &self.shape)?)
                }
            };
            match feed.next(lane)? {
                Fed::End => self.open = None,
                fed => return Ok(fed),
            }
        }
    }
}

/// The smallest and largest value of a column in one row group, in the column's target type.
pub struct GroupRange {
    pub rows: u64,
    /// Both as arrays of one value; none where statistics don't tell exactly, or there are NULLs.
    pub ends: Option<(ArrayRef, ArrayRef)>,
}

/// What the statistics of a file say of its only wanted column, group by group.
pub fn group_ranges(source: &SourceFile, shape: &ParseShape) -> Result<Vec<GroupRange>> {
    let builder = open(source.open()?).map_err(|error| damaged(source, error))?;
    let column = &shape.columns[0];
    let name = &shape.field_names[column.field];
    let wanted = column.field_type.arrow();
    let read = |group: &RowGroupMetaData| -> Option<(ArrayRef, ArrayRef)> {
        let statistics =
            StatisticsConverter::try_new(name, builder.schema(), builder.parquet_schema()).ok()?;
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
            let array = exact(&array, &wanted).ok()?;
            (array.len() == 1 && array.null_count() == 0).then_some(array)
        };
        Some((
            one(statistics.row_group_mins([group]).ok()?)?,
            one(statistics.row_group_maxes([group]).ok()?)?,
        ))
    };
    let groups = builder.metadata().row_groups().iter();
    Ok(groups
        .map(|group| GroupRange { rows: group.num_rows() as u64, ends: read(group) })
        .collect())
}

/// What a stored column is loaded as, where the target is made from the file.
pub fn field_type(stored: &DataType) -> Result<FieldType> {
    Ok(match stored {
        DataType::Boolean => FieldType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => FieldType::Int16,
        DataType::Int32 | DataType::UInt16 => FieldType::Int32,
        DataType::Int64 | DataType::UInt32 => FieldType::Int64,
        DataType::UInt64 => FieldType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => FieldType::Float32,
        DataType::Float64 => FieldType::Float64,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            FieldType::Decimal { precision: *precision, scale: *scale as u8 }
        }
        DataType::Date32 | DataType::Date64 => FieldType::Date,
        DataType::Time32(_) | DataType::Time64(_) => FieldType::Time,
        DataType::Timestamp(_, None) => FieldType::Timestamp,
        DataType::Timestamp(_, Some(_)) => FieldType::TimestampTz { zoneless_is_utc: true },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => FieldType::text(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => FieldType::Bytea,
        DataType::FixedSizeBinary(16) => FieldType::Uuid,
        DataType::FixedSizeBinary(_) => FieldType::Bytea,
        DataType::Dictionary(_, value) => field_type(value)?,
        DataType::List(item) | DataType::LargeList(item) => {
            FieldType::Array(Box::new(field_type(item.data_type())?))
        }
        other => {
            return Err(Error::usage_with_hint(
                format!(
                    "a column of the Parquet file is of type {other}, which has no counterpart"
                ),
                "load the other columns with --columns, a dash for this one",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn wide_values_are_decoded_a_few_at_a_time() {
        for (bytes, rows, at_most) in [(2_000_000, 20, 8), (3, 20_000, BATCH_ROWS)] {
            let texts: StringArray =
                (0..rows).map(|row: usize| Some(format!("{row}{}", " ".repeat(bytes)))).collect();
            let batch = RecordBatch::try_from_iter([("v", Arc::new(texts) as ArrayRef)]);
            let batch = batch.expect("a batch");
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("wide.parquet");
            let file = File::create(&path).expect("created");
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("opened");
            writer.write(&batch).expect("written");
            writer.close().expect("closed");
            let opened = open(File::open(&path).expect("there")).expect("a Parquet file");
            let wanted = batch_rows(opened.metadata().row_groups().iter());
            assert!((1..=at_most).contains(&wanted), "{wanted} rows of {bytes} bytes");
        }
    }
}
