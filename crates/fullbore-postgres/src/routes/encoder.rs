//! Encoded rows in frames, one for each partition that a batch has rows of: its number and how many bytes
//! its rows have, 32 bits each, and the rows as COPY takes them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_load::sink::Encoder;
use fullbore_read::error::{Error, Result};

use super::Routes;
use crate::encode_copy::BinaryEncoder;

const HEAD_BYTES: usize = 8;

pub struct RoutedEncoder {
    copy: BinaryEncoder,
    routes: Arc<Routes>,
    encoded: Vec<u8>,
}

/// Where a partition's rows go.
#[derive(Clone, Copy, Default)]
struct Share {
    bytes: usize,
    /// Where the next of them is written.
    at: usize,
}

impl RoutedEncoder {
    pub fn new(copy: BinaryEncoder, routes: Arc<Routes>) -> Self {
        Self { copy, routes, encoded: Vec::new() }
    }
}

impl Encoder for RoutedEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        self.encoded.clear();
        self.copy.encode(batch, &mut self.encoded)?;
        let leaves = self.routes.tree.find(batch).map_err(|error| Error::Client {
            message: format!("the partitions of rows can't be found: {error}"),
            hint: None,
        })?;
        let rows = rows_of(&self.encoded, batch.num_rows());
        let mut shares = vec![Share::default(); self.routes.count()];
        for (leaf, row) in leaves.iter().zip(&rows) {
            shares[*leaf as usize].bytes += row.len();
        }
        for (number, share) in shares.iter_mut().enumerate().filter(|(_, share)| share.bytes > 0) {
            for head in [number, share.bytes] {
                // A batch has far fewer than 2^32 of each.
                out.extend_from_slice(&(head as u32).to_le_bytes());
            }
            share.at = out.len();
            out.resize(out.len() + share.bytes, 0);
        }
        for (leaf, row) in leaves.iter().zip(rows) {
            let share = &mut shares[*leaf as usize];
            out[share.at..share.at + row.len()].copy_from_slice(row);
            share.at += row.len();
        }
        Ok(())
    }
}

/// The rows of a binary COPY: each has its number of fields, and each field's length and value.
fn rows_of(encoded: &[u8], count: usize) -> Vec<&[u8]> {
    let mut rows = Vec::with_capacity(count);
    let mut at = 0;
    for _ in 0..count {
        let start = at;
        let fields = u16::from_be_bytes([encoded[at], encoded[at + 1]]);
        at += 2;
        for _ in 0..fields {
            let length = [encoded[at], encoded[at + 1], encoded[at + 2], encoded[at + 3]];
            // -1 is NULL.
            at += 4 + i32::from_be_bytes(length).max(0) as usize;
        }
        rows.push(&encoded[start..at]);
    }
    rows
}

/// The frames of what [`RoutedEncoder`] wrote: a partition, and its rows.
pub fn frames(mut encoded: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
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
