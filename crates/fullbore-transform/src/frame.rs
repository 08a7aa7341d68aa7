//! A batch of the columns that expressions name, as the engine has them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_cast::cast;
use engine_arrow::array::{RecordBatch, RecordBatchOptions};
use engine_arrow::compute::filter_record_batch;
use engine_arrow::datatypes::SchemaRef;

use crate::bridge;
use crate::types::engine_type;
use crate::words::Words;

/// Rows as expressions see them.
#[derive(Clone)]
pub struct Frame {
    pub(crate) batch: RecordBatch,
}

impl Frame {
    /// These arrays, in the order of the compiler's inputs.
    pub(crate) fn of(schema: &SchemaRef, arrays: &[ArrayRef], rows: usize) -> Result<Self, Words> {
        let columns = arrays.iter().map(|array| {
            let wanted = engine_type(array.data_type());
            match wanted == *array.data_type() {
                true => bridge::given(array),
                false => bridge::given(&cast(array, &wanted).map_err(|error| error.to_string())?),
            }
        });
        Self::of_columns(schema, columns.collect::<Result<_, _>>()?, rows)
    }

    fn of_columns(
        schema: &SchemaRef,
        columns: Vec<engine_arrow::array::ArrayRef>,
        rows: usize,
    ) -> Result<Self, Words> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
        Ok(Self { batch: batch.map_err(|error| error.to_string())? })
    }

    /// With more columns behind its own.
    pub(crate) fn with(&self, schema: &SchemaRef, more: &[ArrayRef]) -> Result<Self, Words> {
        let more = more.iter().map(|array| bridge::given(array)).collect::<Result<Vec<_>, _>>()?;
        let columns = self.batch.columns().iter().cloned().chain(more).collect();
        Self::of_columns(schema, columns, self.rows())
    }

    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Some rows that follow each other.
    pub fn slice(&self, start: usize, length: usize) -> Self {
        Self { batch: self.batch.slice(start, length) }
    }

    /// The rows for which the mask holds.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Self, Words> {
        let mask = bridge::given(mask)?;
        let mask = mask.as_any().downcast_ref().expect("a mask is of booleans");
        let batch = filter_record_batch(&self.batch, mask).map_err(|error| error.to_string())?;
        Ok(Self { batch })
    }
}
