//! The schedule: which piece each stream has, and which block each parser takes next.
//!
//! One lock over small state; it is taken a few times per block of 256 KiB, never per row. What
//! streams ask of it is in `streams`, what parsers ask in `parsers`.

mod parsers;
mod streams;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::lines::Lines;
use crate::constants::INTERRUPT_GRACE_S;
use crate::destination::{Committed, Lane};
use crate::error::{Error, Result};
use crate::observe::clock::{self, Activity};
use crate::parse::block::Block;
use crate::plan::{KeyLimits, PieceInput, Plan, PlannedPiece};
use crate::record::{Event, TableTotals};
use crate::run::reject_record::Reject;
use crate::run::source_row::SourceRow;
use crate::source::feed::Feed;
use crate::source::gaps;
use crate::source::ranges::LinesBefore;
use crate::sums::Sums;

/// Where a block stood in its source.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub file: usize,
    pub offset: u64,
    /// Where the feed knows it; otherwise its lines go on from those of the block before.
    pub first_line: Option<u64>,
    pub lines: u64,
    /// Nothing follows it in its file.
    pub is_last: bool,
}

/// A block on its way from parser to stream.
#[derive(Default)]
pub struct Unit {
    pub encoded: Vec<u8>,
    pub is_text: bool,
    pub rows: u64,
    pub source_bytes: u64,
    /// Of the bytes as they were parsed, where the destination keeps a ledger.
    pub checksum: Option<u64>,
    /// Of its typed rows, where they are asked for.
    pub sums: Option<Sums>,
    pub origin: Option<Origin>,
    /// Of a batch that no text was parsed for: its file and its first row in it, from 0.
    pub first_row: Option<(usize, u64)>,
    /// Records that are no rows: where they came from, and why.
    pub faults: Vec<Reject>,
    /// Rows that the destination must judge, as COPY text.
    pub odd: Vec<(SourceRow, Vec<u8>)>,
    /// The block itself, where its rows may be asked for again (text lane).
    pub block: Option<Block>,
}

/// A piece that a stream works on.
struct Active {
    /// Tells it from an earlier try of the same piece, whose last blocks may still be parsed.
    activation: u64,
    piece: PlannedPiece,
    lane: Lane,
    feed: Arc<Mutex<Feed>>,
    /// Blocks given out so far.
    sequence: Arc<AtomicU64>,
    /// Bytes that it may still take from a shared stream.
    budget: u64,
    in_flight: usize,
    ready: BTreeMap<u64, Unit>,
    next_out: u64,
    exhausted: bool,
    limits: Option<Arc<KeyLimits>>,
    /// Its stream waits here for its next unit: nobody else is woken for one.
    arrived: Arc<Condvar>,
}

/// How a piece that was refused as a whole is repeated.
#[derive(Clone)]
enum Again {
    AsText,
    /// Every row is judged; why.
    Carefully(Arc<str>),
}

/// By table, how many pieces were refused as a whole since a row broke something, and why the first
/// one was.
pub type Refused = HashMap<usize, (usize, Arc<str>)>;

/// A piece that a stream is to load.
pub struct Claim {
    pub piece: PlannedPiece,
    pub lane: Lane,
    /// Every row is to be judged; why.
    pub careful: Option<Arc<str>>,
}

/// What a parser is to do next.
pub struct Job {
    pub activation: u64,
    pub table: usize,
    pub lane: Lane,
    pub feed: Arc<Mutex<Feed>>,
    pub sequence: Arc<AtomicU64>,
    /// The keys that its rows may have, where it becomes a partition.
    pub limits: Option<Arc<KeyLimits>>,
}

struct SharedStream {
    table: usize,
    file: usize,
    feed: Option<Arc<Mutex<Feed>>>,
    ended: bool,
    /// What is committed of it already.
    gaps: Vec<Range<u64>>,
    /// Somebody opens it right now; a pipe must not be opened twice.
    opening: bool,
    users: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<PlannedPiece>,
    /// Pieces that are to be repeated in another way.
    again: HashMap<usize, Again>,
    /// Tables of which pieces were refused as a whole: how many, and why the first one was.
    refused: Refused,
    streams: Vec<SharedStream>,
    active: Vec<Active>,
    next_number: usize,
    activations: u64,
    failure: Option<Error>,
    closed: bool,
    buffers: Vec<Vec<u8>>,
    blocks: Vec<Block>,
    totals: Vec<TableTotals>,
    /// The pieces that are committed, those of earlier rounds among them.
    committed: Vec<Committed>,
    /// Why connections were lost, where some were.
    lost: Option<Error>,
    /// No piece is given out any more.
    is_stopping: bool,
    /// Nothing is given out until a limit is no longer passed.
    is_held: bool,
    lines: Lines,
}

impl State {
    fn count(&mut self, piece: &Committed) {
        let totals = &mut self.totals[piece.table];
        totals.rows += piece.rows;
        totals.rejected += piece.portion.rejected;
        totals.bytes += piece.portion.bytes;
        totals.pieces += u64::from(piece.rows > 0);
    }
}

/// The schedule of one round of a run.
pub struct Schedule<'a> {
    plan: &'a Arc<Plan>,
    interrupted: &'a AtomicBool,
    state: Mutex<State>,
    /// Parsers wait here for a block to take.
    work: Condvar,
    /// Streams wait here for a source that is being opened.
    ready: Condvar,
    /// Streams wait here while a limit is passed.
    released: Condvar,
    table_is_text: Vec<AtomicBool>,
    /// Lines before the ranges of tables that keep them with their rows.
    lines_before: HashMap<usize, Arc<LinesBefore>>,
}

