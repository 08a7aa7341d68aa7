//! Rows in the order of some of their columns: an external merge sort.
//!
//! The sources of a load are parsed by an ordinary run whose sink is [`Sorted`]: each stream collects rows until its
//! share of the memory is full, sorts them, and writes them to a temporary file, a *run*. [`Sorted::merged`] then
//! gives all rows once more, in their order, as a stream of batches that another load reads. Runs are merged
//! many at a time; where there are more, some are merged into longer ones before.

mod keys;
mod merge;
mod spill;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use fullbore_parse::Lane;
use fullbore_read::error::{Error, Result};
use fullbore_record::Phase;

use crate::plan::{Plan, PlannedPiece, TablePlan};
use crate::sink::arrow_stream::{self, ArrowEncoder};
use crate::sink::{Committed, Encoder, Portion, Receipt, Sink, Writer};
use keys::Keys;
pub use keys::SortKey;
use merge::Merged;
use spill::Run;

/// Runs that are merged at a time. Each has a block of rows in memory.
const MERGED_AT_ONCE: usize = 128;

/// What else a row takes in memory while it is sorted, in bytes: its key, its place, and a copy of it in the block that is
/// written next. Of the memory, so much of it is left to that.
const ROWS_SHARE: f64 = 0.5;

/// A sink that keeps all rows, to give them in an order.
pub struct Sorted {
    /// Where runs are written.
    folder: PathBuf,
    /// Bytes that rows take in memory, of all streams.
    memory: usize,
    /// By the plan's table.
    keys: Vec<Vec<SortKey>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Runs by table, and the streams that write.
    runs: Vec<Vec<Run>>,
    streams: usize,
    failed: Option<Error>,
}

/// What the rows of a table were sorted into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    pub rows: u64,
    /// Bytes of all runs in files.
    pub spilled: u64,
    pub runs: usize,
}

