//! The schedule: which piece each stream has, and which block each parser takes next.
//!
//! One lock over small state, taken a few times per block of 256 KiB, never per row. `state` is the locked
//! state and `handed` the values passed on. `streams` has the calls of streams, `parsers` those of
//! parsers; `crew` says how many of either are wanted; `volumes` says which piece is next, `rest` gives what a
//! slow piece has left to streams without work, and `ending` ends a round.

mod crew;
mod ending;
mod handed;
mod parsers;
mod rest;
mod state;
mod streams;
mod volumes;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use fullbore_parse::Lane;
use fullbore_read::cancellable::Cancellation;
use fullbore_read::parquet::PageMemory;
use fullbore_read::ranges::LinesBefore;
use fullbore_read::remaining;
use fullbore_record::{Event, TableTotals};

use super::covered::{self, Covered};
use super::lines::Lines;
use super::pace::Pace;
use crate::plan::{PieceInput, Plan};
use crate::sink::Committed;
pub use handed::{Claim, Gatherers, Origin, ParseTask, RestOf, Unit};
pub use state::Refused;
use state::{SharedStream, State};

/// What streams wait with while a limit of `--pause-when` is passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    #[default]
    No,
    /// With the next piece.
    BetweenPieces,
    /// With the next block of the piece that they have, too.
    Everywhere,
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
    /// Reads of silent pipes wait for it to end.
    attention: Cancellation,
    table_is_text: Vec<AtomicBool>,
    sends_text: AtomicBool,
    forms_changed: AtomicU64,
    blocks_taken: AtomicU64,
    /// What the pages of Parquet files take.
    pages: Arc<PageMemory>,
    /// Shared by all streams.
    pace: Pace,
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
        let mut next_number = plan.pieces.len().max(after);
        let mut state = State { refused, ..State::default() };
        let done: HashSet<usize> = committed.iter().map(|piece| piece.piece).collect();
        let covered = Covered::by(&committed);
        for piece in &plan.pieces {
            let is_done = done.contains(&piece.number);
            match &piece.input {
                PieceInput::Stream { file } if !is_done => {
                    let source = &plan.tables[piece.table].files[*file];
                    let committed = covered.of(piece.table, *file).to_vec();
                    if !remaining::cover(&committed, source.data_start) {
                        state.streams.push(SharedStream {
                            table: piece.table,
                            file: *file,
                            feed: None,
                            ended: false,
                            committed,
                            opening: false,
                            users: 0,
                        });
                    }
                }
                _ => {
                    let Some(mut rest) = covered.rest_of(piece, is_done) else { continue };
                    // Its number is taken by the part that was committed.
                    if is_done {
                        rest.number = next_number;
                        next_number += 1;
                    }
                    state.waiting.push_back(rest);
                }
            }
        }
        state.next_number = next_number;
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
        let read_on = state.committed.iter_mut().filter(|piece| covered::is_read_on(plan, piece));
        read_on.for_each(|piece| piece.portion.ranges = Vec::new());
        let table_is_text =
            plan.tables.iter().map(|table| AtomicBool::new(table.lane == Lane::Text)).collect();
        Self {
            plan,
            interrupted,
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            released: Condvar::new(),
            attention: Cancellation::default(),
            table_is_text,
            sends_text: AtomicBool::new(false),
            forms_changed: AtomicU64::new(0),
            blocks_taken: AtomicU64::new(0),
            pages: Arc::default(),
            pace: Pace::new(plan.max_rate),
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

    /// Notes values whose nanoseconds were rounded in a piece that is committed.
    pub fn note_rounded(&self, table: usize, values: u64) {
        if values > 0 {
            self.lock().totals[table].rounded += values;
        }
    }

    /// What was on its way is rolled back, and will come once more.
    pub fn taken_back(&self, table: usize, rows: u64, bytes: u64) {
        let mut state = self.lock();
        let totals = &mut state.totals[table];
        totals.rows_sent = totals.rows_sent.saturating_sub(rows);
        totals.bytes_sent = totals.bytes_sent.saturating_sub(bytes);
    }

    /// Waits until a stream may send so many bytes.
    pub fn wait_to_send(&self, bytes: usize) {
        self.pace.wait_for(bytes, &|| self.has_ended());
    }

    /// Looks whether another rate is wished for while the run goes on.
    pub fn look_for_rate(&self) -> Option<Event> {
        let rate = self.pace.look(&self.plan.run_dir)?;
        Some(Event::RateChanged { bytes_per_second: rate })
    }

    pub fn sample(&self) -> Event {
        let state = self.lock();
        Event::Sample { tables: state.totals.clone(), streams_active: state.active.len() }
    }
}
