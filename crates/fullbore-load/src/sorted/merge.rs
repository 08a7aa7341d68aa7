//! Runs to one: of all their next rows the least, again and again.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use super::bytes::broken;
use super::keys::Common;
use super::records::Form;
use super::spill::{Reader, Run, RunWriter};

/// Rows of a batch that is given, and bytes of them: more than this is one row.
const ROWS: usize = 4096;
const BYTES: usize = 4 << 20;
/// Batches that are merged before they are asked for.
const AHEAD: usize = 2;

/// The records of several runs in their order.
///
/// A tree of losers (Knuth, The Art of Computer Programming, volume 3, section 5.4.1): each node has the run that lost
/// the match there, so that one comparison at each level finds the next record.
pub struct Merge {
    cursors: Vec<Cursor>,
    /// The winner of all first; then the losers, that of the nodes `2n` and `2n + 1` at `n`.
    tree: Vec<usize>,
    common: Common,
}

/// Where a run is read.
struct Cursor {
    run: Reader,
    /// Of the next record's key; the highest once the run has ended.
    prefix: u128,
    has_ended: bool,
}

impl Cursor {
    fn advance(&mut self, common: usize) -> Result<(), ArrowError> {
        self.has_ended = !self.run.advance()?;
        self.prefix = if self.has_ended { u128::MAX } else { self.run.prefix(common) };
        Ok(())
    }
}

impl Merge {
    pub fn of(runs: Vec<Run>) -> Result<Self, ArrowError> {
        let mut common = Common::default();
        for run in &runs {
            common.note(run.common.bytes());
        }
        let cursors = runs.into_iter().map(|run| {
            let mut cursor = Cursor { run: run.read()?, prefix: 0, has_ended: false };
            cursor.advance(common.bytes().len()).map(|()| cursor)
        });
        let cursors = cursors.collect::<Result<Vec<_>, ArrowError>>()?;
        let mut merge = Self { tree: vec![0; cursors.len()], common, cursors };
        merge.play_all();
        Ok(merge)
    }

    fn play_all(&mut self) {
        let count = self.cursors.len();
        let mut winners: Vec<usize> =
            (0..2 * count).map(|node| node.saturating_sub(count)).collect();
        for node in (1..count).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            let is_one = self.is_before(one, other);
            (winners[node], self.tree[node]) = if is_one { (one, other) } else { (other, one) };
        }
        if count > 0 {
            self.tree[0] = winners[1];
        }
    }

    /// Whether the next record of one run comes before that of another; of rows that are alike, that of the earlier run.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let (first, second) = (&self.cursors[one], &self.cursors[other]);
        if first.prefix != second.prefix {
            return first.prefix < second.prefix;
        }
        match (first.has_ended, second.has_ended) {
            (false, false) => first.run.key().cmp(second.run.key()).then(one.cmp(&other)).is_lt(),
            (has_ended, _) => !has_ended,
        }
    }

    /// Where the next record is.
    fn first(&self) -> Option<&Reader> {
        let winner = &self.cursors[*self.tree.first()?];
        (!winner.has_ended).then_some(&winner.run)
    }

    /// Goes on behind the next record.
    fn advance(&mut self) -> Result<(), ArrowError> {
        let mut winner = self.tree[0];
        self.cursors[winner].advance(self.common.bytes().len())?;
        let mut node = (winner + self.cursors.len()) / 2;
        while node > 0 {
            if self.is_before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
        Ok(())
    }

    /// All of them as one run.
    pub fn write(mut self, mut run: RunWriter) -> Result<Run, ArrowError> {
        while let Some(first) = self.first() {
            run.write(first.record())?;
            self.advance()?;
        }
        run.finish(self.common)
    }
}

/// The rows of runs in their order. A thread of its own merges, so that others have only to read its records.
pub struct Merged {
    schema: SchemaRef,
    form: Form,
    from: From,
}

enum From {
    /// Runs are opened when the first row is asked for: other tables may be loaded before.
    Runs(Vec<Run>),
    Merging(Receiver<Vec<u8>>, JoinHandle<Result<(), ArrowError>>),
    /// There are no more, or a row could not be read: none of those after it is.
    Ended,
}

impl Merged {
    pub fn new(schema: SchemaRef, form: Form, runs: Vec<Run>) -> Self {
        Self { schema, form, from: From::Runs(runs) }
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let (records, thread) = match std::mem::replace(&mut self.from, From::Ended) {
            From::Runs(runs) => {
                let (to, records) = sync_channel(AHEAD);
                let merging = move || merge(runs, &to);
                (records, Builder::new().name("merge".into()).spawn(merging)?)
            }
            From::Merging(records, thread) => (records, thread),
            From::Ended => return Ok(None),
        };
        let Ok(of_batch) = records.recv() else {
            let ended = thread.join();
            return ended.unwrap_or_else(|_| Err(broken())).map(|()| None);
        };
        let batch = self.form.read(&of_batch)?;
        self.from = From::Merging(records, thread);
        Ok(Some(batch))
    }
}

/// Hands on records in their order, those of a batch at a time, until nobody takes them.
fn merge(runs: Vec<Run>, to: &SyncSender<Vec<u8>>) -> Result<(), ArrowError> {
    let mut merge = Merge::of(runs)?;
    let mut most = 0;
    loop {
        let (mut records, mut rows) = (Vec::with_capacity(most), 0);
        while rows < ROWS && records.len() < BYTES {
            let Some(first) = merge.first() else { break };
            records.extend_from_slice(first.record());
            merge.advance()?;
            rows += 1;
        }
        most = most.max(records.len());
        if rows == 0 || to.send(records).is_err() {
            return Ok(());
        }
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
