//! What came of an experiment, as a table for a terminal.

use fullbore_sweep::{Found, FoundChange, FoundKnee, FoundStep};

use fullbore_report::words::{limit_words, percent};

/// The table, and what follows from it.
pub fn table(found: &Found) -> String {
    let mut lines = vec![
        ["", "loads", "seconds", "MB/s", "steady", "change", "95% interval", "bottleneck"]
            .map(str::to_owned),
    ];
    for row in &found.rows {
        let change = row.change;
        lines.push([
            format!("{}{}", row.cell, if row.is_baseline { " (baseline)" } else { "" }),
            row.count.to_string(),
            format!("{:.2}", row.seconds),
            format!("{:.1}", row.rate / 1e6),
            row.steady.map_or(String::new(), |rate| format!("{:.1}", rate / 1e6)),
            change.map_or(String::new(), |change| percent(change.change)),
            change.map_or(String::new(), |change| interval(&change)),
            row.verdict.as_deref().map(limit_words).unwrap_or_default(),
        ]);
    }
    let mut text = columns(&lines);
    if !found.steps.is_empty() {
        text.push_str("\n\n");
        text.push_str(&steps(&found.steps));
    }
    if let Some(knee) = &found.knee {
        let name = &found.factors[0].name;
        text.push_str("\n\n");
        text.push_str(&match knee {
            FoundKnee::At(level) => format!("knee: {name}={level}; more is at most 5% faster"),
            FoundKnee::Flat => {
                format!("no knee: {name}={} is as fast as any", found.factors[0].levels[0])
            }
            FoundKnee::Unclear => {
                "no knee: the measurements differ too much; use --repeat".to_owned()
            }
        });
    }
    text
}

/// One change after the other.
fn steps(steps: &[FoundStep]) -> String {
    let mut lines = vec![
        ["step", "alone", "95% interval", "kept", "cumulative", "95% interval"].map(str::to_owned),
    ];
    for step in steps {
        lines.push([
            format!("{}={}", step.factor, step.tried),
            percent(step.alone.change),
            interval(&step.alone),
            if step.is_kept { "yes" } else { "no" }.to_owned(),
            percent(step.so_far.change),
            interval(&step.so_far),
        ]);
    }
    columns(&lines)
}

fn interval(change: &FoundChange) -> String {
    match (change.low, change.high) {
        (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
        _ => format!("{} pairs are too few", change.pairs),
    }
}

/// Columns as wide as what stands in them: words to the left, numbers to the right.
fn columns<const N: usize>(lines: &[[String; N]]) -> String {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let is_number = |column: usize| {
        lines[1..]
            .iter()
            .all(|line| line[column].chars().all(|c| c.is_ascii_digit() || "+-.% to".contains(c)))
    };
    let numbers: Vec<bool> = (0..N).map(is_number).collect();
    let line = |line: &[String; N]| {
        let cells = (0..N).map(|column| {
            let (text, width) = (&line[column], widths[column]);
            if numbers[column] { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
