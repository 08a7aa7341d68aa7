//! Batches of text columns to COPY's text format.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};

use fullbore_core::destination::Encoder;
use fullbore_core::error::Result;
use fullbore_core::parse::text::write_copy_text;

/// Writes rows as lines of `FORMAT text`: tabs between fields, `\N` for NULL.
#[derive(Default)]
pub struct TextEncoder {}

impl Encoder for TextEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns: Vec<&StringArray> =
            batch.columns().iter().map(|array| array.as_string::<i32>()).collect();
        let bytes: usize = columns.iter().map(|column| column.value_data().len()).sum();
        out.reserve(bytes + batch.num_rows() * columns.len() + bytes / 8);
        for row in 0..batch.num_rows() {
            for (place, column) in columns.iter().enumerate() {
                if place > 0 {
                    out.push(b'\t');
                }
                if column.is_null(row) {
                    out.extend_from_slice(b"\\N");
                } else {
                    write_copy_text(column.value(row).as_bytes(), out);
                }
            }
            out.push(b'\n');
        }
        Ok(())
    }
}