impl Sorted {
    /// `keys`: of each table of the plan that is run.
    pub fn new(folder: PathBuf, memory: u64, keys: Vec<Vec<SortKey>>) -> Self {
        let runs = keys.iter().map(|_| Vec::new()).collect();
        let state = State { runs, ..State::default() };
        Self { folder, memory: memory as usize, keys, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: impl std::fmt::Display) -> Error {
        Error::Write {
            path: self.folder.clone(),
            source: std::io::Error::other(format!("rows could not be sorted: {error}")),
        }
    }

    /// Bytes that one stream collects.
    fn share(&self) -> usize {
        let streams = self.lock().streams.max(1);
        (self.memory as f64 * ROWS_SHARE) as usize / streams
    }

    /// Sorts batches into a run.
    fn keep(&self, table: usize, schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        let run = self.keys_of(table, schema).and_then(|keys| {
            let blocks = keys.sorted(batches)?;
            Run::write(&self.folder, schema, blocks)
        });
        let run = run.map_err(|error| self.failed(error))?;
        tracing::debug!(table, rows = run.rows, bytes = run.bytes, "sorted a run");
        let mut state = self.lock();
        state.runs[table].push(run);
        if state.runs[table].len() < 2 * MERGED_AT_ONCE {
            return Ok(());
        }
        let some = state.runs[table].drain(..MERGED_AT_ONCE).collect();
        drop(state);
        let longer = self.longer(table, schema, some)?;
        self.lock().runs[table].push(longer);
        Ok(())
    }

    /// The rows of some runs in their order.
    fn merge(&self, table: usize, schema: &SchemaRef, runs: Vec<Run>) -> Result<Merged> {
        let merged = self.keys_of(table, schema).and_then(|keys| Merged::of(keys, schema, runs));
        merged.map_err(|error| self.failed(error))
    }

    /// Some runs as one.
    fn longer(&self, table: usize, schema: &SchemaRef, runs: Vec<Run>) -> Result<Run> {
        let merged = self.merge(table, schema, runs)?;
        Run::write(&self.folder, schema, merged).map_err(|error| self.failed(error))
    }

    fn keys_of(&self, table: usize, schema: &SchemaRef) -> Result<Keys, ArrowError> {
        Keys::new(&self.keys[table], schema)
    }

    /// How much a table's rows are.
    pub fn extent(&self, table: usize) -> Extent {
        let state = self.lock();
        let runs = state.runs[table].iter();
        runs.fold(Extent::default(), |all, run| Extent {
            rows: all.rows + run.rows,
            spilled: all.spilled + run.bytes,
            runs: all.runs + 1,
        })
    }

    /// All rows of a table in their order, once.
    pub fn merged(
        &self,
        plan: &TablePlan,
        table: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>> {
        let schema = plan.shape.schema();
        let mut runs = std::mem::take(&mut self.lock().runs[table]);
        while runs.len() > MERGED_AT_ONCE {
            let count = MERGED_AT_ONCE.min(runs.len() - MERGED_AT_ONCE + 1);
            let some = runs.drain(..count).collect();
            runs.push(self.longer(table, &schema, some)?);
        }
        Ok(Box::new(self.merge(table, &schema, runs)?))
    }
}

impl Sink for Sorted {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let text = plan.tables.iter().find_map(|table| Some((table, table.why_text()?)));
        if let Some((table, why)) = text {
            return Err(Error::usage_with_hint(
                format!(
                    "{}: rows would go as text ({why}), whose order only the server knows",
                    table.name
                ),
                "omit --order-by or --as-text, or give the columns other types",
            ));
        }
        for (table, keys) in plan.tables.iter().zip(&self.keys) {
            Keys::new(keys, &table.shape.schema()).map_err(|error| {
                Error::usage_with_hint(
                    format!("{}: --order-by: {error}", table.name),
                    "name columns that are loaded, of types that have an order",
                )
            })?;
        }
        std::fs::create_dir_all(&self.folder)
            .map_err(|source| Error::Write { path: self.folder.clone(), source })
    }

    fn encoder(&self, _: &Plan, _: usize, _: Lane) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(ArrowEncoder))
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        self.lock().streams += 1;
        Ok(Box::new(Collector {
            sorted: self,
            plan: plan.clone(),
            table: 0,
            batches: Vec::new(),
            bytes: 0,
            receipt: Receipt::default(),
        }))
    }

    fn publish(&self, _: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        self.lock().failed.take().map_or(Ok(Vec::new()), Err)
    }

    /// Files without names go with whoever has opened them.
    fn abort(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }
}

/// Collects the rows of a stream.
struct Collector<'a> {
    sorted: &'a Sorted,
    plan: Arc<Plan>,
    /// Of the piece that is collected.
    table: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    receipt: Receipt,
}

impl Collector<'_> {
    fn sort(&mut self) -> Result<()> {
        self.bytes = 0;
        let batches = std::mem::take(&mut self.batches);
        self.sorted.keep(self.table, &self.plan.tables[self.table].shape.schema(), batches)
    }
}

impl Writer for Collector<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        if piece.table != self.table {
            self.sort()?;
            self.table = piece.table;
        }
        self.receipt = Receipt::default();
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        for batch in arrow_stream::read(encoded)? {
            self.receipt.rows += batch.num_rows() as u64;
            self.batches.push(batch);
        }
        self.bytes += encoded.len();
        self.receipt.bytes_sent += encoded.len() as u64;
        if self.bytes >= self.sorted.share() { self.sort() } else { Ok(()) }
    }

    fn commit(&mut self, _: &Portion) -> Result<Receipt> {
        Ok(self.receipt)
    }

    /// Rows of the piece are in runs already: the whole is sorted again.
    fn rollback(&mut self) -> Result<()> {
        if self.receipt.rows > 0 {
            let lost = self.sorted.failed("a piece was given up");
            self.sorted.lock().failed.get_or_insert(lost);
        }
        Ok(())
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.sort() {
            self.sorted.lock().failed.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests;
