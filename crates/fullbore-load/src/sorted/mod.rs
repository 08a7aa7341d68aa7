//! Rows in the order of some of their columns: an external merge sort.
//!
//! The sources of a load are parsed by an ordinary run whose sink is [`Sorted`]: each stream collects rows until its
//! share of the memory is full, sorts them, and writes them to a temporary file, a *run*. [`Sorted::merged`] then
//! gives all rows once more, in their order, as a stream of batches that another load reads. Runs are merged
//! many at a time; where there are more, some are merged into longer ones before.

mod bytes;
mod keys;
mod merge;
mod records;
mod sort;
mod spill;
mod values;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ArrowError;
use fullbore_parse::Lane;
use fullbore_parse::types::FieldType;
use fullbore_read::error::{Error, Result};
use fullbore_record::Phase;

use crate::plan::{Plan, PlannedPiece, TablePlan};
use crate::sink::{Committed, Encoder, Portion, Receipt, Sink, Writer};
pub use keys::SortKey;
use merge::{Merge, Merged};
use records::Form;
use sort::{BYTES_MAX, Unsorted};
use spill::{Run, RunWriter};

/// Runs that are merged at a time at most. Each is an open file, of which processes often have 1,024.
const MERGED_AT_ONCE: usize = 128;

/// Of the memory, how much is for rows: what was read and not yet sorted needs some, too.
const ROWS_SHARE: f64 = 0.8;

/// A sink that keeps all rows, to give them in an order.
pub struct Sorted {
    /// Where runs are written.
    folder: PathBuf,
    /// Bytes that rows take in memory, of all streams.
    memory: usize,
    /// By the plan's table.
    keys: Vec<Vec<SortKey>>,
    /// Shows rejected rows that have no text of their own.
    lines: fn() -> Box<dyn Encoder>,
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
    pub fn new(
        folder: PathBuf,
        memory: u64,
        keys: Vec<Vec<SortKey>>,
        lines: fn() -> Box<dyn Encoder>,
    ) -> Self {
        let runs = keys.iter().map(|_| Vec::new()).collect();
        let state = State { runs, ..State::default() };
        Self { folder, memory: memory as usize, keys, lines, state: Mutex::new(state) }
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
        ((self.memory as f64 * ROWS_SHARE) as usize / streams).min(BYTES_MAX)
    }

    /// Sorts rows into a run.
    fn keep(&self, table: usize, unsorted: &mut Unsorted) -> Result<()> {
        if unsorted.rows == 0 {
            return Ok(());
        }
        let run = RunWriter::new(&self.folder).and_then(|run| unsorted.write(run));
        let run = run.map_err(|error| self.failed(error))?;
        unsorted.shrink(self.share());
        tracing::debug!(table, rows = run.rows, bytes = run.bytes, "sorted a run");
        let mut state = self.lock();
        state.runs[table].push(run);
        if state.runs.iter().map(Vec::len).sum::<usize>() < 2 * MERGED_AT_ONCE {
            return Ok(());
        }
        let Some((table, runs)) =
            state.runs.iter_mut().enumerate().max_by_key(|(_, runs)| runs.len())
        else {
            return Ok(());
        };
        let some = runs.drain(..self.at_once(runs).min(runs.len())).collect();
        drop(state);
        let longer = self.longer(some)?;
        self.lock().runs[table].push(longer);
        Ok(())
    }

    /// How many of these runs are merged at a time: a quarter of the memory is for what is read of them.
    fn at_once(&self, runs: &[Run]) -> usize {
        let of_one = runs.iter().map(Run::memory).max().unwrap_or(1);
        (self.memory / 4 / of_one).clamp(4, MERGED_AT_ONCE)
    }

    /// Some runs as one.
    fn longer(&self, runs: Vec<Run>) -> Result<Run> {
        let run = RunWriter::new(&self.folder);
        run.and_then(|run| Merge::of(runs)?.write(run)).map_err(|error| self.failed(error))
    }

    fn form(&self, plan: &TablePlan, table: usize) -> Result<Form, ArrowError> {
        Form::new(&self.keys[table], &plan.shape.schema())
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
        let mut runs = std::mem::take(&mut self.lock().runs[table]);
        loop {
            let at_once = self.at_once(&runs);
            if runs.len() <= at_once {
                break;
            }
            let count = at_once.min(runs.len() - at_once + 1);
            let some = runs.drain(..count).collect();
            runs.push(self.longer(some)?);
        }
        let form = self.form(plan, table).map_err(|error| self.failed(error))?;
        Ok(Box::new(Merged::new(plan.shape.schema(), form, runs)))
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
        for (number, table) in plan.tables.iter().enumerate() {
            for key in &self.keys[number] {
                let column = table.shape.columns.iter().find(|column| column.name == key.column);
                if let Some(type_name) = column.and_then(|column| unordered(&column.field_type)) {
                    return Err(Error::usage_with_hint(
                        format!(
                            "{}: --order-by {}: only the server knows the order of {type_name}",
                            table.name, key.column
                        ),
                        "order by other columns; of numbers, give the column a precision of 38 digits at most",
                    ));
                }
            }
            self.form(table, number).map_err(|error| {
                Error::usage_with_hint(
                    format!("{}: --order-by: {error}", table.name),
                    "name columns that are loaded, of types that have an order",
                )
            })?;
        }
        std::fs::create_dir_all(&self.folder)
            .map_err(|source| Error::Write { path: self.folder.clone(), source })
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        match lane {
            Lane::Binary => {
                let form = self.form(&plan.tables[table], table);
                Ok(Box::new(RecordEncoder(form.map_err(|error| self.failed(error))?)))
            }
            Lane::Text => Ok((self.lines)()),
        }
    }

    fn open<'a>(&'a self, _: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        self.lock().streams += 1;
        Ok(Box::new(Collector {
            sorted: self,
            table: 0,
            unsorted: Unsorted::default(),
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

/// Rows as records. Parsers write them: it is they that are many.
struct RecordEncoder(Form);

impl Encoder for RecordEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let written = self.0.write(batch, out);
        written.map_err(|error| Error::usage(format!("rows could not be sorted: {error}")))
    }
}

/// Collects the rows of a stream.
struct Collector<'a> {
    sorted: &'a Sorted,
    /// Of the piece that is collected.
    table: usize,
    unsorted: Unsorted,
    receipt: Receipt,
}

impl Collector<'_> {
    fn sort(&mut self) -> Result<()> {
        self.sorted.keep(self.table, &mut self.unsorted)
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
        let share = self.sorted.share();
        let rows = self.unsorted.add(encoded, share).map_err(|error| self.sorted.failed(error))?;
        self.receipt.rows += rows as u64;
        self.receipt.bytes_sent += encoded.len() as u64;
        if self.unsorted.memory() >= share { self.sort() } else { Ok(()) }
    }

    fn commit(&mut self, portion: &Portion) -> Result<Receipt> {
        if portion.rows_sent != self.receipt.rows {
            let (sent, kept) = (portion.rows_sent, self.receipt.rows);
            return Err(self.sorted.failed(format!("{sent} were sent, and {kept} arrived")));
        }
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
        self.sorted.lock().streams -= 1;
    }
}

/// Types that are carried as texts whose order is not theirs.
fn unordered(field_type: &FieldType) -> Option<&'static str> {
    match field_type {
        FieldType::NumericText { .. } => Some("numeric without a precision, or of over 38 digits"),
        FieldType::Enum { .. } => Some("enum types"),
        FieldType::Json | FieldType::Jsonb => Some("JSON"),
        FieldType::Array(item) => unordered(item),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
