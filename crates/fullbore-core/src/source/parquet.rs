//! Parquet: row groups as splits, batches as they are stored, cast to the target's types.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::SourceFile;
use super::feed::Fed;
use crate::destination::Lane;
use crate::error::{Error, Result};
use crate::parse::types::{FieldType, ParseShape};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

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
    let builder = ParquetRecordBatchReaderBuilder::try_new(source.open()?)
        .map_err(|error| damaged(source, error))?;
    let groups = builder.metadata().row_groups().iter();
    Ok(ParquetFile {
        schema: builder.schema().clone(),
        groups: groups
            .map(|group| (group.num_rows() as u64, group.total_byte_size().max(0) as u64))
            .collect(),
    })
}

/// Reads some row groups of a file.
pub struct ParquetFeed {
    source: Arc<SourceFile>,
    reader: ParquetRecordBatchReader,
    file: File,
    shape: ParseShape,
}

impl ParquetFeed {
    pub fn open(source: Arc<SourceFile>, groups: Range<usize>, shape: &ParseShape) -> Result<Self> {
        let file = source.open()?;
        let handle = file
            .try_clone()
            .map_err(|error| Error::Read { path: source.path.clone(), source: error })?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(handle)
            .map_err(|error| damaged(&source, error))?;
        let wanted = shape.columns.iter().map(|column| column.field);
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let reader = builder
            .with_row_groups(groups.collect())
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| damaged(&source, error))?;
        Ok(Self { source, reader, file, shape: shape.clone() })
    }

    /// The next batch, in the target's types or as text.
    pub fn next(&mut self, lane: Lane) -> Result<Fed> {
        let Some(batch) = self.reader.next() else {
            self.source.check_unchanged(&self.file)?;
            return Ok(Fed::End);
        };
        let batch = batch.map_err(|error| damaged(&self.source, error))?;
        Ok(Fed::Batch(self.cast(&batch, lane)?))
    }

    fn cast(&self, batch: &RecordBatch, lane: Lane) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.shape.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.shape.columns.len());
        let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        for column in &self.shape.columns {
            let wanted = match lane {
                Lane::Binary => column.field_type.arrow(),
                Lane::Text => DataType::Utf8,
            };
            // The projection keeps the file's order and drops the rest: find it by its name.
            let name = &self.shape.field_names[column.field];
            let at = names.iter().position(|n| n == name).ok_or_else(|| {
                damaged(&self.source, format!("column {name:?} is not at the top level"))
            })?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let array =
                cast_with_options(batch.column(at), &wanted, &options).map_err(|error| {
                    Error::Source {
                        path: self.source.path.clone(),
                        message: format!("column {name:?} does not fit {wanted}: {error}"),
                        hint: Some("give the target column a wider type".into()),
                    }
                })?;
            fields.push(Field::new(&column.name, wanted, true));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|error| damaged(&self.source, error))
    }
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
