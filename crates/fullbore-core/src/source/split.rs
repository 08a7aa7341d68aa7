//! Cuts a file into ranges at record boundaries.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::SourceFile;
use super::boundary::{QuoteState, advance, first_record_end};
use super::pass::Pass;
use crate::error::{Error, Result};
use crate::parse::dialect::{Dialect, Family};

/// Places at which a file can be cut into ranges of about `range_bytes`: ascending, the first is
/// the file's first record, the last its end. Quoted files are scanned by `threads` threads, this one
/// as one of `total_bytes`.
pub fn cuts(
    source: &SourceFile,
    dialect: &Dialect,
    range_bytes: u64,
    threads: usize,
    total_bytes: u64,
) -> Result<Vec<u64>> {
    let start = source.data_start.min(source.size);
    let ranges = (source.size - start).div_ceil(range_bytes.max(1)).max(1);
    let wanted: Vec<u64> =
        (1..ranges).map(|n| start + n * ((source.size - start) / ranges)).collect();
    let mut cuts = vec![start];
    if !wanted.is_empty() {
        let pass = Pass::new(source, total_bytes)?;
        let states = match dialect.family {
            Family::Csv => quote_states(&pass, start, &wanted, dialect, threads)?,
            Family::Text | Family::Plain => vec![QuoteState::default(); wanted.len()],
        };
        let mut reached = start;
        for (from, state) in wanted.into_iter().zip(states) {
            // Within the record that was just read to its end. After a stray quote that is all the
            // rest of the file, which would be read once for every cut.
            if from < reached {
                continue;
            }
            reached = next_record(pass.file(), source, from, state, dialect)?;
            if reached > cuts[cuts.len() - 1] && reached < source.size {
                cuts.push(reached);
            }
        }
    }
    cuts.push(source.size);
    Ok(cuts)
}

/// The beginning of the first record after `from`.
pub fn next_record(
    file: &File,
    source: &SourceFile,
    from: u64,
    mut state: QuoteState,
    dialect: &Dialect,
) -> Result<u64> {
    // The run of backslashes before the place must be seen whole; it is bounded by a record.
    let before = from.min(64 * 1024);
    let mut text_before = vec![0; before as usize];
    read_exactly(file, source, from - before, &mut text_before)?;
    let mut at = from;
    let mut chunk = vec![0; 64 * 1024];
    while at < source.size {
        let bytes = (source.size - at).min(chunk.len() as u64) as usize;
        read_exactly(file, source, at, &mut chunk[..bytes])?;
        if let Some(end) = first_record_end(&chunk[..bytes], state, &text_before, dialect) {
            return Ok(at + end as u64);
        }
        state = advance(state, &chunk[..bytes], dialect);
        text_before.clear();
        text_before.extend_from_slice(&chunk[..bytes]);
        at += bytes as u64;
    }
    Ok(source.size)
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
    let next = AtomicUsize::new(0);
    let mut scanned: Vec<Option<Result<[QuoteState; 2]>>> = Vec::new();
    scanned.resize_with(wanted.len(), || None);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, wanted.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let stretch = next.fetch_add(1, Ordering::Relaxed);
                        if stretch >= wanted.len() {
                            return done;
                        }
                        done.push((stretch, scan(stretch)));
                    }
                })
            })
            .collect();
        for worker in workers {
            for (stretch, states) in worker.join().expect("a scan does not panic") {
                scanned[stretch] = Some(states);
            }
        }
    });
    let mut state = QuoteState::default();
    let mut states = Vec::with_capacity(wanted.len());
    for both in scanned {
        let both = both.expect("every stretch was scanned")?;
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

fn read_exactly(file: &File, source: &SourceFile, at: u64, bytes: &mut [u8]) -> Result<()> {
    file.read_exact_at(bytes, at)
        .map_err(|error| Error::Read { path: source.path.clone(), source: error })
}
