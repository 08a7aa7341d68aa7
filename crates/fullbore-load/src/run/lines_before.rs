//! Lines before the ranges of files, for tables that keep lines with their rows: counted beforehand, in
//! parallel, since ranges of one file are loaded side by side.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fullbore_read::error::{Error, Result};
use fullbore_read::lines;
use fullbore_read::ranges::LinesBefore;

use crate::plan::{PieceInput, Plan};

/// A stretch of a file without another range's start in it.
struct Stretch {
    table: usize,
    file: usize,
    start: u64,
    end: u64,
}

/// Counts for each table that asks for lines.
pub fn count(plan: &Plan) -> Result<HashMap<usize, Arc<LinesBefore>>> {
    let stretches = stretches(plan);
    let next = AtomicUsize::new(0);
    let counted: Vec<Vec<(usize, Option<u64>)>> = std::thread::scope(|scope| {
        let count_some = || {
            let mut counted = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(stretch) = stretches.get(at) else { return counted };
                let source = &plan.tables[stretch.table].files[stretch.file];
                counted.push((at, lines::count(source, stretch.start, stretch.end)));
            }
        };
        let workers = plan.parsers.min(stretches.len());
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(count_some)).collect();
        workers.into_iter().map(|worker| worker.join().expect("counting does not panic")).collect()
    });
    let mut lines = vec![None; stretches.len()];
    for (at, count) in counted.into_iter().flatten() {
        lines[at] = count;
    }
    let mut before: HashMap<usize, LinesBefore> = HashMap::new();
    let mut total = 0;
    for (stretch, lines) in stretches.iter().zip(lines) {
        let source = &plan.tables[stretch.table].files[stretch.file];
        if stretch.start == source.data_start {
            total = source.data_start_lines;
        }
        before.entry(stretch.table).or_default().insert((stretch.file, stretch.start), total);
        total += lines.ok_or_else(|| Error::Source {
            path: source.path.clone(),
            message: "its lines can't be counted".into(),
            hint: Some(
                "it may have been truncated; load again when no process writes to it".into(),
            ),
        })?;
    }
    Ok(before.into_iter().map(|(table, lines)| (table, Arc::new(lines))).collect())
}

/// The stretches between the starts of ranges, in the order of tables, files and places.
fn stretches(plan: &Plan) -> Vec<Stretch> {
    let mut starts: BTreeSet<(usize, usize, u64)> = BTreeSet::new();
    for piece in &plan.pieces {
        let table = &plan.tables[piece.table];
        let PieceInput::Ranges(ranges) = &piece.input else { continue };
        for range in ranges.iter().filter(|range| table.files[range.file].is_seekable()) {
            if table.lineage.has_lines() {
                starts.insert((piece.table, range.file, range.start));
                // Where the pieces leave something out, its lines count all the same.
                starts.insert((piece.table, range.file, table.files[range.file].data_start));
            }
        }
    }
    let places: Vec<_> = starts.into_iter().collect();
    let end_of = |number: usize, (table, file, _): (usize, usize, u64)| {
        let next = places.get(number + 1).filter(|next| (next.0, next.1) == (table, file));
        next.map_or(plan.tables[table].files[file].end(), |next| next.2)
    };
    places
        .iter()
        .enumerate()
        .map(|(number, place)| Stretch {
            table: place.0,
            file: place.1,
            start: place.2,
            end: end_of(number, *place),
        })
        .collect()
}
