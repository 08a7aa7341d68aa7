//! What is handed over: a piece to a stream, a job to a parser, and parsed blocks from one to the other.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use fullbore_parse::block::Block;
use fullbore_parse::{Counts, Lane};
use fullbore_read::feed::Feed;

use crate::plan::{KeyLimits, PlannedPiece};
use crate::run::reject_record::Reject;
use crate::run::source_row::SourceRow;
use crate::sink::Gatherer;
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
    pub counts: Counts,
    /// Of the bytes as they were parsed, where the destination keeps a ledger.
    pub checksum: Option<u64>,
    /// Of its typed rows, where they are asked for.
    pub sums: Option<Sums>,
    pub origin: Option<Origin>,
    /// Of a batch that no text was parsed for: its file, and the row in it of each of its rows, from 0.
    pub numbers: Option<(usize, Vec<u64>)>,
    /// Of a block as text, which of its rows these are, ascending; none where all are there.
    pub kept: Option<Vec<usize>>,
    /// Values whose nanoseconds were rounded.
    pub rounded: u64,
    /// Records that are no rows: where they came from, and why.
    pub faults: Vec<Reject>,
    /// Rows that the destination must judge, as COPY text.
    pub odd: Vec<(SourceRow, Vec<u8>)>,
    /// The block itself, where its rows may be asked for again (text lane).
    pub block: Option<Block>,
}

/// A piece that a stream is to load.
pub struct Claim {
    pub piece: PlannedPiece,
    pub lane: Lane,
    /// Every row is to be judged; why.
    pub careful: Option<Arc<str>>,
    /// It is what another piece had left.
    pub rest_of: Option<RestOf>,
}

/// Where a piece was taken from that is the rest of another one.
#[derive(Debug, Clone, Copy)]
pub struct RestOf {
    pub piece: usize,
    /// How long that would have taken yet, in seconds; none where nothing came of it so far.
    pub seconds: Option<f64>,
}

/// What a parser is to do next.
pub struct ParseTask {
    pub activation: u64,
    pub table: usize,
    pub lane: Lane,
    pub feed: Arc<Mutex<Feed>>,
    pub sequence: Arc<AtomicU64>,
    /// The keys that its rows may have, where it becomes a partition.
    pub limits: Option<Arc<KeyLimits>>,
    pub gatherers: Arc<Gatherers>,
}

/// What notes the rows of a piece, one for each parser that works on it at once.
pub type Gatherers = Mutex<Vec<Box<dyn Gatherer>>>;
