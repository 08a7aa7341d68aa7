//! What every destination implements while rows are loaded.
//!
//! A [`Sink`] prepares, opens a [`Writer`] for each stream, publishes, and aborts. Optional capabilities
//! are traits, queried once: [`Resumable`], [`Judging`], [`Verifying`], [`Gathers`],
//! [`RejectsViolations`], [`Throttled`], [`Packs`], [`Paced`], [`Observed`]. A run works without any of them.
//!
//! The order of calls: [`Sink::prepare`], or [`Resumable::attempt`] where a run is resumed;
//! [`Sink::open`] for each stream, [`Writer`]'s calls piece by piece, [`Sink::publish`] once.
//! [`Sink::abort`] instead of it leaves no trace, [`Resumable::leave`] leaves what is committed, to
//! be resumed.

pub mod arrow_stream;
mod capabilities;
mod null;
mod parquet_files;

use std::sync::Arc;

use arrow_array::RecordBatch;
use fullbore_parse::{Counts, Lane};
use fullbore_read::FileRange;
use fullbore_read::error::{Error, Result};
use fullbore_record::observe::Observed;
use fullbore_record::{Event, Phase};

pub use capabilities::{
    Gatherer, Gathers, IsWanted, Judging, LoadState, Overload, Paced, Packed, Packs, Proven,
    Refusal, RejectsViolations, Reread, Resumable, Summer, TextRows, Throttled, Verifying,
};
pub use null::{Counting, Null};
pub use parquet_files::ParquetFiles;

use crate::plan::{Plan, PlannedPiece};
use crate::sums::Sums;

/// Turns batches into what is sent; one for each parser and table.
pub trait Encoder: Send {
    /// Appends a batch's rows to `out`. A batch of [`Lane::Text`] has text columns only.
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
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

/// One stream's way into the destination.
pub trait Writer: Send {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()>;
    /// Sends encoded rows of [`Lane::Binary`].
    fn write(&mut self, encoded: &[u8]) -> Result<()>;
    /// The same writer for rows of [`Lane::Text`], where the destination can judge them.
    fn judging(&mut self) -> Option<&mut dyn Judging> {
        None
    }
    /// Commits the piece, and with it what the ledger says of it.
    fn commit(&mut self, portion: &Portion) -> Result<Receipt>;
    /// Takes back what the piece had sent; the writer can begin another.
    fn rollback(&mut self) -> Result<()>;
    /// So much of the piece's source is sent.
    fn sent(&mut self, _source_bytes: u64) {}
    /// Its connection broke, and it is used no more.
    fn lose(&mut self, _why: &Error) {}
    /// The way that its last piece took, where there are several.
    fn endpoint(&self) -> Option<&str> {
        None
    }
}

/// A place that batches are loaded into.
pub trait Sink: Send + Sync {
    /// Makes what must be there before the first piece.
    fn prepare(&self, plan: &Plan) -> Result<()>;
    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>>;
    fn open<'a>(&'a self, plan: &Arc<Plan>, stream: usize) -> Result<Box<dyn Writer + 'a>>;
    /// Publishes the rows of these pieces, which are all; returns the phases it went through.
    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>>;
    /// Takes away every trace of the run; returns what could not be taken away.
    fn abort(&self, plan: &Plan) -> Vec<String>;
    /// What lies behind an error that ends the run, where that can be said.
    fn explain(&self, error: Error) -> Error {
        error
    }
    /// Its ledger of committed pieces, where it keeps one.
    fn resumable(&self) -> Option<&dyn Resumable> {
        None
    }
    /// What it can prove of the rows.
    fn verifying(&self) -> Option<&dyn Verifying> {
        None
    }
    /// What it wants to know of all rows.
    fn gathers(&self) -> Option<&dyn Gathers> {
        None
    }
    /// Its constraints, where rows that violate them can be taken out before publishing.
    fn rejects_violations(&self) -> Option<&dyn RejectsViolations> {
        None
    }
    /// Its limits of `--pause-when`, where it has any.
    fn throttled(&self) -> Option<&dyn Throttled> {
        None
    }
    /// The forms that rows can take on their way, where there are several.
    fn packs(&self) -> Option<&dyn Packs> {
        None
    }
    /// Its connections, where they go over a network.
    fn paced(&self) -> Option<&dyn Paced> {
        None
    }
    /// What happened at its end since it was asked last.
    fn news(&self) -> Vec<Event> {
        Vec::new()
    }
    /// What can be seen of it while the streams load.
    fn observed(&self) -> Option<&dyn Observed> {
        None
    }
}
