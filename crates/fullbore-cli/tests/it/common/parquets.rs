//! Parquet files of a test's own.

use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;

use super::Files;

/// Writes columns into a file; its path.
pub fn parquet(files: &Files, name: &str, columns: &[(&str, ArrayRef)]) -> String {
    let columns = columns.iter().map(|(name, array)| (*name, array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    let path = files.path(name);
    let file = std::fs::File::create(&path).expect("created");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("opened");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    path.to_str().expect("UTF-8").to_owned()
}
