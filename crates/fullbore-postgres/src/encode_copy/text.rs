//! Batches of text columns to COPY's text format.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use fullbore_load::sink::Encoder;
use fullbore_parse::text::escape_in_copy_text;
use fullbore_read::error::Result;

use crate::cursor::{self, Place};

/// Writes rows as lines of `FORMAT text`: tabs between fields, `\N` for NULL.
#[derive(Default)]
pub struct TextEncoder {}

/// A column, and whether any value of it has a byte that must be escaped.
struct Column<'a> {
    array: &'a StringArray,
    needs_escapes: bool,
}

impl<'a> Column<'a> {
    fn new(array: &'a StringArray) -> Self {
        let values = array.value_data();
        let needs_escapes = memchr::memchr3(b'\\', b'\t', b'\n', values).is_some()
            || memchr::memchr(b'\r', values).is_some();
        Self { array, needs_escapes }
    }

    /// Most bytes that all values take, each with the byte after it.
    fn bytes_max(&self) -> usize {
        let offsets = self.array.value_offsets();
        let bytes = (offsets[self.array.len()] - offsets[0]) as usize;
        let escaped = if self.needs_escapes { 2 } else { 1 };
        bytes * escaped + self.array.len() * "\\N\t".len()
    }

    #[inline(always)]
    fn write(&self, row: usize, place: Place) -> Place {
        if self.array.is_null(row) {
            return place.put(*b"\\N");
        }
        let offsets = self.array.value_offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let values = self.array.value_data();
        if !self.needs_escapes {
            return place.put_range(values, start, end);
        }
        values[start..end].iter().fold(place, |place, byte| match escape_in_copy_text(*byte) {
            Some(escaped) => place.put([b'\\', escaped]),
            None => place.put([*byte]),
        })
    }
}

impl Encoder for TextEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns: Vec<Column<'_>> =
            batch.columns().iter().map(|column| Column::new(column.as_string::<i32>())).collect();
        let room = batch.num_rows() + columns.iter().map(Column::bytes_max).sum::<usize>();
        let mut place = cursor::start(out, room);
        for row in 0..batch.num_rows() {
            for (number, column) in columns.iter().enumerate() {
                if number > 0 {
                    place = place.put(*b"\t");
                }
                place = column.write(row, place);
            }
            place = place.put(*b"\n");
        }
        // SAFETY: the columns take what they say at most, and each row its line end.
        unsafe { cursor::finish(out, place) };
        Ok(())
    }
}
