//! Runs to one: of all their next rows the least, again and again.

use std::cmp::Ordering;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_row::Rows;
use arrow_schema::{ArrowError, SchemaRef};

use super::keys::{Keys, gathered};
use super::spill::{Reader, Run};

/// Rows of a batch that is given.
const ROWS: usize = 4096;

/// Where the next row of a run is.
struct Cursor {
    blocks: Reader,
    keys: Rows,
    row: usize,
    /// The place of its block among those that the next batch is made of.
    block: usize,
}

/// The rows of several runs in their order.
pub struct Merged {
    schema: SchemaRef,
    keys: Keys,
    cursors: Vec<Cursor>,
    /// Numbers of cursors, as a heap: none comes before the one at half its place.
    heap: Vec<usize>,
    /// Blocks that rows of the next batch are in.
    blocks: Vec<RecordBatch>,
}

impl Merged {
    pub fn of(keys: Keys, schema: &SchemaRef, runs: Vec<Run>) -> Result<Self, ArrowError> {
        let mut merged = Self {
            schema: schema.clone(),
            keys,
            cursors: Vec::new(),
            heap: Vec::new(),
            blocks: Vec::new(),
        };
        for run in runs {
            let mut blocks = run.read()?;
            if let Some(block) = blocks.next().transpose()? {
                let keys = merged.keys.of(&block)?;
                merged.heap.push(merged.cursors.len());
                merged.cursors.push(Cursor { blocks, keys, row: 0, block: merged.blocks.len() });
                merged.blocks.push(block);
            }
        }
        for place in (0..merged.heap.len()).rev() {
            merged.sink(place);
        }
        Ok(merged)
    }

    /// Whether the next row of one run comes before that of another; of rows that are alike, that of the earlier run.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let (first, second) = (&self.cursors[one], &self.cursors[other]);
        match first.keys.row(first.row).cmp(&second.keys.row(second.row)) {
            Ordering::Less => true,
            Ordering::Equal => one < other,
            Ordering::Greater => false,
        }
    }

    /// Moves what stands at a place of the heap down until nothing below it comes before it.
    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let mut first = place;
            for child in [left, right] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }

    /// Takes the least row: the place of its block, and its own in it.
    fn take(&mut self) -> Result<Option<(usize, usize)>, ArrowError> {
        let Some(&number) = self.heap.first() else { return Ok(None) };
        let cursor = &mut self.cursors[number];
        let taken = (cursor.block, cursor.row);
        cursor.row += 1;
        if cursor.row == cursor.keys.num_rows() {
            match cursor.blocks.next().transpose()? {
                Some(block) => {
                    cursor.keys = self.keys.of(&block)?;
                    (cursor.row, cursor.block) = (0, self.blocks.len());
                    self.blocks.push(block);
                }
                None => {
                    self.heap.swap_remove(0);
                }
            }
        }
        if !self.heap.is_empty() {
            self.sink(0);
        }
        Ok(Some(taken))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut places = Vec::with_capacity(ROWS);
        while places.len() < ROWS {
            match self.take()? {
                Some(place) => places.push(place),
                None => break,
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let batch = gathered(&self.blocks, &places)?;
        // Blocks that still have rows stay.
        let mut kept = Vec::with_capacity(self.heap.len());
        for number in &self.heap {
            let cursor = &mut self.cursors[*number];
            kept.push(self.blocks[cursor.block].clone());
            cursor.block = kept.len() - 1;
        }
        self.blocks = kept;
        Ok(Some(batch))
    }
}

impl Iterator for Merged {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

impl RecordBatchReader for Merged {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
