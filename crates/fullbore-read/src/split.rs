//! Cuts a file into ranges at record boundaries.

use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_parse::boundary::{QuoteState, advance, first_record_end};
use fullbore_parse::dialect::{Dialect, Family};
use fullbore_parse::index::quotes::{QuotesSeen, Scan};

use super::guess;
use super::opened::Opened;
use super::prescan::Pass;
use super::source_file::SourceFile;
use super::walked::Walked;
use crate::error::Result;

/// How a file is cut.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// About how large a range should be.
    pub range_bytes: u64,
    /// Longer records are refused.
    pub record_bytes_max: usize,
    /// Of all files that are cut.
    pub total_bytes: u64,
}

/// Places at which a file can be cut into ranges: ascending, the first is the file's first record, the
/// last its end. Quoted files are scanned by `threads` threads.
pub fn cuts(
    source: &SourceFile,
    dialect: &Dialect,
    sizes: Sizes,
    threads: usize,
) -> Result<Vec<u64>> {
    let end = source.end();
    let start = source.data_start.min(end);
    let ranges = (end - start).div_ceil(sizes.range_bytes.max(1)).max(1);
    let wanted: Vec<u64> = (1..ranges).map(|n| start + n * ((end - start) / ranges)).collect();
    let mut cuts = vec![start];
    if source.is_guessed
        && dialect.family == Family::Csv
        && let Some(guessed) = guess::cuts(source, dialect, &wanted)?
    {
        cuts.extend(guessed);
        cuts.dedup();
    } else {
        cuts.extend(cuts_near(source, dialect, sizes, threads, start, &wanted)?);
    }
    cuts.retain(|cut| *cut < end);
    cuts.push(end);
    Ok(cuts)
}

/// The first record after each of some places, which ascend from `start`, where a record begins; fewer where records
/// are long. Quoted text is scanned from there.
pub fn cuts_near(
    source: &SourceFile,
    dialect: &Dialect,
    sizes: Sizes,
    threads: usize,
    start: u64,
    wanted: &[u64],
) -> Result<Vec<u64>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let pass = Pass::new(source, sizes.total_bytes)?;
    let mut cuts = Vec::new();
    if !dialect.is_told_by_parity() {
        let seen = match dialect.is_often_told_by_parity() {
            true => quotes_seen(&pass, start, wanted, dialect, threads)?,
            false => Vec::new(),
        };
        let record_bytes_max = sizes.record_bytes_max;
        let walked = Walked { source, opened: pass.opened(), dialect, record_bytes_max };
        cuts = walked.cuts(start, wanted, &seen)?;
        cuts.dedup();
        return Ok(cuts);
    }
    let states = match dialect.family {
        Family::Csv => quote_states(&pass, start, wanted, dialect, threads)?,
        Family::Text | Family::Plain | Family::Json | Family::Fixed => {
            vec![QuoteState::default(); wanted.len()]
        }
    };
    let mut reached = start;
    for (from, state) in wanted.iter().zip(states) {
        // Within the record that was just read to its end. After a stray quote that is all the
        // rest of the file, which would be read once for every cut.
        if *from < reached {
            continue;
        }
        reached = next_record(pass.opened(), source, *from, state, dialect)?;
        if cuts.last().is_none_or(|last| reached > *last) {
            cuts.push(reached);
        }
    }
    Ok(cuts)
}

/// The beginning of the first record after `from`.
pub fn next_record(
    opened: &Opened,
    source: &SourceFile,
    from: u64,
    mut state: QuoteState,
    dialect: &Dialect,
) -> Result<u64> {
    // The run of backslashes before the place must be seen whole; it is bounded by a record.
    let before = from.min(64 * 1024);
    let mut text_before = vec![0; before as usize];
    read_exactly(opened, source, from - before, &mut text_before)?;
    let mut at = from;
    let mut chunk = vec![0; 64 * 1024];
    let end = source.end();
    while at < end {
        let bytes = (end - at).min(chunk.len() as u64) as usize;
        read_exactly(opened, source, at, &mut chunk[..bytes])?;
        let found = first_record_end(&chunk[..bytes], state, &text_before, dialect);
        if let Some(record_end) = found {
            return Ok(at + record_end as u64);
        }
        state = advance(state, &chunk[..bytes], dialect);
        text_before.clear();
        text_before.extend_from_slice(&chunk[..bytes]);
        at += bytes as u64;
    }
    Ok(end)
}

