//! Reading alone: the job's own files by the job's own reader, and nothing done with what is read.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fullbore_load::plan::{Format, PieceInput, Plan, PlannedPiece};
use fullbore_parse::Lane;
use fullbore_parse::block::Block;
use fullbore_preflight::cpu::process_seconds;
use fullbore_read::cancellable::Cancellation;
use fullbore_read::columnar::{Reading, RowFeed};
use fullbore_read::error::Result;
use fullbore_read::feed::{Fed, Feed};
use fullbore_read::ranges::RangeFeed;
use fullbore_read::stream::StreamFeed;
use fullbore_record::ceilings::Stage;
use serde::Serialize;

use super::measured::Bounds;
use crate::load::signals::INTERRUPTED;

/// What reading came to.
#[derive(Debug, Clone, Serialize)]
pub struct Read {
    pub stage: Stage,
    /// Share of the files' bytes that came from the page cache, where the kernel tells.
    pub cached: Option<f64>,
}

pub fn run(plan: &Plan, bounds: Bounds) -> Result<Read> {
    let waiting = Mutex::new(plan.pieces.iter());
    let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (began, cpu, io) = (Instant::now(), process_seconds(), Io::now());
    std::thread::scope(|scope| {
        let read_some = || -> Result<()> {
            loop {
                let next = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
                let Some(piece) = next else { return Ok(()) };
                let mut feed = feed_of(plan, piece)?;
                let mut block = Block::default();
                loop {
                    bytes.fetch_add(
                        match feed.next(&mut block, Lane::Binary)? {
                            // Each piece has the memory to itself.
                            Fed::End | Fed::Later => break,
                            Fed::Block => block.len() as u64,
                            Fed::Rows(rows) => rows.batch.get_array_memory_size() as u64,
                        },
                        Ordering::Relaxed,
                    );
                    let is_enough = began.elapsed().as_secs_f64() >= bounds.seconds
                        || bytes.load(Ordering::Relaxed) >= bounds.bytes
                        || INTERRUPTED.load(Ordering::Relaxed);
                    if is_enough || stop.load(Ordering::Relaxed) {
                        stop.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                }
            }
        };
        let readers: Vec<_> = (0..plan.parsers).map(|_| scope.spawn(read_some)).collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("reading does not panic"))
    })?;
    let seconds = began.elapsed().as_secs_f64().max(1e-6);
    let bytes = bytes.into_inner();
    let gigabytes = (bytes as f64 / 1e9).max(1e-9);
    let io = Io::now().since(io);
    Ok(Read {
        stage: Stage {
            bytes_per_second: bytes as f64 / seconds,
            client_cpu: (process_seconds() - cpu) / gigabytes,
            server_cpu: None,
            sessions: None,
            bytes,
            seconds,
        },
        cached: (io.asked > 0).then(|| 1.0 - (io.fetched as f64 / io.asked as f64).min(1.0)),
    })
}

fn feed_of(plan: &Plan, piece: &PlannedPiece) -> Result<Feed> {
    let table = &plan.tables[piece.table];
    Ok(match (&piece.input, &table.format) {
        (PieceInput::Ranges(ranges), Format::Delimited(dialect)) => {
            Feed::Ranges(Box::new(RangeFeed::new(
                table.files.clone(),
                ranges.clone(),
                dialect.clone(),
                plan.max_field_bytes,
            )))
        }
        (PieceInput::Stream { file }, Format::Delimited(dialect)) => {
            Feed::Stream(StreamFeed::open(
                table.files[*file].clone(),
                *file,
                dialect.clone(),
                plan.max_field_bytes,
                &Cancellation::default(),
            )?)
        }
        (PieceInput::Rows(ranges), _) => Feed::Rows(Box::new(RowFeed::new(
            table.files.clone(),
            ranges.clone(),
            Reading::alone(table.read_shape(Lane::Binary), plan.max_field_bytes),
        ))),
        (_, Format::Columnar(_)) => unreachable!("columns are planned by rows"),
    })
}

/// Bytes that this process asked files for, and those that a disk was asked for.
#[derive(Debug, Clone, Copy, Default)]
struct Io {
    asked: u64,
    fetched: u64,
}

impl Io {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
        };
        Self { asked: of("rchar:"), fetched: of("read_bytes:") }
    }

    fn since(self, earlier: Self) -> Self {
        Self { asked: self.asked - earlier.asked, fetched: self.fetched - earlier.fetched }
    }
}
