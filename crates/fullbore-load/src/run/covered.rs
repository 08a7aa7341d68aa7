//! What committed pieces cover of the files, and what is left of the planned ones.
//!
//! A piece may have given its rest to another one, which has a number of its own. So what is left to load follows
//! from ranges, not from the numbers of pieces.

use std::collections::HashMap;
use std::ops::Range;

use fullbore_read::FileRange;
use fullbore_read::remaining::stretches;

use crate::plan::{PieceInput, Plan, PlannedPiece};
use crate::sink::Committed;

/// Stretches of files that are committed: by table and file, in order, those that touch joined.
pub struct Covered {
    stretches: HashMap<(usize, usize), Vec<Range<u64>>>,
}

impl Covered {
    pub fn by(committed: &[Committed]) -> Self {
        let mut ranges: HashMap<(usize, usize), Vec<&FileRange>> = HashMap::new();
        for piece in committed {
            for range in &piece.portion.ranges {
                ranges.entry((piece.table, range.file)).or_default().push(range);
            }
        }
        let joined = |((table, file), ranges): ((usize, usize), Vec<&FileRange>)| {
            ((table, file), stretches(ranges.into_iter(), file))
        };
        Self { stretches: ranges.into_iter().map(joined).collect() }
    }

    /// The stretches of a file.
    pub fn of(&self, table: usize, file: usize) -> &[Range<u64>] {
        self.stretches.get(&(table, file)).map_or(&[], Vec::as_slice)
    }

    /// What of ranges is not covered.
    pub fn rest(&self, table: usize, ranges: &[FileRange]) -> Vec<FileRange> {
        let mut rest = Vec::new();
        for range in ranges {
            let mut at = range.start;
            let stretches = self.of(table, range.file);
            let first = stretches.partition_point(|stretch| stretch.end <= range.start);
            for stretch in &stretches[first..] {
                if stretch.start >= range.end {
                    break;
                }
                if stretch.start > at {
                    rest.push(FileRange { file: range.file, start: at, end: stretch.start });
                }
                at = stretch.end;
            }
            if at < range.end {
                rest.push(FileRange { file: range.file, start: at, end: range.end });
            }
        }
        rest
    }

    /// What of a planned piece is left, where it is not read on; none where nothing is. Whether a piece is known that
    /// was committed with its number matters only where ranges do not tell.
    pub fn rest_of(&self, planned: &PlannedPiece, is_known: bool) -> Option<PlannedPiece> {
        let ranges = planned.input.ranges()?;
        // A partition is its piece, and one that has no rows has no ranges.
        if planned.bounds.is_some() || ranges.is_empty() {
            return (!is_known).then(|| planned.clone());
        }
        let rest = self.rest(planned.table, ranges);
        if rest.is_empty() {
            return None;
        }
        if rest == ranges {
            return Some(planned.clone());
        }
        let bytes = share(planned.bytes, length(&rest), length(ranges));
        let input = match planned.input {
            PieceInput::Rows(_) => PieceInput::Rows(rest),
            _ => PieceInput::Ranges(rest),
        };
        Some(PlannedPiece { input, bytes, ..planned.clone() })
    }
}

/// A piece with a range that overlaps one of another piece.
pub fn first_twice(committed: &[Committed]) -> Option<&Committed> {
    let of_piece = |piece| {
        let Committed { table, portion, .. }: &Committed = piece;
        portion.ranges.iter().map(move |range| (*table, range.file, range.start, range.end, piece))
    };
    let mut ranges: Vec<_> = committed.iter().flat_map(of_piece).collect();
    ranges.sort_by_key(|(table, file, start, end, _)| (*table, *file, *start, *end));
    let mut pairs = ranges.windows(2);
    let twice = pairs
        .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[1].2 < pair[0].3);
    twice.map(|pair| pair[1].4)
}

/// Bytes, or rows, of ranges.
pub fn length(ranges: &[FileRange]) -> u64 {
    ranges.iter().fold(0, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)))
}

/// A part of so many bytes.
pub fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    (bytes as f64 * part as f64 / whole.max(1) as f64) as u64
}

/// Whether a committed piece took what came of a file that can only be read from its beginning.
pub fn is_read_on(plan: &Plan, piece: &Committed) -> bool {
    let Some(first) = piece.portion.ranges.first() else { return false };
    plan.pieces.iter().any(|planned| {
        planned.table == piece.table
            && matches!(planned.input, PieceInput::Stream { file } if file == first.file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Portion;

    fn range(file: usize, start: u64, end: u64) -> FileRange {
        FileRange { file, start, end }
    }

    fn committed(piece: usize, ranges: Vec<FileRange>) -> Committed {
        Committed {
            piece,
            portion: Portion { ranges, ..Portion::default() },
            ..Committed::default()
        }
    }

    fn planned(ranges: Vec<FileRange>) -> PlannedPiece {
        let bytes = length(&ranges);
        PlannedPiece { number: 0, table: 0, input: PieceInput::Ranges(ranges), bytes, bounds: None }
    }

    #[test]
    fn what_is_left_is_told_by_ranges() {
        let piece = planned(vec![range(0, 10, 100), range(1, 0, 50)]);
        let rest = |done: &[Committed]| {
            let is_known = done.iter().any(|done| done.piece == 0);
            Covered::by(done).rest_of(&piece, is_known)
        };
        assert_eq!(rest(&[]), Some(piece.clone()));
        // It gave its rest away and was committed: the rest was not.
        let left = rest(&[committed(0, vec![range(0, 10, 60)])]).expect("something is left");
        assert_eq!((left.number, left.bytes), (0, 90));
        assert_eq!(left.input, PieceInput::Ranges(vec![range(0, 60, 100), range(1, 0, 50)]));
        // The rest was committed, and it was not.
        let left = rest(&[committed(3, vec![range(0, 60, 100), range(1, 0, 50)])]);
        let left = left.expect("something is left");
        assert_eq!((left.number, left.bytes), (0, 50));
        assert_eq!(left.input, PieceInput::Ranges(vec![range(0, 10, 60)]));
        // Both were, the rest in two.
        let all = [
            committed(0, vec![range(0, 10, 60)]),
            committed(3, vec![range(0, 60, 80)]),
            committed(4, vec![range(0, 80, 100), range(1, 0, 50)]),
        ];
        assert_eq!(rest(&all), None);
        assert_eq!(first_twice(&all), None);
        let twice = [all[0].clone(), committed(9, vec![range(0, 59, 60)])];
        assert_eq!(first_twice(&twice).map(|piece| piece.piece), Some(9));
        assert_eq!(rest(&all[1..]).map(|left| left.bytes), Some(50));
    }

    #[test]
    fn a_piece_without_rows_is_told_by_its_number() {
        let empty = planned(Vec::new());
        let covered = Covered::by(&[committed(0, Vec::new())]);
        assert_eq!(covered.rest_of(&empty, true), None);
        assert_eq!(covered.rest_of(&empty, false), Some(empty));
    }
}