/// The quote state at each wanted place. The stretches between them are scanned side by side,
/// each from both possible states, and then joined from the front.
fn quote_states(
    pass: &Pass<'_>,
    start: u64,
    wanted: &[u64],
    dialect: &Dialect,
    threads: usize,
) -> Result<Vec<QuoteState>> {
    let inside = QuoteState { inside: true, escaped: false };
    let scan = |stretch: usize| -> Result<[QuoteState; 2]> {
        let from = if stretch == 0 { start } else { wanted[stretch - 1] };
        let mut states = [QuoteState::default(), inside];
        pass.each(from, wanted[stretch], |chunk| {
            if dialect.quote_is_doubled() {
                // Both states differ by one parity only.
                states[0] = advance(states[0], chunk, dialect);
                states[1] = QuoteState { inside: !states[0].inside, escaped: false };
            } else {
                states = states.map(|state| advance(state, chunk, dialect));
            }
        })?;
        Ok(states)
    };
    let mut state = QuoteState::default();
    let mut states = Vec::with_capacity(wanted.len());
    for both in side_by_side(wanted.len(), threads, scan)? {
        // An escape pending at a place is known only to the scan that began there: the state that
        // is carried over it can't be told apart, so the stretch is walked again from it.
        state = if state.escaped {
            let stretch = states.len();
            rescan(pass, wanted, stretch, state, dialect)?
        } else {
            both[usize::from(state.inside)]
        };
        states.push(state);
    }
    Ok(states)
}

/// What the quotes of the stretches say that end at the wanted places.
fn quotes_seen(
    pass: &Pass<'_>,
    start: u64,
    wanted: &[u64],
    dialect: &Dialect,
    threads: usize,
) -> Result<Vec<QuotesSeen>> {
    let look = |stretch: usize| -> Result<QuotesSeen> {
        let from = if stretch == 0 { start } else { wanted[stretch - 1] };
        let mut before = Vec::new();
        if stretch > 0 {
            pass.each(from.saturating_sub(2).max(start), from, |text| before.extend(text))?;
        }
        let mut scan = Scan::new(&before, dialect);
        pass.each(from, wanted[stretch], |chunk| scan.add(chunk))?;
        Ok(scan.seen)
    };
    side_by_side(wanted.len(), threads, look)
}

/// Does so many pieces of work by some threads; what came of each, in order.
pub(super) fn side_by_side<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let mut all: Vec<(usize, Result<T>)> = std::thread::scope(|scope| {
        let work_some = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return done;
                }
                done.push((number, work(number)));
            }
        };
        let workers: Vec<_> =
            (0..threads.clamp(1, count.max(1))).map(|_| scope.spawn(work_some)).collect();
        let done = workers.into_iter().map(|worker| worker.join().expect("a scan does not panic"));
        done.flatten().collect()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, made)| made).collect()
}

fn rescan(
    pass: &Pass<'_>,
    wanted: &[u64],
    stretch: usize,
    mut state: QuoteState,
    dialect: &Dialect,
) -> Result<QuoteState> {
    pass.each(wanted[stretch - 1], wanted[stretch], |chunk| {
        state = advance(state, chunk, dialect);
    })?;
    Ok(state)
}

fn read_exactly(opened: &Opened, source: &SourceFile, at: u64, bytes: &mut [u8]) -> Result<()> {
    opened.read_exact_at(bytes, at).map_err(|error| source.unreadable(error))
}