impl<'a> Schedule<'a> {
    /// `committed` pieces are not given out again; `refused` is what earlier rounds have seen.
    pub fn new(
        plan: &'a Arc<Plan>,
        interrupted: &'a AtomicBool,
        committed: Vec<Committed>,
        refused: Refused,
    ) -> Self {
        let after = committed.iter().map(|piece| piece.piece + 1).max().unwrap_or(0);
        let next_number = plan.pieces.len().max(after);
        let mut state = State { next_number, refused, ..State::default() };
        let done: HashSet<usize> = committed.iter().map(|piece| piece.piece).collect();
        for piece in plan.pieces.iter().filter(|piece| !done.contains(&piece.number)) {
            match &piece.input {
                PieceInput::Stream { file } => {
                    let source = &plan.tables[piece.table].files[*file];
                    let gaps = gaps::of(&committed, piece.table, *file);
                    if !gaps::cover(&gaps, source.data_start) {
                        state.streams.push(SharedStream {
                            table: piece.table,
                            file: *file,
                            feed: None,
                            ended: false,
                            gaps,
                            opening: false,
                            users: 0,
                        });
                    }
                }
                _ => state.waiting.push_back(piece.clone()),
            }
        }
        state.totals = plan
            .tables
            .iter()
            .map(|table| TableTotals {
                name: table.name.clone(),
                bytes_expected: table.bytes,
                kept_on_failure: table.is_piecewise(),
                ..TableTotals::default()
            })
            .collect();
        for piece in &committed {
            state.count(piece);
            let totals = &mut state.totals[piece.table];
            totals.rows_sent += piece.rows;
            totals.bytes_sent += piece.portion.bytes;
        }
        state.committed = committed;
        // Of a compressed file they are many, and nobody asks for them any more.
        state.committed.iter_mut().for_each(|piece| piece.portion.ranges = Vec::new());
        let table_is_text =
            plan.tables.iter().map(|table| AtomicBool::new(table.lane == Lane::Text)).collect();
        Self {
            plan,
            interrupted,
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            released: Condvar::new(),
            table_is_text,
            lines_before: HashMap::new(),
        }
    }

    /// Knows lines before ranges.
    pub fn with_lines(self, lines_before: HashMap<usize, Arc<LinesBefore>>) -> Self {
        Self { lines_before, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Runs a thread's work; an error or a panic ends the whole run.
    pub fn guard(&self, work: impl FnOnce() -> Result<()>) {
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Error::usage(format!("a defect of Fullbore ended the run: {text}"))
            }
        };
        self.fail(failure);
    }

    /// Ends the run; the first failure is the one that counts.
    pub fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        self.wake_all(state);
    }

    /// Where a signal came, gives out no more pieces; those under way have so long to be committed.
    pub fn notice_interrupt(&self, since: &mut Option<Instant>) {
        if !self.interrupted.load(Ordering::Relaxed) {
            return;
        }
        let since = since.get_or_insert_with(Instant::now);
        self.lock().is_stopping = true;
        self.released.notify_all();
        // What is not kept needn't be waited for.
        let grace = Duration::from_secs(INTERRUPT_GRACE_S);
        if !self.plan.continuity.is_resumable || since.elapsed() >= grace {
            self.fail(Error::Interrupted);
        }
    }

    /// Whether nobody waits for what a stream could still load.
    pub fn has_ended(&self) -> bool {
        let state = self.lock();
        state.closed || state.is_stopping
    }

    /// No more work will come.
    pub fn close(&self) {
        self.wake_all(self.lock());
    }

    fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        state.closed = true;
        state.active.iter().for_each(|active| active.arrived.notify_all());
        drop(state);
        self.work.notify_all();
        self.ready.notify_all();
        self.released.notify_all();
    }

    /// Lets streams wait, or go on.
    pub fn hold(&self, is_held: bool) {
        self.lock().is_held = is_held;
        self.released.notify_all();
    }

    /// Waits while a limit is passed, unless the run is to end.
    fn wait_if_held<'s>(&self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        while state.is_held && !state.closed && !state.is_stopping {
            clock::enter(Activity::Held);
            state = self.released.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state
    }

    pub fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// Why connections were lost, where some were.
    pub fn take_lost(&self) -> Option<Error> {
        self.lock().lost.take()
    }

    /// Which tables had pieces that were refused as a whole.
    pub fn refused(&self) -> Refused {
        self.lock().refused.clone()
    }

    /// The pieces that are committed, as far as is known here.
    pub fn committed(&self) -> Vec<Committed> {
        self.lock().committed.clone()
    }

    pub fn totals(&self) -> Vec<TableTotals> {
        self.lock().totals.clone()
    }

    pub fn lines(&self) -> Lines {
        self.lock().lines.clone()
    }

    /// Adds to what is known to be on its way, for the progress shown.
    pub fn sent(&self, table: usize, rows: u64, bytes: u64) {
        let mut state = self.lock();
        state.totals[table].rows_sent += rows;
        state.totals[table].bytes_sent += bytes;
    }

    pub fn sample(&self) -> Event {
        let state = self.lock();
        Event::Sample { tables: state.totals.clone(), streams_active: state.active.len() }
    }
}
