//! What came of an experiment, as a table for a terminal.

use std::io::{self, Write};

use fullbore_report::words::{limit_words, percent};
use fullbore_sweep::{Found, FoundKnee, FoundStep, Interval};

use crate::table::Table;

/// Prints the table, and what follows from it.
pub fn print(found: &Found, out: &mut impl Write) -> io::Result<()> {
    let head = ["", "bottleneck", "loads", "seconds", "MB/s", "steady", "change", "95% interval"];
    let mut table = Table::new(&head, 2);
    let rate = |bytes_a_second: f64| format!("{:.1}", bytes_a_second / 1e6);
    for row in &found.rows {
        table.add(vec![
            format!("{}{}", row.cell, if row.is_baseline { " (baseline)" } else { "" }),
            row.verdict.as_deref().map(limit_words).unwrap_or_default(),
            row.count.to_string(),
            format!("{:.2}", row.seconds),
            rate(row.rate),
            row.steady.map_or(String::new(), rate),
            row.change.map_or(String::new(), |change| percent(change.change)),
            row.change.map_or(String::new(), |change| interval(&change)),
        ]);
    }
    table.print(out)?;
    if !found.steps.is_empty() {
        writeln!(out)?;
        steps(&found.steps).print(out)?;
    }
    let Some(knee) = &found.knee else { return Ok(()) };
    let factor = &found.factors[0];
    let words = match knee {
        FoundKnee::At(level) => format!("knee: {}={level}; more is at most 5% faster", factor.name),
        FoundKnee::Flat => {
            format!("no knee: {}={} is as fast as any", factor.name, factor.levels[0])
        }
        FoundKnee::Unclear => "no knee: the measurements differ too much; use --repeat".to_owned(),
    };
    writeln!(out, "\n{words}")
}

/// One change after the other.
fn steps(steps: &[FoundStep]) -> Table {
    let head = ["step", "kept", "alone", "95% interval", "cumulative", "95% interval"];
    let mut table = Table::new(&head, 2);
    for step in steps {
        table.add(vec![
            format!("{}={}", step.factor, step.tried),
            if step.is_kept { "yes" } else { "no" }.to_owned(),
            percent(step.alone.change),
            interval(&step.alone),
            percent(step.so_far.change),
            interval(&step.so_far),
        ]);
    }
    table
}

fn interval(change: &Interval) -> String {
    match change.within {
        Some(within) => format!("{} to {}", percent(within.low), percent(within.high)),
        None => format!("{} pairs are too few", change.pairs),
    }
}
