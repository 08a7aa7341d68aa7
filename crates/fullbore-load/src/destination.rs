//! What every destination implements.
//!
//! The order of calls: the target is described while planning; then [`Destination::prepare`], or
//! [`Destination::attempt`] where a run goes on; [`Destination::open`] for each stream, [`Writer`]'s
//! calls piece by piece, [`Destination::publish`] once. [`Destination::abort`] instead of it leaves
//! no trace, [`Destination::leave`] leaves what is committed, to be gone on with.

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_parse::{Counts, Lane};
use fullbore_read::FileRange;
use fullbore_read::error::{Error, Result};
use fullbore_record::Phase;
use fullbore_record::observe::Observed;

use crate::plan::{Plan, PlannedPiece};
use crate::sums::Sums;

/// Turns batches into what is sent; one for each parser and table.
pub trait Encoder: Send {
    /// Appends a batch's rows to `out`. A batch of [`Lane::Text`] has text columns only.
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
}

/// Makes the sums of batches; one for each parser and table.
pub trait Summer: Send {
    fn sums(&mut self, batch: &RecordBatch) -> Sums;
}

/// Rows for the destination to judge one by one: lines of COPY's text format.
#[derive(Debug, Clone, Copy)]
pub struct TextRows<'a> {
    /// Whole lines each; one after the other they are all rows.
    pub parts: &'a [&'a [u8]],
    pub rows: u64,
}

/// A row that the destination refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its place among the [`TextRows`], from 0.
    pub row: u64,
    pub column: Option<String>,
    pub value: Option<String>,
    /// The constraint that the row breaks, where it is one.
    pub constraint: Option<String>,
    pub code: String,
    pub reason: String,
}

/// What the destination confirms of a committed piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Receipt {
    pub rows: u64,
    pub bytes_sent: u64,
}

/// What a piece was read from, and what became of it: its row of the ledger says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Portion {
    pub rejected: u64,
    /// What of it was passed over, padded or cut; the ledger does not keep that.
    pub counts: Counts,
    /// Bytes of source, after decompression.
    pub bytes: u64,
    /// The stretches of the table's files, in the order in which they were read; of a file that was
    /// read to its end the last one ends at `u64::MAX`.
    pub ranges: Vec<FileRange>,
    /// CRC-64/NVME of these bytes, one stretch after the other, as they were parsed; none for
    /// sources that aren't text.
    pub checksum: Option<u64>,
    /// Rows that were sent and not refused: what the destination must have counted too.
    pub rows_sent: u64,
    /// The sums of the rows that were sent typed, where the destination asked for them.
    pub sums: Option<Sums>,
}

/// A piece that the destination says is committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    pub piece: usize,
    pub table: usize,
    pub rows: u64,
    pub portion: Portion,
}

/// Where a run stands that is gone on with.
#[derive(Debug, Default)]
pub struct Standing {
    pub committed: Vec<Committed>,
    /// Its rows are shown already: only what comes after that is left to do.
    pub is_published: bool,
}

/// One stream's way into the destination.
pub trait Writer: Send {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()>;
    /// Begins a piece all of whose rows are judged, each by all that the table asks of its rows:
    /// sent as a whole, it or pieces before it were refused, as `because` says.
    fn begin_carefully(&mut self, piece: &PlannedPiece, _because: &str) -> Result<()> {
        self.begin(piece)
    }
    /// Sends encoded rows of [`Lane::Binary`].
    fn write(&mut self, encoded: &[u8]) -> Result<()>;
    /// Sends rows as text; those that were refused come back, the others are in.
    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>>;
    /// Whether it can tell good rows from bad ones, so that a piece may go as text altogether.
    fn can_judge(&self) -> bool {
        true
    }
    /// Commits the piece, and with it what the ledger says of it.
    fn commit(&mut self, portion: &Portion) -> Result<Receipt>;
    /// Takes back what the piece had sent; the writer can begin another.
    fn rollback(&mut self) -> Result<()>;
}

