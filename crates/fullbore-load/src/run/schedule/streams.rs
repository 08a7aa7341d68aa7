//! What streams ask of the schedule: pieces, and the units of a piece in their order.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fullbore_parse::Lane;
use fullbore_parse::block::Block;
use fullbore_read::FileRange;
use fullbore_read::columnar::{Reading, RowFeed};
use fullbore_read::error::{Error, Result};
use fullbore_read::feed::Feed;
use fullbore_read::ranges::RangeFeed;
use fullbore_read::remaining::RemainingFeed;
use fullbore_read::stream::StreamFeed;
use fullbore_record::observe::clock::{self, Activity};

use super::state::{Active, Again, Progress, State};
use super::{Claim, Hold, Schedule, Unit};
use crate::constants::{BUFFER_BYTES_KEPT, CAREFUL_AFTER_PIECES, QUEUE_BLOCKS_PER_STREAM};
use crate::plan::{Format, PieceInput, PlannedPiece};
use crate::run::lines::Lines;
use crate::sink::{Committed, Gatherer};

impl Schedule<'_> {
    /// Gives a stream its next piece, or `None` when there is none left. One that is not wanted waits until it is;
    /// it calls `rest` where that takes long.
    pub fn claim(&self, stream: usize, mut rest: impl FnMut()) -> Result<Option<Claim>> {
        let mut state = self.lock();
        loop {
            state = self.wait_if_held(state, &[Hold::BetweenPieces, Hold::Everywhere]);
            state = self.wait_if_not_wanted(state, &mut rest);
            if state.closed || state.is_stopping || self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let next = state.volumes.next(self.plan, &state);
            if let Some(piece) = state.waiting.remove(next) {
                let again = state.again.get(&piece.number);
                let careful = match again {
                    Some(Again::Carefully(because)) => Some(because.clone()),
                    _ => careful_from_the_start(&state, piece.table),
                };
                let is_text = again.is_some() || careful.is_some();
                let lane = if is_text { Lane::Text } else { self.lane(piece.table) };
                let feed = Arc::new(Mutex::new(self.open_feed(&piece)?));
                self.activate(&mut state, stream, piece.clone(), lane, feed, u64::MAX);
                let rest_of = state.rests.remove(&piece.number);
                return Ok(Some(Claim { piece, lane, careful, rest_of }));
            }
            // Shared streams: the one that fewest work on.
            let shared = (0..state.streams.len())
                .filter(|n| !state.streams[*n].ended && !state.streams[*n].opening)
                .min_by_key(|n| state.streams[*n].users);
            let Some(shared) = shared else {
                if state.streams.iter().any(|stream| stream.opening) {
                    state = self.ready.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                    continue;
                }
                match self.find_rest(state) {
                    Some(locked) => state = locked,
                    None => return Ok(None),
                }
                continue;
            };
            let (table, file) = (state.streams[shared].table, state.streams[shared].file);
            let feed = match &state.streams[shared].feed {
                Some(feed) => feed.clone(),
                None => {
                    // Opening may block (a pipe nobody writes to yet), so not under the lock.
                    state.streams[shared].opening = true;
                    let committed = std::mem::take(&mut state.streams[shared].committed);
                    drop(state);
                    clock::enter(Activity::Starved);
                    let opened = self.open_stream(table, file)?;
                    state = self.lock();
                    state.streams[shared].opening = false;
                    self.ready.notify_all();
                    let feed = match opened {
                        Feed::Stream(opened) if !committed.is_empty() => {
                            Feed::Remaining(RemainingFeed::new(opened, committed))
                        }
                        opened => opened,
                    };
                    let feed = Arc::new(Mutex::new(feed));
                    state.streams[shared].feed.get_or_insert(feed).clone()
                }
            };
            if state.streams[shared].ended {
                continue;
            }
            state.streams[shared].users += 1;
            let piece = PlannedPiece {
                number: state.next_number,
                table,
                input: PieceInput::Stream { file },
                bytes: self.plan.tables[table].piece_bytes,
                bounds: None,
            };
            state.next_number += 1;
            let careful = careful_from_the_start(&state, table)
                .or_else(|| self.plan.careful_stream(table, file).map(Arc::from));
            let lane = if careful.is_some() { Lane::Text } else { self.lane(table) };
            self.activate(&mut state, stream, piece.clone(), lane, feed, piece.bytes);
            return Ok(Some(Claim { piece, lane, careful, rest_of: None }));
        }
    }

    fn activate(
        &self,
        state: &mut State,
        stream: usize,
        piece: PlannedPiece,
        lane: Lane,
        feed: Arc<Mutex<Feed>>,
        budget: u64,
    ) {
        state.activations += 1;
        state.active.push(Active {
            activation: state.activations,
            limits: piece.bounds.as_ref().map(|bounds| Arc::new(bounds.keys.clone())),
            progress: Progress::of(&piece),
            is_halved: false,
            piece,
            stream,
            lane,
            feed,
            sequence: Arc::default(),
            budget,
            in_flight: 0,
            ready: BTreeMap::new(),
            next_out: 0,
            exhausted: false,
            waits_for_memory: false,
            ready_bytes: 0,
            arrived: Arc::default(),
            gatherers: Arc::default(),
        });
        self.work.notify_all();
    }

    fn open_feed(&self, piece: &PlannedPiece) -> Result<Feed> {
        let table = &self.plan.tables[piece.table];
        match (&piece.input, &table.format) {
            (PieceInput::Ranges(ranges), Format::Delimited(dialect)) => {
                let feed = RangeFeed::new(
                    table.files.clone(),
                    ranges.clone(),
                    dialect.clone(),
                    self.plan.max_field_bytes,
                );
                Ok(Feed::Ranges(Box::new(match self.lines_before.get(&piece.table) {
                    Some(lines) => feed.with_lines(lines.clone()),
                    None => feed,
                })))
            }
            (PieceInput::Rows(ranges), _) => Ok(self.row_feed(piece.table, ranges.clone())),
            _ => unreachable!("the planner pairs inputs with formats, streams are opened apart"),
        }
    }

    fn row_feed(&self, table: usize, ranges: Vec<FileRange>) -> Feed {
        let table = &self.plan.tables[table];
        let reading = Reading {
            shape: table.read_shape(Lane::Binary),
            row_bytes_max: self.plan.max_field_bytes,
            memory: self.pages.clone(),
        };
        Feed::Rows(Box::new(RowFeed::new(table.files.clone(), ranges, reading)))
    }

    fn open_stream(&self, number: usize, file: usize) -> Result<Feed> {
        let table = &self.plan.tables[number];
        let Format::Delimited(dialect) = &table.format else {
            return Ok(self.row_feed(number, vec![FileRange { file, start: 0, end: u64::MAX }]));
        };
        let opened = StreamFeed::open(
            table.files[file].clone(),
            file,
            dialect.clone(),
            self.plan.max_field_bytes,
            &self.attention,
        );
        Ok(Feed::Stream(opened?))
    }

    /// The next unit of a piece in the order of its source; `None` at its end.
    pub fn next_unit(&self, piece: usize) -> Result<Option<Unit>> {
        let mut state = self.lock();
        let arrived = find(&mut state, piece).arrived.clone();
        loop {
            state = self.wait_if_held(state, &[Hold::Everywhere]);
            if state.failure.is_some() {
                // The cause is kept in the schedule; this stream only has to stop.
                return Err(Error::Interrupted);
            }
            let active = find(&mut state, piece);
            if let Some(unit) = active.ready.remove(&active.next_out) {
                active.next_out += 1;
                active.ready_bytes -= unit.encoded.len();
                self.work.notify_one();
                return Ok(Some(unit));
            }
            let is_parsed = active.exhausted && active.in_flight == 0 && active.ready.is_empty();
            if is_parsed && !active.is_halved {
                return Ok(None);
            }
            clock::enter(Activity::Starved);
            state = arrived.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Gives a used unit's memory back.
    pub fn recycle(&self, unit: Unit) {
        let mut state = self.lock();
        let limit = QUEUE_BLOCKS_PER_STREAM * state.crew.at_work();
        let is_kept = 1..=BUFFER_BYTES_KEPT;
        if state.buffers.len() < limit && is_kept.contains(&unit.encoded.capacity()) {
            state.buffers.push(unit.encoded);
        }
        let is_small = |block: &Block| block.capacity() <= BUFFER_BYTES_KEPT;
        if let Some(block) =
            unit.block.filter(|block| state.blocks.len() < limit && is_small(block))
        {
            state.blocks.push(block);
        }
    }

    /// The ranges of a piece that is parsed to its end: those that it kept.
    pub fn ranges_of(&self, piece: usize) -> Vec<FileRange> {
        find(&mut self.lock(), piece).piece.input.ranges().unwrap_or_default().to_vec()
    }

    /// What was noted of the rows of a piece that is parsed to its end.
    pub fn noted_of(&self, piece: usize) -> Vec<Box<dyn Gatherer>> {
        let gatherers = find(&mut self.lock(), piece).gatherers.clone();
        std::mem::take(&mut *gatherers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// The piece is committed.
    pub fn finish(&self, mut piece: Committed, lines: &Lines) {
        let mut state = self.lock();
        let active = self.deactivate(&mut state, piece.piece);
        if matches!(active, Some(PlannedPiece { input: PieceInput::Stream { .. }, .. })) {
            piece.portion.ranges = Vec::new();
        }
        state.lines.merge(lines);
        state.count(&piece);
        state.committed.push(piece);
    }

    /// Nothing came of the stream that the piece is to take its rows from.
    pub fn leave(&self, piece: &PlannedPiece) {
        let mut state = self.lock();
        self.deactivate(&mut state, piece.number);
    }

    /// The connection was lost, and with it perhaps the piece: the next round sees to it.
    pub fn lose(&self, piece: &PlannedPiece, why: Error) {
        let mut state = self.lock();
        self.deactivate(&mut state, piece.number);
        state.lost.get_or_insert(why);
    }

    /// Gives a piece back of which nothing was sent, for another stream or later; false where its source
    /// can't be read again.
    pub fn give_back(&self, piece: &PlannedPiece) -> bool {
        let is_given_back = !self.is_read_on(piece);
        if is_given_back {
            let mut state = self.lock();
            let active = self.deactivate(&mut state, piece.number);
            state.waiting.extend(active);
            self.ready.notify_all();
        }
        is_given_back
    }

    /// Whether no stream has a piece.
    pub fn is_idle(&self) -> bool {
        self.lock().active.is_empty()
    }

    /// The piece is to be repeated as text; false where its source can't be read again.
    pub fn repeat_as_text(&self, piece: &PlannedPiece) -> bool {
        let mut state = self.lock();
        let active = self.deactivate(&mut state, piece.number);
        let is_repeated = !self.is_read_on(piece) && !state.again.contains_key(&piece.number);
        if is_repeated {
            state.again.insert(piece.number, Again::AsText);
            active.into_iter().for_each(|piece| state.waiting.push_front(piece));
        }
        is_repeated
    }

    /// The piece is to be repeated, every row of it judged. False where it was already, or where its
    /// source can't be read again.
    pub fn repeat_carefully(&self, piece: &PlannedPiece, because: &Error) -> bool {
        let mut state = self.lock();
        let active = self.deactivate(&mut state, piece.number);
        let because: Arc<str> = because.to_string().into();
        let refused = state.refused.entry(piece.table).or_insert((0, because.clone()));
        refused.0 += 1;
        if self.is_read_on(piece) {
            // What comes of the stream later need not be refused first.
            refused.0 = CAREFUL_AFTER_PIECES;
            return false;
        }
        if matches!(state.again.get(&piece.number), Some(Again::Carefully(_))) {
            return false;
        }
        state.again.insert(piece.number, Again::Carefully(because));
        active.into_iter().for_each(|piece| state.waiting.push_front(piece));
        true
    }

    /// Whether a piece is made of what a source gave while it was read on: it can't be read again
    /// by itself.
    pub fn is_read_on(&self, piece: &PlannedPiece) -> bool {
        let files = &self.plan.tables[piece.table].files;
        let is_read_on = |range: &FileRange| !files[range.file].is_regular;
        piece.input.ranges().is_none_or(|ranges| ranges.iter().any(is_read_on))
    }

    /// Ends a piece's turn; it comes back with the ranges that it kept.
    fn deactivate(&self, state: &mut State, piece: usize) -> Option<PlannedPiece> {
        let at = state.active.iter().position(|active| active.piece.number == piece)?;
        let active = state.active.swap_remove(at);
        state.volumes.note(self.plan, &active);
        if let PieceInput::Stream { file } = active.piece.input {
            let table = active.piece.table;
            for stream in &mut state.streams {
                if stream.table == table && stream.file == file {
                    stream.users -= 1;
                }
            }
        }
        // Who waits for its rest waits in vain; the memory of its pages may be what parsers wait for.
        self.ready.notify_all();
        self.work.notify_all();
        Some(active.piece)
    }

    /// How the table's rows are sent from now on.
    pub fn lane(&self, table: usize) -> Lane {
        match self.table_is_text[table].load(Ordering::Relaxed) || self.sends_text() {
            true => Lane::Text,
            false => Lane::Binary,
        }
    }

    /// Whether all rows are sent as text, since that is shorter.
    pub fn sends_text(&self) -> bool {
        self.sends_text.load(Ordering::Relaxed)
    }

    /// How often rows have changed their form.
    pub fn forms_changed(&self) -> u64 {
        self.forms_changed.load(Ordering::Relaxed)
    }

    /// Rows change their form: all of them are sent as text from now on, or no longer. Pieces that have begun with
    /// text end with it.
    pub fn change_form(&self, as_text: bool) {
        self.forms_changed.fetch_add(1, Ordering::Relaxed);
        self.sends_text.store(as_text, Ordering::Relaxed);
        if as_text {
            self.lock().active.iter_mut().for_each(|active| active.lane = Lane::Text);
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

/// Why a table's pieces are loaded carefully without having been refused: others of them were.
fn careful_from_the_start(state: &State, table: usize) -> Option<Arc<str>> {
    let (pieces, because) = state.refused.get(&table)?;
    (*pieces >= CAREFUL_AFTER_PIECES).then(|| because.clone())
}

fn find(state: &mut State, piece: usize) -> &mut Active {
    state
        .active
        .iter_mut()
        .find(|active| active.piece.number == piece)
        .expect("a stream asks only for the piece it has")
}
