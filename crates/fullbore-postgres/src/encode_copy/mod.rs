//! Batches to the bytes of COPY's two forms.
//!
//! [`BinaryEncoder`] writes `FORMAT binary` rows: a 16-bit field count, then each field as a 32-bit
//! length (-1 for NULL) and the type's own send format (PostgreSQL manual, "COPY", "Binary
//! Format"). [`TextEncoder`] writes `FORMAT text` lines. Neither writes header or trailer; the
//! session does, once per COPY.

mod column;
mod cursor;
pub mod numeric;
mod text;

use arrow_array::RecordBatch;

use column::Column;
use cursor::Cursor;
use fullbore_core::destination::Encoder;
use fullbore_core::error::Result;
use fullbore_core::parse::types::FieldType;
pub use text::TextEncoder;

/// The signature, flags and header extension length that begin a binary COPY.
pub const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The field count of -1 that ends it.
pub const BINARY_TRAILER: &[u8; 2] = b"\xff\xff";

/// What a column is sent as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentColumn {
    pub field_type: FieldType,
    /// For arrays, the object id of the element type.
    pub element_oid: u32,
}

/// Writes rows in the binary form.
pub struct BinaryEncoder {
    columns: Vec<SentColumn>,
}

impl BinaryEncoder {
    pub fn new(columns: Vec<SentColumn>) -> Self {
        Self { columns }
    }
}

impl Encoder for BinaryEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns: Vec<Column<'_>> = self
            .columns
            .iter()
            .zip(batch.columns())
            .map(|(sent, array)| Column::new(sent, array.as_ref()))
            .collect();
        let rows = batch.num_rows();
        // Room for all rows at once, so that no field has to ask.
        let per_row: usize = columns.iter().map(|column| 4 + column.fixed_bytes_max()).sum();
        let variable: usize = columns.iter().map(Column::variable_bytes).sum();
        let mut cursor = Cursor::new(out, rows * (2 + per_row) + variable);
        let fields = (columns.len() as i16).to_be_bytes();
        for row in 0..rows {
            cursor.put(fields);
            for column in &columns {
                column.write(row, &mut cursor);
            }
        }
        cursor.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
