//! The schedule: which piece each stream has, and which block each parser takes next.
//!
//! One lock over small state; it is taken a few times per block of 256 KiB, never per row.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::lines::Lines;
use crate::constants::QUEUE_BLOCKS_PER_STREAM;
use crate::destination::Lane;
use crate::error::{Error, Result};
use crate::parse::block::Block;
use crate::plan::{Format, KeyLimits, PieceInput, Plan, PlannedPiece};
use crate::record::{Event, TableTotals};
use crate::run::stream::SourceRow;
use crate::source::feed::{Feed, RangeFeed, StreamFeed};
use crate::source::parquet::RowFeed;

/// Where a block stood in its source.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub file: usize,
    pub offset: u64,
    pub lines: u64,
}

/// A block on its way from parser to stream.
#[derive(Default)]
pub struct Unit {
    pub encoded: Vec<u8>,
    pub is_text: bool,
    pub rows: u64,
    pub source_bytes: u64,
    pub origin: Option<Origin>,
    /// Records that are no rows: where they came from, and why.
    pub faults: Vec<(SourceRow, String)>,
    /// Rows that the destination must judge, as COPY text.
    pub odd: Vec<(SourceRow, Vec<u8>)>,
    /// The block itself, where its rows may be asked for again (text lane).
    pub block: Option<Block>,
}

/// A piece that a stream works on.
struct Active {
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
}

/// What a parser is to do next.
pub struct Job {
    pub piece: usize,
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
    /// Somebody opens it right now; a pipe must not be opened twice.
    opening: bool,
    users: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<PlannedPiece>,
    /// Pieces that are to be repeated as text.
    as_text: HashMap<usize, ()>,
    streams: Vec<SharedStream>,
    active: Vec<Active>,
    next_number: usize,
    failure: Option<Error>,
    closed: bool,
    buffers: Vec<Vec<u8>>,
    blocks: Vec<Block>,
    totals: Vec<TableTotals>,
    lines: Lines,
}

/// The schedule of one run.
pub struct Schedule<'a> {
    plan: &'a Arc<Plan>,
    interrupted: &'a AtomicBool,
    state: Mutex<State>,
    /// Parsers wait here for a block to take.
    work: Condvar,
    /// Streams wait here for their next unit.
    ready: Condvar,
    table_is_text: Vec<AtomicBool>,
}

