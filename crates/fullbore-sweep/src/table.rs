//! The table of an experiment: what each cell took, and its change against the baseline.

use serde::Serialize;

use crate::design::{Cell, Design};
use crate::interval::{Interval, change};
use crate::journal::Measured;
use crate::stepwise::pairs;

/// What came of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// In words: `streams=4 compress=lz4`.
    pub cell: String,
    /// The number of each factor's level.
    pub levels: Vec<usize>,
    pub is_baseline: bool,
    /// How often it was measured, those that were disturbed not counted.
    pub count: usize,
    /// Medians: the seconds of the load, bytes a second of all of it and once it was steady, seconds until then.
    pub seconds: f64,
    pub rate: f64,
    pub steady: Option<f64>,
    pub ramp_s: Option<f64>,
    /// Its time, compared with the baseline's. None for that itself.
    pub change: Option<Interval>,
    /// What held most of its loads back.
    pub verdict: Option<String>,
}

/// A row for each cell that was measured, in the order of cells.
pub fn rows(design: &Design, cells: &[Cell], measured: &[Measured]) -> Vec<Row> {
    cells.iter().filter_map(|cell| row(design, cell, measured)).collect()
}

fn row(design: &Design, cell: &Cell, measured: &[Measured]) -> Option<Row> {
    let its: Vec<&Measured> =
        measured.iter().filter(|m| m.cell == *cell && m.disturbed.is_none()).collect();
    let of = |value: fn(&Measured) -> Option<f64>| {
        median(its.iter().filter_map(|one| value(one)).collect())
    };
    let is_baseline = *cell == design.baseline;
    let compared = || change(&pairs(measured, &design.baseline, cell), design.seed);
    let mut verdicts: Vec<&String> = its.iter().filter_map(|m| m.verdict.as_ref()).collect();
    verdicts.sort();
    let most = verdicts.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    Some(Row {
        cell: design.words(cell),
        levels: cell.0.clone(),
        is_baseline,
        count: its.len(),
        seconds: of(|m| Some(m.seconds))?,
        rate: of(|m| Some(m.bytes as f64 / m.seconds))?,
        steady: of(|m| m.steady),
        ramp_s: of(|m| m.ramp_s),
        change: if is_baseline { None } else { compared() },
        verdict: most.map(|same| same[0].clone()),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_disturbed_does_not_count() {
        let design = Design::new(vec!["a=1,2".parse().expect("a factor")], &[], 1).expect("one");
        let one = |block: usize, level: usize, seconds: f64, disturbed: Option<&str>| Measured {
            block,
            cell: Cell(vec![level]),
            seconds,
            bytes: 1000,
            steady: None,
            ramp_s: None,
            verdict: Some(if block == 0 { "wal" } else { "database_cpu" }.into()),
            disturbed: disturbed.map(str::to_owned),
            run: String::new(),
        };
        let mut measured = Vec::new();
        for block in 0..5 {
            let faster = 5.0 + 0.01 * block as f64;
            measured.push(one(block, 0, 10.0, None));
            measured.push(one(block, 1, 50.0, Some("a neighbour")));
            measured.push(one(block, 1, faster, None));
        }
        let rows = rows(&design, &design.cells(), &measured);
        assert_eq!((rows[0].count, rows[0].seconds, rows[0].change), (5, 10.0, None));
        assert_eq!((rows[1].count, rows[1].seconds), (5, 5.02));
        assert_eq!(rows[1].verdict.as_deref(), Some("database_cpu"));
        let change = rows[1].change.expect("compared");
        assert!((change.change + 0.498).abs() < 0.001 && change.differs(), "{change:?}");
    }
}
