//! Batches to the bytes of COPY's two forms.
//!
//! [`BinaryEncoder`] writes `FORMAT binary` rows: a 16-bit field count, then each field as a 32-bit
//! length (-1 for NULL) and the type's own send format (PostgreSQL manual, "COPY", "Binary
//! Format"). [`TextEncoder`] writes `FORMAT text` lines. Neither writes header or trailer; the
//! session does, once per COPY.

mod column;
pub mod numeric;
mod text;

use arrow_array::RecordBatch;

use crate::cursor::{self, Place};
use column::Column;

pub(crate) use column::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use fullbore_load::sink::Encoder;
use fullbore_parse::types::FieldType;
use fullbore_read::error::Result;
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
#[derive(Clone)]
pub struct BinaryEncoder {
    columns: Vec<SentColumn>,
}

impl BinaryEncoder {
    pub fn new(columns: Vec<SentColumn>) -> Self {
        Self { columns }
    }

    fn columns<'a>(&self, batch: &'a RecordBatch) -> Vec<Column<'a>> {
        let arrays = batch.columns().iter();
        self.columns.iter().zip(arrays).map(|(sent, array)| Column::new(sent, array)).collect()
    }

    /// Most bytes that a batch's rows take.
    pub fn bytes_max(&self, batch: &RecordBatch) -> usize {
        room(&self.columns(batch), batch.num_rows())
    }
}

/// Most bytes that the columns' rows take, each row's field count included.
fn room(columns: &[Column<'_>], rows: usize) -> usize {
    2 * rows + columns.iter().map(Column::bytes_max).sum::<usize>()
}

impl Encoder for BinaryEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns = self.columns(batch);
        let rows = batch.num_rows();
        let place = cursor::start(out, room(&columns, rows));
        let place = write_rows(&columns, rows, place);
        // SAFETY: the columns take what they say at most, and each row its field count.
        unsafe { cursor::finish(out, place) };
        Ok(())
    }
}

fn write_rows(columns: &[Column<'_>], rows: usize, place: Place) -> Place {
    #[cfg(target_arch = "x86_64")]
    {
        /// The same, compiled for processors of 2013 and later: fewer instructions for the same.
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe")]
        fn write_rows(columns: &[Column<'_>], rows: usize, place: Place) -> Place {
            write_rows_plainly(columns, rows, place)
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe")
        {
            // SAFETY: the processor has the instructions.
            return unsafe { write_rows(columns, rows, place) };
        }
    }
    write_rows_plainly(columns, rows, place)
}

#[inline(always)]
fn write_rows_plainly(columns: &[Column<'_>], rows: usize, mut place: Place) -> Place {
    let fields = (columns.len() as i16).to_be_bytes();
    for row in 0..rows {
        place = place.put(fields);
        for column in columns {
            place = column.write(row, place);
        }
    }
    place
}

#[cfg(test)]
mod tests;