/// The sources of a run, read once more: for rows that were loaded and can't stay.
pub trait Reread {
    /// Reads a table's sources in the order of its files and their lines. Rows that were rejected
    /// are passed over, and of the others those that `is_wanted` does not want, by the batch; it is
    /// not asked about rows that only the destination can read, which are all given. What is left comes
    /// to `take`; its rows count from 0 through all calls.
    fn rows(
        &mut self,
        table: usize,
        is_wanted: &mut dyn FnMut(&RecordBatch) -> Result<Vec<bool>>,
        take: &mut dyn FnMut(TextRows<'_>) -> Result<()>,
    ) -> Result<()>;
    /// How many more rows may be rejected: of more refusals than that, one tells all.
    fn room(&self) -> u64;
    /// Rejects some of the rows that [`Reread::rows`] gave last, and makes that safe: by pieces, how
    /// many. An error where they are too many.
    fn refuse(&mut self, table: usize, refusals: Vec<Refusal>) -> Result<Vec<(usize, u64)>>;
}

/// What a destination has proved of a run's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proven {
    /// Columns of which every value was compared; 0 where only rows were counted.
    pub columns: u64,
    /// Rows that the target itself kept out, by its triggers.
    pub rows_kept_out: u64,
    /// Rows that were sifted: their own sums, which the destination made, were taken out of those of
    /// the whole.
    pub rows_sifted: u64,
    /// What was not covered, and why.
    pub not_covered: Vec<String>,
    /// Rows that were counted in their tables.
    pub rows_counted: u64,
    /// Rows in tables from which, as the destination's own statistics have it, nothing was taken.
    pub rows_unchanged: u64,
    /// What was not counted there, and why.
    pub not_counted: Vec<String>,
}

/// What is past a limit of `--pause-when`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strain {
    /// In words; none where no limit is passed.
    pub reasons: Vec<String>,
    /// Something is past its limit that does not move on while a transaction of the load is open.
    pub needs_commits: bool,
}

/// A place that batches are loaded into.
pub trait Destination: Send + Sync {
    /// Makes what must be there before the first piece.
    fn prepare(&self, plan: &Plan) -> Result<()>;
    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>>;
    /// Makes the sums of what is sent typed, where every value is to be verified.
    fn summer(&self, _: &Plan, _table: usize) -> Result<Option<Box<dyn Summer>>> {
        Ok(None)
    }
    fn open<'a>(&'a self, plan: &Arc<Plan>, stream: usize) -> Result<Box<dyn Writer + 'a>>;
    /// Begins another attempt of a run that was begun before: says what is committed, and sees to
    /// it that nothing which an earlier attempt has under way can still be. Only a destination that
    /// keeps a ledger is asked.
    fn attempt(&self, _: &Plan) -> Result<Standing> {
        Ok(Standing::default())
    }
    /// What can be seen of it while the streams load, if anything.
    fn observed(&self) -> Option<&dyn Observed> {
        None
    }
    /// Shows the rows of these pieces, which are all; returns the phases it went through.
    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>>;
    /// Takes rows that keep the others from being shown out of what was loaded and rejects them, the
    /// first of the rows that can't be together staying; whether there were any. Asked where a
    /// constraint made [`Destination::publish`] fail, which is tried again afterwards.
    fn sift(&self, _: &Plan, _: &[Committed], _: &mut dyn Reread) -> Result<bool> {
        Ok(false)
    }
    /// What it proved while it published, beyond counts.
    fn verified(&self) -> Proven {
        Proven::default()
    }
    /// What lies behind an error that ends the run, where it can be told.
    fn explain(&self, error: Error) -> Error {
        error
    }
    /// Whether the run's rows are shown already: what failed afterwards takes nothing back. `None` where
    /// the answer was lost.
    fn is_published(&self) -> Option<bool> {
        Some(false)
    }
    /// Takes away every trace of the run; returns what could not be taken away.
    fn abort(&self, plan: &Plan) -> Vec<String>;
    /// What is past a limit of `--pause-when` now; asked for only where there are limits.
    fn strain(&self, _: &Plan) -> Result<Strain> {
        Ok(Strain::default())
    }
    /// Leaves the run so that it can be resumed.
    fn leave(&self, _: &Plan) {}
}
