//! Encoded rows in parcels, one for each partition that a batch has rows of: its number and how many bytes
//! its rows have, 32 bits each, and the rows as they are sent there.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use fullbore_load::sink::Encoder;
use fullbore_read::error::{Error, Result};

use super::{PARENT, Routes};
use crate::encode_copy::BinaryEncoder;

const HEAD_BYTES: usize = 8;

pub struct RoutedEncoder {
    /// Of rows that go to a partition, where that is not done by COPY.
    direct: Option<Box<dyn Encoder>>,
    copy: BinaryEncoder,
    routes: Arc<Routes>,
}

impl RoutedEncoder {
    pub fn new(direct: Option<Box<dyn Encoder>>, copy: BinaryEncoder, routes: Arc<Routes>) -> Self {
        Self { direct, copy, routes }
    }
}

fn lost(error: arrow_schema::ArrowError) -> Error {
    Error::Client { message: format!("the partitions of rows can't be found: {error}"), hint: None }
}

impl Encoder for RoutedEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let leaves = self.routes.tree.find(batch).map_err(lost)?;
        // Where the rows of each begin, once they are in the order of their partitions.
        let mut begins = vec![0; self.routes.count() + 1];
        for leaf in &leaves {
            begins[*leaf as usize + 1] += 1;
        }
        for number in 1..begins.len() {
            begins[number] += begins[number - 1];
        }
        let mut order = vec![0; leaves.len()];
        let mut next = begins.clone();
        for (row, leaf) in (0u32..).zip(&leaves) {
            let at = &mut next[*leaf as usize];
            order[*at] = row;
            *at += 1;
        }
        let rows = take_record_batch(batch, &UInt32Array::from(order)).map_err(lost)?;
        for (number, bounds) in begins.windows(2).enumerate() {
            if bounds[0] == bounds[1] {
                continue;
            }
            let head = out.len();
            out.extend_from_slice(&[0; HEAD_BYTES]);
            let its = rows.slice(bounds[0], bounds[1] - bounds[0]);
            match &mut self.direct {
                Some(direct) if number != PARENT as usize => direct.encode(&its, out)?,
                _ => self.copy.encode(&its, out)?,
            }
            // A batch has far fewer than 2^32 of each.
            let bytes = out.len() - head - HEAD_BYTES;
            out[head..head + 4].copy_from_slice(&(number as u32).to_le_bytes());
            out[head + 4..head + HEAD_BYTES].copy_from_slice(&(bytes as u32).to_le_bytes());
        }
        Ok(())
    }
}

/// The parcels of what [`RoutedEncoder`] wrote: a partition, and its rows.
pub fn parcels(mut encoded: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = encoded.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let (rows, rest) = rest.split_at(number(4));
        encoded = rest;
        Some((number(0), rows))
    })
}
