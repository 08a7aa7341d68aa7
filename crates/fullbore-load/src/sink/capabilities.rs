//! Optional capabilities of a sink: each is a trait, queried once.

use std::any::Any;
use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use fullbore_read::error::Result;
use fullbore_record::Merged;
use fullbore_record::observe::socket::SocketNow;
use fullbore_record::terms::Codec;

use super::{Committed, Writer};
use crate::plan::{Plan, PlannedPiece};
use crate::sums::Sums;

/// A sink that keeps a ledger of committed pieces, and can so resume a run.
pub trait Resumable {
    /// Begins another attempt of a run that was begun before: says what is committed, and makes sure
    /// that nothing an earlier attempt has under way can still be committed.
    fn attempt(&self, plan: &Plan) -> Result<LoadState>;
    /// Whether the run's rows are published already: what failed afterwards takes nothing back. `None`
    /// where the answer was lost.
    fn is_published(&self) -> Option<bool>;
    /// Leaves the run so that it can be resumed.
    fn leave(&self, plan: &Plan);
}

/// The state of a run that is resumed.
#[derive(Debug, Default)]
pub struct LoadState {
    pub committed: Vec<Committed>,
    /// Its rows are published already: only what comes after that is left to do.
    pub is_published: bool,
}

/// A writer whose destination takes rows as text and says which of them it refuses.
pub trait Judging: Writer {
    /// Begins a piece all of whose rows are judged, each by everything the table asks of its rows:
    /// sent as a whole, it or pieces before it were refused, as `because` says.
    fn begin_row_by_row(&mut self, piece: &PlannedPiece, because: &str) -> Result<()>;
    /// Sends rows as text; those that were refused come back, the others are in.
    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>>;
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

/// A sink that proves that every value arrived.
pub trait Verifying {
    /// Sums the rows that are sent typed, where every value is to be verified.
    fn summer(&self, plan: &Plan, table: usize) -> Result<Option<Box<dyn Summer>>>;
    /// What was proved by the end of publishing, beyond counts.
    fn verified(&self) -> Proven;
}

/// Makes the sums of batches; one for each parser and table.
pub trait Summer: Send {
    fn sums(&mut self, batch: &RecordBatch) -> Sums;
}

/// A sink that makes statistics of the rows that it is sent.
pub trait Gathers: Sync {
    /// What notes rows of one piece of a table; none where nothing is noted of it. Rows that are judged as
    /// text pass it by.
    fn gatherer(&self, plan: &Plan, table: usize) -> Option<Box<dyn Gatherer>>;
    /// All that was noted of a piece, by as many as have parsed it, once it is committed.
    fn gathered(&self, piece: &Committed, noted: Vec<Box<dyn Gatherer>>);
}

/// Notes what passes of one piece; has one parser at a time.
pub trait Gatherer: Send {
    /// Notes the rows of a block. Blocks of all pieces have the order of their numbers, as far as there is one.
    fn gather(&mut self, batch: &RecordBatch, block: u64) -> Result<()>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// What a destination has proved of a run's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proven {
    /// Columns of which every value was compared; 0 where only rows were counted.
    pub columns: u64,
    /// Columns whose values were added up by both sides, beyond those.
    pub sums: u64,
    /// Rows that the target itself kept out, by its triggers.
    pub rows_kept_out: u64,
    /// Rows that were taken out before publishing: their own sums, which the destination made, were
    /// taken out of those of the whole.
    pub violations: u64,
    /// What was not covered, and why.
    pub not_covered: Vec<String>,
    /// Rows that were counted in their tables.
    pub rows_counted: u64,
    /// Rows in tables from which, as the destination's own statistics have it, nothing was taken.
    pub rows_unchanged: u64,
    /// What was not counted there, and why.
    pub not_counted: Vec<String>,
    /// What became of the rows of an upsert, by number of table.
    pub merged: BTreeMap<usize, Merged>,
}

/// A sink whose constraints are checked while it publishes.
pub trait RejectsViolations {
    /// Takes rows that keep the others from being published out of what was loaded and rejects them,
    /// the first of the rows that can't be together staying; whether there were any. Asked where a
    /// constraint made [`super::Sink::publish`] fail, which is tried again afterwards.
    fn reject_violations(
        &self,
        plan: &Plan,
        committed: &[Committed],
        sources: &mut dyn Reread,
    ) -> Result<bool>;
}

/// Of each row of a batch whether it is wanted.
pub type IsWanted<'a> = dyn Fn(&RecordBatch) -> Result<Vec<bool>> + Sync + 'a;

/// The sources of a run, read once more: for rows that were loaded and can't stay.
pub trait Reread {
    /// Reads a table's sources in the order of its files and their lines. Rows that were rejected
    /// are passed over, and of the others those that `is_wanted` does not want, by a batch of these columns (their
    /// numbers in the plan's shape; without any, of all of them), on several threads; it is not asked about rows that
    /// only the destination can read, which are all given. What is left comes to `take`; its rows count from 0
    /// through all calls.
    fn rows(
        &mut self,
        table: usize,
        columns: &[usize],
        is_wanted: &IsWanted<'_>,
        take: &mut dyn FnMut(TextRows<'_>) -> Result<()>,
    ) -> Result<()>;
    /// How many more rows may be rejected: of more refusals than that, one tells all.
    fn room(&self) -> u64;
    /// Rejects some of the rows that [`Reread::rows`] gave last, and makes that safe: by pieces, how
    /// many. An error where they are too many.
    fn refuse(&mut self, table: usize, refusals: Vec<Refusal>) -> Result<Vec<(usize, u64)>>;
}

/// A sink whose rows can take another form on their way, while they are sent.
pub trait Packs: Sync {
    /// Chooses the form to begin with, before the first row is encoded.
    fn begin(&self, plan: &Plan);
    /// What rows that enter directly can be packed with, `none` among them.
    fn codecs(&self) -> Vec<Codec>;
    /// Whether rows that enter by COPY can be sent as text instead.
    fn takes_text(&self) -> bool;
    /// What they are packed with now.
    fn codec(&self) -> Codec;
    /// What they are packed with from now on.
    fn pack(&self, codec: Codec);
    /// Has some of the next rows packed by each codec, to know what each makes of them.
    fn sample(&self);
    /// What a codec has made of these.
    fn sampled(&self, codec: Codec) -> Option<Packed>;
}

/// What packing makes of a byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packed {
    /// What is left of it.
    pub ratio: f64,
    pub seconds_per_byte: f64,
}

/// A sink with connections that go over a network.
pub trait Paced: Sync {
    /// The interface of this machine that they go by, where that is one.
    fn interface(&self) -> Option<String>;
    /// What the kernel says of those of streams.
    fn sockets(&self) -> Vec<(usize, SocketNow)>;
    /// Limits each of them to so many bytes a second, or none.
    fn pace(&self, bytes_per_second: Option<u64>);
}

/// A sink that can tell whether it is overloaded, by the limits of `--pause-when`.
pub trait Throttled: Sync {
    /// What is past a limit now; asked for only where there are limits.
    fn overload(&self, plan: &Plan) -> Result<Overload>;
}

/// What is past a limit of `--pause-when`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overload {
    /// In words; none where no limit is passed.
    pub reasons: Vec<String>,
    /// Something is past its limit that does not recover while a transaction of the load is open.
    pub needs_commits: bool,
}
