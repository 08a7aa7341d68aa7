//! A sink that discards all rows, to measure the path to a destination.

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_parse::Lane;
use fullbore_read::error::Result;
use fullbore_record::Phase;

use super::{Committed, Encoder, Judging, Portion, Receipt, Refusal, Sink, TextRows, Writer};
use crate::plan::{Plan, PlannedPiece};

/// Makes the encoder of a table.
pub type EncoderOf = dyn Fn(&Plan, usize, Lane) -> Box<dyn Encoder> + Send + Sync;

/// Encodes rows and throws them away.
pub struct Null {
    pub encoder_of: Box<EncoderOf>,
}

impl Sink for Null {
    fn prepare(&self, _: &Plan) -> Result<()> {
        Ok(())
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(Counting((self.encoder_of)(plan, table, lane))))
    }

    fn open<'a>(&'a self, _: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(NullWriter::default()))
    }

    fn publish(&self, _: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        Ok(Vec::new())
    }

    fn abort(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }
}

/// Puts the number of rows before each encoded batch, for a writer that can't count them.
pub struct Counting(pub Box<dyn Encoder>);

impl Counting {
    /// The number of rows and the rows themselves, of what such an encoder wrote; `None` where it wrote
    /// nothing.
    pub fn apart(encoded: &[u8]) -> Option<(u64, &[u8])> {
        let (count, rows) = encoded.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*count), rows))
    }
}

impl Encoder for Counting {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&(batch.num_rows() as u64).to_le_bytes());
        self.0.encode(batch, out)
    }
}

#[derive(Default)]
struct NullWriter {
    receipt: Receipt,
}

impl Writer for NullWriter {
    fn begin(&mut self, _: &PlannedPiece) -> Result<()> {
        self.receipt = Receipt::default();
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        if let Some((rows, _)) = Counting::apart(encoded) {
            self.receipt.rows += rows;
        }
        self.receipt.bytes_sent += encoded.len() as u64;
        Ok(())
    }

    fn judging(&mut self) -> Option<&mut dyn Judging> {
        Some(self)
    }

    fn commit(&mut self, _: &Portion) -> Result<Receipt> {
        Ok(self.receipt)
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Accepts whatever comes: text costs no more here than it takes to write it.
impl Judging for NullWriter {
    /// Every row is judged by itself anyway.
    fn begin_row_by_row(&mut self, piece: &PlannedPiece, _: &str) -> Result<()> {
        self.begin(piece)
    }

    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        self.receipt.rows += rows.rows;
        Ok(Vec::new())
    }
}
