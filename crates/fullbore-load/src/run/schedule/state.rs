//! What stands behind the schedule's lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use fullbore_parse::Lane;
use fullbore_parse::block::Block;
use fullbore_read::error::Error;
use fullbore_read::feed::Feed;
use fullbore_record::TableTotals;

use super::Hold;
use super::handed::{Gatherers, RestOf, Unit};
use super::volumes::Volumes;
use crate::plan::{KeyLimits, PieceInput, PlannedPiece};
use crate::run::covered::length;
use crate::run::lines::Lines;
use crate::sink::Committed;

/// A piece that a stream works on.
pub(super) struct Active {
    /// Tells it from an earlier try of the same piece, whose last blocks may still be parsed.
    pub(super) activation: u64,
    pub(super) piece: PlannedPiece,
    /// The stream that has it.
    pub(super) stream: usize,
    pub(super) lane: Lane,
    pub(super) feed: Arc<Mutex<Feed>>,
    /// Blocks given out so far.
    pub(super) sequence: Arc<AtomicU64>,
    /// Bytes that it may still take from a shared stream.
    pub(super) budget: u64,
    pub(super) in_flight: usize,
    pub(super) ready: BTreeMap<u64, Unit>,
    /// Encoded bytes of these.
    pub(super) ready_bytes: usize,
    /// Its feed gave nothing, since others hold the memory for pages.
    pub(super) waits_for_memory: bool,
    pub(super) next_out: u64,
    pub(super) exhausted: bool,
    pub(super) progress: Progress,
    /// Its rest is being taken away right now: it must not end meanwhile.
    pub(super) is_halved: bool,
    pub(super) limits: Option<Arc<KeyLimits>>,
    pub(super) gatherers: Arc<Gatherers>,
    /// Its stream waits here for its next unit: nobody else is woken for one.
    pub(super) arrived: Arc<Condvar>,
}

/// How far a piece has come.
pub(super) struct Progress {
    pub(super) began: Instant,
    /// Bytes of text, or rows, that it is made of, and those that were parsed.
    pub(super) length: u64,
    pub(super) done: u64,
    /// How often no place was found at which its rest could be halved, or it was past that by then; it is not tried
    /// again before a moment.
    pub(super) misses: u32,
    pub(super) halved_from: Instant,
}

impl Progress {
    pub(super) fn of(piece: &PlannedPiece) -> Self {
        let length = piece.input.ranges().map_or(0, length);
        let began = Instant::now();
        Self { began, length, done: 0, misses: 0, halved_from: began }
    }

    pub(super) fn left(&self) -> u64 {
        self.length.saturating_sub(self.done)
    }

    /// How long the rest would take at the pace until now, in seconds; none where nothing came yet.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        let left = self.left() as f64;
        (self.done > 0).then(|| left * self.began.elapsed().as_secs_f64() / self.done as f64)
    }
}

/// How a piece that was refused as a whole is repeated.
#[derive(Clone)]
pub(super) enum Again {
    AsText,
    /// Every row is judged; why.
    Carefully(Arc<str>),
}

/// By table, how many pieces were refused as a whole since a row broke something, and why the first
/// one was.
pub type Refused = HashMap<usize, (usize, Arc<str>)>;

pub(super) struct SharedStream {
    pub(super) table: usize,
    pub(super) file: usize,
    pub(super) feed: Option<Arc<Mutex<Feed>>>,
    pub(super) ended: bool,
    /// What is committed of it already.
    pub(super) committed: Vec<Range<u64>>,
    /// Somebody opens it right now; a pipe must not be opened twice.
    pub(super) opening: bool,
    pub(super) users: usize,
}

/// The threads of a round, and how many of them are wanted.
pub(super) struct Crew {
    pub(super) streams_started: usize,
    pub(super) parsers_started: usize,
    /// Streams that were started and have not ended, and those of them that are not wanted now.
    pub(super) streams: usize,
    pub(super) parked: usize,
    pub(super) streams_wanted: usize,
    pub(super) parsers_wanted: usize,
}

impl Crew {
    /// Streams that are at work, or would be.
    pub(super) fn at_work(&self) -> usize {
        self.streams - self.parked
    }
}

impl Default for Crew {
    fn default() -> Self {
        Self {
            streams_started: 0,
            parsers_started: 0,
            streams: 0,
            parked: 0,
            streams_wanted: usize::MAX,
            parsers_wanted: usize::MAX,
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) waiting: VecDeque<PlannedPiece>,
    pub(super) volumes: Volumes,
    /// Where pieces were taken from that are the rest of others.
    pub(super) rests: HashMap<usize, RestOf>,
    /// Pieces that are to be repeated in another way.
    pub(super) again: HashMap<usize, Again>,
    /// Tables of which pieces were refused as a whole: how many, and why the first one was.
    pub(super) refused: Refused,
    pub(super) streams: Vec<SharedStream>,
    pub(super) active: Vec<Active>,
    pub(super) next_number: usize,
    pub(super) activations: u64,
    pub(super) failure: Option<Error>,
    pub(super) closed: bool,
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) blocks: Vec<Block>,
    pub(super) totals: Vec<TableTotals>,
    /// The pieces that are committed, those of earlier rounds among them.
    pub(super) committed: Vec<Committed>,
    /// Why connections were lost, where some were.
    pub(super) lost: Option<Error>,
    /// No piece is given out any more.
    pub(super) is_stopping: bool,
    /// What waits until a limit is no longer passed.
    pub(super) hold: Hold,
    pub(super) crew: Crew,
    pub(super) lines: Lines,
}

impl State {
    /// The piece of an activation, as long as a stream has it.
    pub(super) fn activated(&mut self, activation: u64) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| active.activation == activation)
    }

    /// Bytes of source that were sent so far, and that there are, where that is known.
    pub(super) fn bytes_sent(&self) -> (u64, Option<u64>) {
        let sent = self.totals.iter().map(|table| table.bytes_sent).sum();
        (sent, self.totals.iter().map(|table| table.bytes_expected).sum())
    }

    /// The piece that has more bytes left than all the rest of the run: a table of one session, among smaller ones.
    pub(super) fn longest(&self) -> Option<u64> {
        let (sent, expected) = self.bytes_sent();
        let all = expected?.saturating_sub(sent);
        // The progress of others is not in bytes.
        let is_text = |active: &&Active| matches!(active.piece.input, PieceInput::Ranges(_));
        let texts = self.active.iter().filter(is_text);
        let longest = texts.max_by_key(|active| active.progress.left())?;
        (longest.progress.left() > all / 2).then_some(longest.activation)
    }

    pub(super) fn count(&mut self, piece: &Committed) {
        let totals = &mut self.totals[piece.table];
        totals.rows += piece.rows;
        totals.rejected += piece.portion.rejected;
        totals.counts += piece.portion.counts;
        totals.bytes += piece.portion.bytes;
        totals.pieces += u64::from(piece.rows > 0);
    }
}
