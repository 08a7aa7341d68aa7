//! Batches to frames of tuple bodies: rows laid out as they will stand in their page.
//!
//! The layout is compiled once per table from what the server tells of it ([`layout`]). Rows are
//! written one after the other into room that is made once per frame; a value is written by the
//! same few instructions whatever its column. What can't be laid out here travels out of band, in
//! the same stream: rows that must be toasted, and all rows of a table with a type that only the
//! server knows.

mod column;
mod frame;
mod layout;
mod numeric;
pub mod packing;
mod prepared;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use fullbore_load::sink::Encoder;
use fullbore_read::error::{Error, Result};

use crate::cursor;
use crate::encode_copy::BinaryEncoder;
use frame::{BODIES_BYTES_MAX, Packer};
pub use frame::{Kind, header};
pub use layout::{Layout, MAXALIGN};
use packing::Packing;
use prepared::Prepared;
use rows::Rows;

/// Rows out of band go in frames of about this size, so that no buffer grows beyond what one row
/// needs.
const OUT_OF_BAND_BYTES: usize = 4 << 20;

/// Writes frames.
pub struct DirectEncoder {
    /// `None` where all rows travel out of band.
    layout: Option<Layout>,
    out_of_band: BinaryEncoder,
    packer: Packer,
    aside: Vec<u32>,
}

impl DirectEncoder {
    pub fn new(layout: Option<Layout>, out_of_band: BinaryEncoder, packing: Arc<Packing>) -> Self {
        Self { layout, out_of_band, packer: Packer::new(packing), aside: Vec::new() }
    }

    fn bodies(&mut self, layout: &Layout, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let prepared: Vec<Prepared> = layout
            .columns
            .iter()
            .map(|column| Prepared::new(column, batch.column(column.source).as_ref()))
            .collect();
        let rows = Rows::new(layout, &prepared, batch);
        let rows_per_frame = (BODIES_BYTES_MAX / rows.row_bytes_max()).max(1);
        self.aside.clear();
        for start in (0..batch.num_rows()).step_by(rows_per_frame) {
            let end = batch.num_rows().min(start + rows_per_frame);
            let aside_before = self.aside.len();
            let frame = frame::begin(out);
            let place = cursor::start(out, (end - start) * rows.row_bytes_max());
            let place = rows.write(start..end, place, &mut self.aside);
            // SAFETY: no row is longer than was said.
            unsafe { cursor::finish(out, place) };
            let written = end - start - (self.aside.len() - aside_before);
            if written == 0 {
                out.truncate(frame);
            } else {
                frame::end(out, frame, Kind::Bodies, written, &mut self.packer)?;
            }
        }
        Ok(())
    }

    fn out_of_band(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let rows = batch.num_rows();
        if rows > 1 && self.out_of_band.bytes_max(batch) > OUT_OF_BAND_BYTES {
            let half = rows / 2;
            self.out_of_band(&batch.slice(0, half), out)?;
            return self.out_of_band(&batch.slice(half, rows - half), out);
        }
        if rows > 0 {
            let frame = frame::begin(out);
            self.out_of_band.encode(batch, out)?;
            frame::end(out, frame, Kind::CopyBinary, rows, &mut self.packer)?;
        }
        Ok(())
    }
}

impl Encoder for DirectEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let Some(layout) = self.layout.take() else {
            return self.out_of_band(batch, out);
        };
        let written = self.bodies(&layout, batch, out);
        self.layout = Some(layout);
        written?;
        if self.aside.is_empty() {
            return Ok(());
        }
        let aside = UInt32Array::from(std::mem::take(&mut self.aside));
        let rows = take_record_batch(batch, &aside)
            .map_err(|error| Error::usage(format!("rows out of band: {error}")))?;
        self.out_of_band(&rows, out)
    }
}
