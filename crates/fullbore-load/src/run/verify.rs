//! Quick verification: compares the row counts of both sides.
//!
//! Before each commit the destination has compared its row count with the number of rows sent. Here the
//! committed pieces are compared with the plan: each piece once, and read from end to end.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use fullbore_read::FileRange;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Verified;
use fullbore_record::terms::Verify;

use crate::plan::{Format, PieceInput, Plan, PlannedPiece};
use crate::sink::{Committed, Proven};

/// What is proved of the pieces that are committed.
pub fn verified(committed: &[Committed], proven: Proven) -> Verified {
    Verified {
        level: if proven.columns > 0 { Verify::Full } else { Verify::Quick },
        rows: committed.iter().map(|piece| piece.rows).sum(),
        pieces: committed.len() as u64,
        columns: proven.columns,
        rows_kept_out: proven.rows_kept_out,
        violations: proven.violations,
        not_covered: proven.not_covered,
        rows_counted: proven.rows_counted,
        rows_unchanged: proven.rows_unchanged,
        not_counted: proven.not_counted,
    }
}

/// Refuses pieces that are not those of the plan.
pub fn pieces(plan: &Plan, committed: &[Committed]) -> Result<()> {
    let mut found: HashMap<usize, &Committed> = HashMap::new();
    for piece in committed {
        if found.insert(piece.piece, piece).is_some() {
            return Err(differs(plan, piece, "is committed twice"));
        }
    }
    for planned in &plan.pieces {
        let ranges = match &planned.input {
            // They are cut while they are read; what is missing of them is read again.
            PieceInput::Stream { .. } => continue,
            PieceInput::Ranges(ranges) | PieceInput::Rows(ranges) => ranges,
        };
        let Some(piece) = found.get(&planned.number) else {
            let missing =
                Committed { piece: planned.number, table: planned.table, ..Committed::default() };
            return Err(differs(plan, &missing, "was planned and is not committed"));
        };
        if piece.table != planned.table {
            return Err(differs(plan, piece, "belongs to another table by the plan"));
        }
        if let Some(bytes) = bytes_of(plan, planned, ranges)
            && !bytes.contains(&piece.portion.bytes)
        {
            let (read, bytes) = (piece.portion.bytes, bytes.start());
            let how = format!("covers {read} of its {bytes} source bytes");
            return Err(differs(plan, piece, &how));
        }
    }
    Ok(())
}

/// Bytes of text that a piece is made of, where the plan knows: a file that ends without a line end is
/// read as if it had one.
fn bytes_of(
    plan: &Plan,
    piece: &PlannedPiece,
    ranges: &[FileRange],
) -> Option<RangeInclusive<u64>> {
    let table = &plan.tables[piece.table];
    let (Format::Delimited(dialect), PieceInput::Ranges(_)) = (&table.format, &piece.input) else {
        return None;
    };
    if !ranges.iter().all(|range| table.files[range.file].is_seekable()) {
        return None;
    }
    let bytes = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
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
