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
use crate::strips::{self, Strips};
use column::Column;
pub(crate) use column::{EPOCH_DAYS, EPOCH_MICROSECONDS};
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
    strips: Strips,
}

impl BinaryEncoder {
    pub fn new(columns: Vec<SentColumn>) -> Self {
        Self { columns, strips: Strips::default() }
    }

    /// Most bytes that a batch's rows take.
    pub fn bytes_max(&self, batch: &RecordBatch) -> usize {
        room(&columns_of(&self.columns, batch), batch.num_rows())
    }
}

fn columns_of<'a>(columns: &[SentColumn], batch: &'a RecordBatch) -> Vec<Column<'a>> {
    let arrays = batch.columns().iter();
    columns.iter().zip(arrays).map(|(sent, array)| Column::new(sent, array)).collect()
}

/// Most bytes that the columns' rows take, each row's field count included.
fn room(columns: &[Column<'_>], rows: usize) -> usize {
    2 * rows + columns.iter().map(Column::bytes_max).sum::<usize>()
}

impl Encoder for BinaryEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let Self { columns, strips } = self;
        let columns = columns_of(columns, batch);
        let rows = batch.num_rows();
        let place = cursor::start(out, room(&columns, rows));
        let place = write_rows(&columns, rows, strips, place);
        // SAFETY: the columns take what they say at most, and each row its field count.
        unsafe { cursor::finish(out, place) };
        Ok(())
    }
}

/// Writes rows with the best instructions that this processor has.
fn write_rows(columns: &[Column<'_>], rows: usize, strips: &mut Strips, place: Place) -> Place {
    #[cfg(target_arch = "x86_64")]
    {
        /// Compiled for processors with wide registers.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,lzcnt,movbe")]
        fn widest(c: &[Column<'_>], rows: usize, strips: &mut Strips, place: Place) -> Place {
            write_rows_plainly(c, rows, strips, place)
        }
        /// Compiled for processors of 2013 and later: fewer instructions for the same.
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe")]
        fn wide(c: &[Column<'_>], rows: usize, strips: &mut Strips, place: Place) -> Place {
            write_rows_plainly(c, rows, strips, place)
        }
        let has_bits = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe");
        if has_bits
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has the instructions.
            return unsafe { widest(columns, rows, strips, place) };
        }
        if has_bits && is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { wide(columns, rows, strips, place) };
        }
    }
    write_rows_plainly(columns, rows, strips, place)
}

#[inline(always)]
fn write_rows_plainly(
    columns: &[Column<'_>],
    rows: usize,
    strips: &mut Strips,
    mut place: Place,
) -> Place {
    let fields = (columns.len() as i16).to_be_bytes();
    let row_bytes_max = 2 + columns.iter().map(Column::value_bytes_max).sum::<usize>();
    let at_once = Strips::rows(row_bytes_max);
    if at_once == 1 {
        for row in 0..rows {
            let mut places = [place.put(fields)];
            columns.iter().for_each(|column| column.write(row, &mut places));
            place = places[0];
        }
        return place;
    }
    for first in (0..rows).step_by(at_once) {
        let count = at_once.min(rows - first);
        let starts = &strips.start(count, row_bytes_max)[..count];
        let mut places = [place; strips::ROWS];
        let places = &mut places[..count];
        for (place, start) in places.iter_mut().zip(starts) {
            *place = start.put(fields);
        }
        for column in columns {
            column.write(first, places);
        }
        place = strips::join(starts, places, place);
    }
    place
}

#[cfg(test)]
mod tests;
