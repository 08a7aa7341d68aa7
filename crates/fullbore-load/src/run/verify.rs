//! Quick verification: compares the row counts of both sides.
//!
//! Before each commit the destination has compared its row count with the number of rows sent. Here the
//! committed pieces are compared with the plan: all its ranges, each once, and read from end to end.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use fullbore_read::FileRange;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Verified;
use fullbore_record::terms::Verify;

use super::covered::{self, Covered, length};
use crate::plan::{Format, Plan};
use crate::sink::{Committed, Proven};

/// What is proved of the pieces that are committed.
pub fn verified(committed: &[Committed], proven: Proven) -> Verified {
    Verified {
        level: if proven.columns > 0 { Verify::Full } else { Verify::Quick },
        rows: committed.iter().map(|piece| piece.rows).sum(),
        pieces: committed.len() as u64,
        columns: proven.columns,
        sums: proven.sums,
        rows_kept_out: proven.rows_kept_out,
        violations: proven.violations,
        not_covered: proven.not_covered,
        rows_counted: proven.rows_counted,
        rows_unchanged: proven.rows_unchanged,
        not_counted: proven.not_counted,
    }
}

/// Refuses pieces that do not make up the plan: each of its ranges committed once.
pub fn pieces(plan: &Plan, committed: &[Committed]) -> Result<()> {
    let mut found: HashSet<usize> = HashSet::new();
    for piece in committed {
        if !found.insert(piece.piece) {
            return Err(differs(plan, piece, "is committed twice"));
        }
        if let Some(bytes) = bytes_of(plan, piece)
            && !bytes.contains(&piece.portion.bytes)
        {
            let (read, bytes) = (piece.portion.bytes, bytes.start());
            let how = format!("covers {read} of its {bytes} source bytes");
            return Err(differs(plan, piece, &how));
        }
    }
    // What is read on is cut while it is read; what is missing of it is read again.
    let covered = Covered::by(committed);
    for planned in &plan.pieces {
        if covered.rest_of(planned, found.contains(&planned.number)).is_some() {
            let missing =
                Committed { piece: planned.number, table: planned.table, ..Committed::default() };
            return Err(differs(plan, &missing, "was planned and is not committed"));
        }
    }
    match covered::first_twice(committed) {
        Some(piece) => Err(differs(plan, piece, "has rows that another piece has too")),
        None => Ok(()),
    }
}

/// Bytes of text that a piece is made of, where its ranges tell: a file that ends without a line end is read as if
/// it had one.
fn bytes_of(plan: &Plan, piece: &Committed) -> Option<RangeInclusive<u64>> {
    let table = plan.tables.get(piece.table)?;
    let ranges = &piece.portion.ranges;
    let Format::Delimited(dialect) = &table.format else { return None };
    let is_seekable = |range: &FileRange| table.files[range.file].is_seekable();
    if ranges.is_empty() || !ranges.iter().all(is_seekable) {
        return None;
    }
    let bytes = length(ranges);
    let last = ranges.iter().filter(|range| range.end == table.files[range.file].end()).count();
    Some(bytes..=bytes + (last * dialect.line_end.written().len()) as u64)
}

fn differs(plan: &Plan, piece: &Committed, how: &str) -> Error {
    let table = plan.tables.get(piece.table).map_or("?", |table| table.name.as_str());
    Error::Destination {
        message: format!("piece {} of {table} {how}", piece.piece),
        hint: Some("nothing is published; load again, and report this as a bug".into()),
        kind: DestinationFailure::Differs,
    }
}
