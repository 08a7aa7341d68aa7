//! What is noted of all rows that pass, and the sample that is drawn of them.

use std::any::Any;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal64Type;
use arrow_array::{Array, RecordBatch};
use fullbore_load::sink::Gatherer;
use fullbore_parse::types::FieldType;
use fullbore_read::error::Result;

use super::distinct::Distinct;
use super::order::Order;
use super::sample::Sample;
use crate::verify::column::{SummedColumn, hashes};
use crate::verify::hash::{Hash, PlainCrc};

/// A column that statistics are made of.
#[derive(Debug, Clone)]
pub struct Column {
    /// How its values are hashed: as they will be stored.
    pub hashed: SummedColumn,
    pub order: Order,
}

/// What is known of one column's values.
#[derive(Default)]
pub struct Tally {
    pub nulls: u64,
    /// Of all values, where their lengths differ.
    pub bytes: u64,
    pub distinct: Distinct,
}

/// What is known of some rows.
pub struct Sketch {
    pub columns: Arc<[Column]>,
    pub rows: u64,
    pub tallies: Vec<Tally>,
    pub sample: Sample,
    /// Hashes of each column's small decimals, which are kept.
    small: Vec<Vec<u32>>,
    hashes: Vec<u32>,
}

impl Sketch {
    pub fn new(columns: Arc<[Column]>, sample_rows: usize) -> Self {
        Self {
            rows: 0,
            tallies: columns.iter().map(|_| Tally::default()).collect(),
            sample: Sample::new(sample_rows),
            small: vec![Vec::new(); columns.len()],
            hashes: Vec::new(),
            columns,
        }
    }

    /// Joins what is known of other rows, in which these are the part `number`.
    pub fn merge(&mut self, other: &Self, number: u64) -> Result<()> {
        self.rows += other.rows;
        for (tally, others) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.nulls += others.nulls;
            tally.bytes += others.bytes;
            tally.distinct.merge(&others.distinct);
        }
        self.sample.merge(&other.sample, number)
    }

    fn count(&mut self, batch: &RecordBatch) {
        #[cfg(target_arch = "x86_64")]
        {
            use crate::verify::fast_crc::{FastCrc, is_there};

            /// Compiled for processors of 2013 and later.
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,sse4.2")]
            fn fast(sketch: &mut Sketch, batch: &RecordBatch) {
                sketch.plainly::<FastCrc>(batch);
            }
            if is_there() {
                // SAFETY: the processor has the instructions.
                return unsafe { fast(self, batch) };
            }
        }
        self.plainly::<PlainCrc>(batch);
    }

    #[inline(always)]
    fn plainly<H: Hash>(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        self.hashes.resize(rows, 0);
        let columns = self.columns.iter().zip(batch.columns());
        let tallies = self.tallies.iter_mut().zip(&mut self.small);
        for ((column, array), (tally, small)) in columns.zip(tallies) {
            let array = array.as_ref();
            tally.nulls += array.null_count() as u64;
            tally.bytes += bytes(&column.hashed.field_type, array);
            match &column.hashed.field_type {
                // Of one scale: what differs are the units.
                FieldType::Decimal { precision: ..19, .. } => {
                    let values = array.as_primitive::<Decimal64Type>().values();
                    for (hash, value) in self.hashes.iter_mut().zip(values) {
                        *hash = H::word(*value as u64, 8);
                    }
                }
                _ => hashes::<H>(&column.hashed, small, array, &mut self.hashes),
            }
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => tally.distinct.add(&mut self.hashes),
                Some(valid) => {
                    let mut count = 0;
                    for row in valid.valid_indices() {
                        self.hashes[count] = self.hashes[row];
                        count += 1;
                    }
                    tally.distinct.add(&mut self.hashes[..count]);
                }
            }
        }
    }
}

/// Bytes of all values, where they are bytes.
fn bytes(field_type: &FieldType, array: &dyn Array) -> u64 {
    let between = |offsets: &[i32]| (offsets[array.len()] - offsets[0]) as u64;
    match field_type {
        FieldType::Text { .. } | FieldType::Json => {
            between(array.as_string::<i32>().value_offsets())
        }
        FieldType::Bytea => between(array.as_binary::<i32>().value_offsets()),
        _ => 0,
    }
}

impl Gatherer for Sketch {
    fn gather(&mut self, batch: &RecordBatch, block: u64) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows() as u64;
        self.count(batch);
        self.sample.add(batch, block)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
