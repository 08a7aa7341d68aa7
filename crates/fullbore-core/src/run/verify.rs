//! Quick verification: the counts that both sides have anyway, held against each other.
//!
//! A destination has compared, before each commit, the rows that it counted with those that were sent
//! to it. Here the pieces that it says are committed are held against the plan: each once, and read
//! from end to end.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use fullbore_read::FileRange;
use fullbore_read::error::{DestinationFailure, Error, Result};
use serde::{Deserialize, Serialize};

use crate::destination::{Committed, Proven};
use crate::job::Verify;
use crate::plan::{Format, PieceInput, Plan, PlannedPiece};

/// What was proved of a run that has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    pub level: Verify,
    pub rows: u64,
    pub pieces: u64,
    /// Columns of which every value was compared.
    pub columns: u64,
    /// Rows that the target itself kept out, by its triggers.
    pub rows_kept_out: u64,
    /// Rows that broke a key and were taken out: their own sums were made by the destination, and
    /// taken out of those of the whole.
    #[serde(default)]
    pub rows_sifted: u64,
    /// What was not covered, and why.
    pub not_covered: Vec<String>,
    /// Rows that the destination counted in their tables, beyond what it counted as they came.
    #[serde(default)]
    pub rows_counted: u64,
    /// Rows in tables from which, as the destination's own statistics have it, nothing was taken.
    #[serde(default)]
    pub rows_unchanged: u64,
    /// What was not counted there, and why.
    #[serde(default)]
    pub not_counted: Vec<String>,
}

impl Verified {
    pub fn of(committed: &[Committed], proven: Proven) -> Self {
        Self {
            level: if proven.columns > 0 { Verify::Full } else { Verify::Quick },
            rows: committed.iter().map(|piece| piece.rows).sum(),
            pieces: committed.len() as u64,
            columns: proven.columns,
            rows_kept_out: proven.rows_kept_out,
            rows_sifted: proven.rows_sifted,
            not_covered: proven.not_covered,
            rows_counted: proven.rows_counted,
            rows_unchanged: proven.rows_unchanged,
            not_counted: proven.not_counted,
        }
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
            let how = format!("was read to {read} of its {bytes} bytes of source");
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
        hint: Some("nothing is shown of it; load again, and report this as a defect".into()),
        kind: DestinationFailure::Differs,
    }
}
