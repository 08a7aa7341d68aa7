//! What parsers ask of the schedule: blocks to parse, and memory to parse them into.

use std::sync::atomic::Ordering;

use fullbore_parse::block::Block;
use fullbore_record::observe::clock::{self, Activity};

use super::state::Active;
use super::{ParseTask, Schedule, Unit};
use crate::constants::{QUEUE_BLOCKS_PER_STREAM, QUEUE_BYTES_PER_STREAM};
use crate::plan::PieceInput;

impl Schedule<'_> {
    /// The next block to parse, from the piece that has fewest blocks waiting; `None` at the end. Once each has one,
    /// the piece comes first that all will wait for.
    pub fn next_task(&self, parser: usize) -> Option<ParseTask> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if parser >= state.crew.parsers_wanted {
                clock::enter(Activity::Idle);
                state = self.released.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            }
            // What idle streams would have waiting goes to those that work: a table that has one
            // session is fed by all parsers.
            let blocks_max =
                QUEUE_BLOCKS_PER_STREAM * state.crew.at_work().div_ceil(state.active.len().max(1));
            let has_room = self.pages.has_room();
            let is_open = |active: &&mut Active| {
                !active.exhausted
                    && active.in_flight + active.ready.len() < blocks_max
                    && (active.ready.is_empty() || active.ready_bytes < QUEUE_BYTES_PER_STREAM)
                    && (!active.waits_for_memory || has_room)
            };
            let longest = state.longest();
            let open = state.active.iter_mut().filter(is_open);
            let after = |active: &&mut Active| {
                let waiting = active.in_flight + active.ready.len();
                let is_other = Some(active.activation) != longest;
                (is_other && waiting > 0, waiting, is_other)
            };
            if let Some(active) = open.min_by_key(after) {
                active.in_flight += 1;
                active.waits_for_memory = false;
                return Some(ParseTask {
                    activation: active.activation,
                    table: active.piece.table,
                    lane: active.lane,
                    feed: active.feed.clone(),
                    sequence: active.sequence.clone(),
                    limits: active.limits.clone(),
                    gatherers: active.gatherers.clone(),
                });
            }
            // Either all queues are full, or no piece is there with something left to parse.
            let is_full = state.active.iter().any(|active| !active.exhausted);
            clock::enter(if is_full { Activity::Blocked } else { Activity::Idle });
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// The number of another block, among those of all pieces.
    pub fn next_block(&self) -> u64 {
        self.blocks_taken.fetch_add(1, Ordering::Relaxed)
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
    pub fn deliver(&self, activation: u64, sequence: u64, unit: Unit) {
        let mut state = self.lock();
        let mut waiting = None;
        if let Some(active) = state.activated(activation) {
            active.in_flight -= 1;
            active.budget = active.budget.saturating_sub(unit.source_bytes);
            if active.budget == 0 {
                active.exhausted = true;
            }
            active.progress.done += match &active.piece.input {
                PieceInput::Rows(_) => unit.rows,
                _ => unit.source_bytes,
            };
            active.ready_bytes += unit.encoded.len();
            active.ready.insert(sequence, unit);
            waiting = (sequence == active.next_out).then(|| active.arrived.clone());
        }
        drop(state);
        if let Some(arrived) = waiting {
            arrived.notify_one();
        }
        self.work.notify_one();
    }

    /// The piece's feed has nothing now: it is asked again when others have given memory back.
    pub fn later(&self, activation: u64) {
        let mut state = self.lock();
        if let Some(active) = state.activated(activation) {
            active.in_flight -= 1;
            active.waits_for_memory = true;
        }
    }

    /// The piece's feed has nothing more.
    pub fn exhausted(&self, activation: u64) {
        let mut state = self.lock();
        if let Some(active) = state.activated(activation) {
            active.in_flight -= 1;
            active.exhausted = true;
            active.arrived.notify_one();
            if let PieceInput::Stream { file } = active.piece.input {
                let table = active.piece.table;
                let streams = state.streams.iter_mut();
                for stream in streams.filter(|s| s.table == table && s.file == file) {
                    stream.ended = true;
                    // Who still parses of it holds it; a table may have more files than a process may.
                    stream.feed = None;
                }
            }
        }
        drop(state);
        self.ready.notify_all();
        // It may have given memory back that others wait for.
        self.work.notify_all();
    }
}
