//! Halves what is left of a piece, so that two can read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_parse::boundary::QuoteState;
use fullbore_parse::dialect::{Dialect, Family};

use super::guess;
use super::source_file::{FileRange, SourceFile};
use super::split::{Sizes, cuts_near, next_record};
use crate::constants::SCAN_CHUNK_BYTES;
use crate::error::Result;

/// Readers of text that must be looked through to find a place in it.
const SCANNED_BY: u64 = 4;

/// What halving must know.
pub struct Halving<'a> {
    pub files: &'a [Arc<SourceFile>],
    /// Of text; rows are halved between the ranges that they are given in.
    pub dialect: Option<&'a Dialect>,
    /// Longer records are refused.
    pub record_bytes_max: usize,
    /// Places at which records of files begin, ascending, by the number of the file, where they were found by reading
    /// it through.
    pub joints: &'a BTreeMap<usize, Vec<u64>>,
}

impl Halving<'_> {
    /// The last part of what is left, from 0 to 1: ranges behind a place between two records. Nothing where there is no
    /// such place.
    pub fn last_part(&self, left: &[FileRange], part: f64) -> Result<Vec<FileRange>> {
        let length = |range: &FileRange| range.end.saturating_sub(range.start);
        let mut wanted = (left.iter().map(length).sum::<u64>() as f64 * part).ceil() as u64;
        let mut taken: Vec<FileRange> = Vec::new();
        for (at, range) in left.iter().enumerate().rev() {
            // A range of rows is given away whole, as long as most of it is wanted: the piece keeps the group that it
            // reads now, which is none of these. One of text is kept where some of it was read.
            let is_taken = match self.dialect {
                Some(_) => at > 0 && length(range) <= wanted,
                None => length(range) / 2 <= wanted || taken.is_empty(),
            };
            if is_taken {
                wanted = wanted.saturating_sub(length(range));
                taken.push(range.clone());
                if wanted == 0 {
                    break;
                }
                continue;
            }
            match self.place_near(range, range.end - wanted.min(length(range)))? {
                Some(place) => taken.push(FileRange { start: place, ..range.clone() }),
                None if taken.is_empty() && at > 0 => taken.push(range.clone()),
                None => {}
            }
            break;
        }
        taken.reverse();
        taken.dedup_by(|next, range| {
            let follows = next.file == range.file && next.start == range.end;
            if follows {
                range.end = next.end;
            }
            follows
        });
        Ok(taken)
    }

    /// Where a record begins within a range, near a place in it.
    fn place_near(&self, range: &FileRange, place: u64) -> Result<Option<u64>> {
        let Some(dialect) = self.dialect else { return Ok(None) };
        let source = &self.files[range.file];
        let is_within = |found: &u64| range.start < *found && *found < range.end;
        if let Some(joints) = self.joints.get(&range.file) {
            let within = joints.iter().copied().filter(is_within);
            return Ok(within.min_by_key(|joint| joint.abs_diff(place)));
        }
        if dialect.family != Family::Csv && dialect.is_told_by_parity() {
            let opened = source.open()?;
            let found = next_record(&opened, source, place, QuoteState::default(), dialect)?;
            return Ok(Some(found).filter(is_within));
        }
        let found = match (source.is_guessed, &source.object) {
            (true, _) => guess::cuts(source, dialect, &[place])?.unwrap_or_default(),
            (false, None) => self.scanned(source, dialect, range.start, place)?,
            // It would have to be fetched twice.
            (false, Some(_)) => Vec::new(),
        };
        Ok(found.last().copied().filter(is_within))
    }

    /// Reads quoted text up to a place, by several readers: a disk that is slow for one of them often is not for more.
    fn scanned(
        &self,
        source: &SourceFile,
        dialect: &Dialect,
        start: u64,
        place: u64,
    ) -> Result<Vec<u64>> {
        let stretch = ((place - start) / SCANNED_BY).max(SCAN_CHUNK_BYTES as u64);
        let mut wanted: Vec<u64> = (1..SCANNED_BY).map(|n| start + n * stretch).collect();
        wanted.retain(|wanted| *wanted < place);
        wanted.push(place);
        let sizes = Sizes {
            range_bytes: stretch,
            record_bytes_max: self.record_bytes_max,
            total_bytes: place - start,
        };
        cuts_near(source, dialect, sizes, SCANNED_BY as usize, start, &wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::discover;

    fn range(file: usize, start: u64, end: u64) -> FileRange {
        FileRange { file, start, end }
    }

    /// The second half of ranges of files that have a record every ten bytes.
    fn half(left: &[FileRange], dialect: Option<Dialect>, joints: &[u64]) -> Vec<FileRange> {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.tbl", "b.tbl"] {
            std::fs::write(folder.path().join(name), "12345678|\n".repeat(100)).expect("written");
        }
        let found = discover(folder.path().to_str().expect("UTF-8")).expect("found");
        let files: Vec<_> = found.into_iter().map(Arc::new).collect();
        let joints = match joints {
            [] => BTreeMap::new(),
            joints => [0, 1].map(|file| (file, joints.to_vec())).into(),
        };
        let halving = Halving {
            files: &files,
            dialect: dialect.as_ref(),
            record_bytes_max: 1 << 20,
            joints: &joints,
        };
        halving.last_part(left, 0.5).expect("read")
    }

    #[test]
    fn the_second_half_begins_with_a_record() {
        let of_text = |left: &[FileRange]| half(left, Some(Dialect::tbl()), &[]);
        assert_eq!(of_text(&[range(0, 0, 1000)]), [range(0, 510, 1000)]);
        assert_eq!(of_text(&[range(0, 0, 200), range(1, 0, 1000)]), [range(1, 410, 1000)]);
        assert_eq!(of_text(&[range(0, 0, 1000), range(1, 0, 200)]).len(), 2);
        assert_eq!(of_text(&[range(0, 990, 1000), range(1, 0, 990)]), [range(1, 500, 990)]);
        // One record can't be halved.
        assert_eq!(of_text(&[range(0, 990, 1000)]), []);
        assert_eq!(of_text(&[]), []);
    }

    #[test]
    fn quoted_text_is_halved_where_it_was_looked_through() {
        let of_csv = |joints: &[u64]| half(&[range(0, 100, 900)], Some(Dialect::csv()), joints);
        // Or it is looked through now.
        assert_eq!(of_csv(&[]), [range(0, 510, 900)]);
        assert_eq!(of_csv(&[50, 100, 300, 600, 900, 950]), [range(0, 600, 900)]);
        assert_eq!(of_csv(&[50, 100, 900, 950]), []);
    }

    #[test]
    fn rows_are_halved_between_row_groups() {
        let left = [range(0, 10, 20), range(0, 20, 30), range(0, 30, 40)];
        assert_eq!(half(&left, None, &[]), [range(0, 20, 40)]);
        assert_eq!(half(&left[..1], None, &[]), [range(0, 10, 20)]);
        assert_eq!(half(&[range(0, 0, 10), range(1, 0, 90)], None, &[]), [range(1, 0, 90)]);
    }
}