impl<'a> Schedule<'a> {
    pub fn new(plan: &'a Arc<Plan>, interrupted: &'a AtomicBool) -> Result<Self> {
        let mut state = State { next_number: plan.pieces.len(), ..State::default() };
        for piece in &plan.pieces {
            match &piece.input {
                PieceInput::Stream { file } => state.streams.push(SharedStream {
                    table: piece.table,
                    file: *file,
                    feed: None,
                    ended: false,
                    opening: false,
                    users: 0,
                }),
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
        let table_is_text =
            plan.tables.iter().map(|table| AtomicBool::new(table.lane == Lane::Text)).collect();
        Ok(Self {
            plan,
            interrupted,
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            table_is_text,
        })
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
        state.closed = true;
        drop(state);
        self.work.notify_all();
        self.ready.notify_all();
    }

    pub fn notice_interrupt(&self) {
        if self.interrupted.load(Ordering::Relaxed) {
            self.fail(Error::Interrupted);
        }
    }

    /// No more work will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.ready.notify_all();
    }

    pub fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    pub fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    // ---- streams ----

    /// Gives a stream its next piece, or `None` when there is none left.
    pub fn claim(&self) -> Result<Option<(PlannedPiece, Lane)>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Ok(None);
            }
            if let Some(piece) = state.waiting.pop_front() {
                let text = state.as_text.contains_key(&piece.number);
                let lane = if text { Lane::Text } else { self.lane(piece.table) };
                let feed = Arc::new(Mutex::new(self.open_feed(&piece)?));
                self.activate(&mut state, piece.clone(), lane, feed, u64::MAX);
                return Ok(Some((piece, lane)));
            }
            // Shared streams: the one that fewest work on.
            let next = (0..state.streams.len())
                .filter(|n| !state.streams[*n].ended && !state.streams[*n].opening)
                .min_by_key(|n| state.streams[*n].users);
            let Some(stream) = next else {
                if state.streams.iter().any(|stream| stream.opening) {
                    state = self.ready.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                    continue;
                }
                return Ok(None);
            };
            let (table, file) = (state.streams[stream].table, state.streams[stream].file);
            let feed = match &state.streams[stream].feed {
                Some(feed) => feed.clone(),
                None => {
                    // Opening may block (a pipe nobody writes to yet), so not under the lock.
                    state.streams[stream].opening = true;
                    drop(state);
                    let opened = self.open_stream(table, file)?;
                    state = self.lock();
                    state.streams[stream].opening = false;
                    self.ready.notify_all();
                    let feed = Arc::new(Mutex::new(Feed::Stream(opened)));
                    state.streams[stream].feed.get_or_insert(feed).clone()
                }
            };
            if state.streams[stream].ended {
                continue;
            }
            state.streams[stream].users += 1;
            let piece = PlannedPiece {
                number: state.next_number,
                table,
                input: PieceInput::Stream { file },
                bytes: self.plan.tables[table].piece_bytes,
                bounds: None,
            };
            state.next_number += 1;
            let lane = self.lane(table);
            self.activate(&mut state, piece.clone(), lane, feed, piece.bytes);
            return Ok(Some((piece, lane)));
        }
    }

    fn activate(
        &self,
        state: &mut State,
        piece: PlannedPiece,
        lane: Lane,
        feed: Arc<Mutex<Feed>>,
        budget: u64,
    ) {
        state.active.push(Active {
            limits: piece.bounds.as_ref().map(|bounds| Arc::new(bounds.keys.clone())),
            piece,
            lane,
            feed,
            sequence: Arc::default(),
            budget,
            in_flight: 0,
            ready: BTreeMap::new(),
            next_out: 0,
            exhausted: false,
        });
        self.work.notify_all();
    }

    fn open_feed(&self, piece: &PlannedPiece) -> Result<Feed> {
        let table = &self.plan.tables[piece.table];
        match (&piece.input, &table.format) {
            (PieceInput::Ranges(ranges), Format::Delimited(dialect)) => {
                Ok(Feed::Ranges(RangeFeed::new(
                    table.files.clone(),
                    ranges.clone(),
                    dialect.clone(),
                    self.plan.max_field_bytes,
                )))
            }
            (PieceInput::Rows(ranges), _) => Ok(Feed::Rows(RowFeed::new(
                table.files.clone(),
                ranges.clone(),
                table.shape.clone(),
            ))),
            _ => unreachable!("the planner pairs inputs with formats, streams are opened apart"),
        }
    }

    fn open_stream(&self, table: usize, file: usize) -> Result<StreamFeed> {
        let table = &self.plan.tables[table];
        let Format::Delimited(dialect) = &table.format else {
            unreachable!("only delimited text comes as a stream")
        };
        StreamFeed::open(
            table.files[file].clone(),
            file,
            dialect.clone(),
            self.plan.max_field_bytes,
        )
    }

    /// The next unit of a piece in the order of its source; `None` at its end.
    pub fn next_unit(&self, piece: usize) -> Result<Option<Unit>> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                // The cause is kept in the schedule; this stream only has to stop.
                return Err(Error::Interrupted);
            }
            let active = find(&mut state, piece);
            if let Some(unit) = active.ready.remove(&active.next_out) {
                active.next_out += 1;
                self.work.notify_one();
                return Ok(Some(unit));
            }
            if active.exhausted && active.in_flight == 0 && active.ready.is_empty() {
                return Ok(None);
            }
            state = self.ready.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Gives a used unit's memory back.
    pub fn recycle(&self, unit: Unit) {
        let mut state = self.lock();
        let limit = QUEUE_BLOCKS_PER_STREAM * self.plan.streams;
        if state.buffers.len() < limit && unit.encoded.capacity() > 0 {
            state.buffers.push(unit.encoded);
        }
        if let Some(block) = unit.block.filter(|_| state.blocks.len() < limit) {
            state.blocks.push(block);
        }
    }

    /// The piece is committed.
    pub fn finish(&self, piece: &PlannedPiece, rows: u64, bytes: u64, lines: &Lines) {
        let mut state = self.lock();
        self.deactivate(&mut state, piece.number);
        state.lines.merge(lines);
        let totals = &mut state.totals[piece.table];
        totals.rows += rows;
        totals.bytes += bytes;
        totals.pieces += u64::from(rows > 0);
    }

    /// The piece is to be repeated as text; false where its source can't be read again.
    pub fn repeat_as_text(&self, piece: &PlannedPiece) -> bool {
        let mut state = self.lock();
        self.deactivate(&mut state, piece.number);
        let files = &self.plan.tables[piece.table].files;
        let is_read_once = match &piece.input {
            PieceInput::Stream { .. } => true,
            PieceInput::Ranges(ranges) | PieceInput::Rows(ranges) => {
                ranges.iter().any(|range| !files[range.file].is_regular)
            }
        };
        if is_read_once || state.as_text.insert(piece.number, ()).is_some() {
            return false;
        }
        state.waiting.push_front(piece.clone());
        true
    }

    fn deactivate(&self, state: &mut State, piece: usize) {
        let Some(at) = state.active.iter().position(|active| active.piece.number == piece) else {
            return;
        };
        let active = state.active.swap_remove(at);
        if let PieceInput::Stream { file } = active.piece.input {
            let table = active.piece.table;
            for stream in &mut state.streams {
                if stream.table == table && stream.file == file {
                    stream.users -= 1;
                }
            }
        }
    }

    /// Whether the table goes as text from now on.
    pub fn lane(&self, table: usize) -> Lane {
        match self.table_is_text[table].load(Ordering::Relaxed) {
            true => Lane::Text,
            false => Lane::Binary,
        }
    }

    /// The rest of a piece, and of its table, goes as text.
    pub fn go_as_text(&self, piece: &PlannedPiece) {
        self.table_is_text[piece.table].store(true, Ordering::Relaxed);
        let mut state = self.lock();
        for active in &mut state.active {
            if active.piece.table == piece.table {
                active.lane = Lane::Text;
            }
        }
    }

    // ---- parsers ----

    /// The next block's job, from the piece that has fewest blocks waiting; `None` at the end.
    pub fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let open = state
                .active
                .iter_mut()
                .filter(|a| !a.exhausted && a.in_flight + a.ready.len() < QUEUE_BLOCKS_PER_STREAM)
                .min_by_key(|a| a.in_flight + a.ready.len());
            if let Some(active) = open {
                active.in_flight += 1;
                return Some(Job {
                    piece: active.piece.number,
                    table: active.piece.table,
                    lane: active.lane,
                    feed: active.feed.clone(),
                    sequence: active.sequence.clone(),
                    limits: active.limits.clone(),
                });
            }
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// An empty buffer for encoded rows.
    pub fn buffer(&self) -> Vec<u8> {
        let mut buffer = self.lock().buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    pub fn block(&self) -> Block {
        self.lock().blocks.pop().unwrap_or_default()
    }

    /// Hands a parsed block on.
    pub fn deliver(&self, piece: usize, sequence: u64, unit: Unit) {
        let mut state = self.lock();
        if let Some(active) = state.active.iter_mut().find(|a| a.piece.number == piece) {
            active.in_flight -= 1;
            active.budget = active.budget.saturating_sub(unit.source_bytes);
            if active.budget == 0 {
                active.exhausted = true;
            }
            active.ready.insert(sequence, unit);
        }
        drop(state);
        self.ready.notify_all();
        self.work.notify_one();
    }

    /// The piece's feed has nothing more.
    pub fn exhausted(&self, piece: usize) {
        let mut state = self.lock();
        if let Some(active) = state.active.iter_mut().find(|a| a.piece.number == piece) {
            active.in_flight -= 1;
            active.exhausted = true;
            if let PieceInput::Stream { file } = active.piece.input {
                let table = active.piece.table;
                for stream in &mut state.streams {
                    stream.ended |= stream.table == table && stream.file == file;
                }
            }
        }
        drop(state);
        self.ready.notify_all();
    }

    // ---- observers ----

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

fn find(state: &mut State, piece: usize) -> &mut Active {
    state
        .active
        .iter_mut()
        .find(|active| active.piece.number == piece)
        .expect("a stream asks only for the piece it has")
}
