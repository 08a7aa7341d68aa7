//! Line numbers: known within a range while it is read, made absolute at the end of the run.
//!
//! Ranges of one file are read side by side, so that a range does not know how many lines stand
//! before it. Every range that was read through says how many lines it had; what is missing is
//! counted in the file.

use std::collections::BTreeMap;

use crate::plan::TablePlan;
use crate::source::lines::count;

/// Lines of ranges, by table, file and start of the range.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    known: BTreeMap<(usize, usize, u64), (u64, u64)>,
}

impl Lines {
    /// Says that the range from `start` to `end` of a file has so many line ends.
    pub fn insert(&mut self, table: usize, file: usize, start: u64, end: u64, lines: u64) {
        self.known.insert((table, file, start), (end, lines));
    }

    pub fn merge(&mut self, other: &Self) {
        self.known.extend(other.known.iter().map(|(key, value)| (*key, *value)));
    }

    /// How many lines stand before the byte at `start` of a file; where ranges are missing they
    /// are counted in the file. `None` where that can't be read.
    pub fn before(
        &mut self,
        table: usize,
        plan: &TablePlan,
        file: usize,
        start: u64,
    ) -> Option<u64> {
        let source = &plan.files[file];
        let mut at = source.data_start;
        let mut lines = source.data_start_lines;
        while at < start {
            if let Some((end, known)) = self.known.get(&(table, file, at)).copied() {
                lines += known;
                at = end;
                continue;
            }
            let next = self
                .known
                .range((table, file, at)..(table, file, start))
                .map(|((_, _, known_start), _)| *known_start)
                .next()
                .unwrap_or(start);
            let counted = count(&source.path, at, next)?;
            self.insert(table, file, at, next, counted);
        }
        Some(lines)
    }
}
