//! Plain tables for a terminal: the first column to the left, numbers to the right.

use std::io::{self, Write};

/// Rows under a head; columns as wide as they need to be.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that are text.
    left: usize,
}

impl Table {
    /// `left` columns at the beginning are text.
    pub fn new(head: &[&str], left: usize) -> Self {
        Self { rows: vec![head.iter().map(|text| (*text).to_owned()).collect()], left }
    }

    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|t| t.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (text, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line += gap;
                line += &if column < self.left {
                    format!("{text:<width$}")
                } else {
                    format!("{text:>width$}")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["block", "MB/s", ""], 1);
        table.add(vec!["64k".into(), "7".into(), "knee".into()]);
        table.add(vec!["1M".into(), "1234".into(), String::new()]);
        let mut out = Vec::new();
        table.print(&mut out).expect("memory takes it");
        let expected = "block  MB/s\n64k       7  knee\n1M     1234\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
