//! What streams ask of the schedule: pieces, and the units of a piece in their order.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::{Active, Schedule, State, Unit};
use crate::constants::QUEUE_BLOCKS_PER_STREAM;
use crate::destination::{Committed, Lane};
use crate::error::{Error, Result};
use crate::plan::{Format, PieceInput, PlannedPiece};
use crate::run::lines::Lines;
use crate::source::feed::{Feed, RangeFeed};
use crate::source::gaps::GapFeed;
use crate::source::parquet::RowFeed;
use crate::source::stream::StreamFeed;

impl Schedule<'_> {
    /// Gives a stream its next piece, or `None` when there is none left.
    pub fn claim(&self) -> Result<Option<(PlannedPiece, Lane)>> {
        let mut state = self.lock();
        loop {
            state = self.wait_if_held(state);
            if state.closed || state.is_stopping || self.interrupted.load(Ordering::Relaxed) {
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
                    let gaps = std::mem::take(&mut state.streams[stream].gaps);
                    drop(state);
                    let opened = self.open_stream(table, file)?;
                    state = self.lock();
                    state.streams[stream].opening = false;
                    self.ready.notify_all();
                    let feed = match gaps.is_empty() {
                        true => Feed::Stream(opened),
                        false => Feed::Gaps(GapFeed::new(opened, gaps)),
                    };
                    let feed = Arc::new(Mutex::new(feed));
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
        state.activations += 1;
        state.active.push(Active {
            activation: state.activations,
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
            arrived: Arc::default(),
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
        let arrived = find(&mut state, piece).arrived.clone();
        loop {
            state = self.wait_if_held(state);
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
            state = arrived.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
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
    pub fn finish(&self, mut piece: Committed, lines: &Lines) {
        piece.portion.ranges = Vec::new();
        let mut state = self.lock();
        self.deactivate(&mut state, piece.piece);
        state.lines.merge(lines);
        state.count(&piece);
        state.committed.push(piece);
    }

    /// The connection was lost, and with it perhaps the piece: the next round sees to it.
    pub fn lose(&self, piece: &PlannedPiece, why: Error) {
        let mut state = self.lock();
        self.deactivate(&mut state, piece.number);
        state.lost.get_or_insert(why);
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
}

fn find(state: &mut State, piece: usize) -> &mut Active {
    state
        .active
        .iter_mut()
        .find(|active| active.piece.number == piece)
        .expect("a stream asks only for the piece it has")
}
