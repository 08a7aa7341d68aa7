//! Line numbers: known within a range while it is read, made absolute at the end of the run.
//!
//! Ranges of one file are read in parallel, so a range does not know how many lines precede it. Each
//! completed range reports its number of lines; missing numbers are counted in the file.

use std::collections::BTreeMap;

use fullbore_read::SourceFile;
use fullbore_read::lines::count;

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
        file: usize,
        source: &SourceFile,
        start: u64,
    ) -> Option<u64> {
        let mut at = source.data_start;
        let mut lines = source.data_start_lines;
        while at < start {
            if let Some((end, known)) = self.known.get(&(table, file, at)).copied() {
                if end <= start {
                    lines += known;
                    at = end;
                    continue;
                }
                // A stretch that was counted for a later place: it is cut at this one.
                let counted = count(source, at, start)?;
                self.insert(table, file, at, start, counted);
                self.insert(table, file, start, end, known.saturating_sub(counted));
                return Some(lines + counted);
            }
            let next = self
                .known
                .range((table, file, at)..(table, file, start))
                .map(|((_, _, known_start), _)| *known_start)
                .next()
                .unwrap_or(start);
            let counted = count(source, at, next)?;
            self.insert(table, file, at, next, counted);
        }
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_right_in_whatever_order_they_are_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        let rows: Vec<String> = (0..30).map(|n| format!("{}\n", "x".repeat(n))).collect();
        std::fs::write(&path, rows.concat()).expect("written");
        let found = fullbore_read::discover::discover(path.to_str().expect("UTF-8"));
        let source = found.expect("found").remove(0);
        let start = |row: usize| -> u64 { rows[..row].iter().map(|row| row.len() as u64).sum() };
        for order in [[10, 20, 25], [25, 20, 10], [20, 10, 25], [20, 25, 10]] {
            let mut lines = Lines::default();
            for row in order.into_iter().chain(order) {
                let before = lines.before(0, 0, &source, start(row));
                assert_eq!(before, Some(row as u64), "{order:?}");
            }
            // What a piece says of its range still counts.
            lines.insert(0, 0, start(25), u64::MAX, 5);
            assert_eq!(lines.before(0, 0, &source, start(28)), Some(28));
        }
    }
}
