//! Progress while a run goes on: one bar a table, drawn from the record's samples.

use std::io::IsTerminal;

use fullbore_core::record::{Entry, Event, Listener};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::words::grouped;

/// A listener that draws the bars; none where nobody looks.
pub fn listener(tables: &[(String, Option<u64>)], quiet: bool) -> Option<Listener> {
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let width = tables.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let bars: Vec<ProgressBar> = tables
        .iter()
        .map(|(name, expected)| {
            let bar = all.add(match expected {
                Some(bytes) => ProgressBar::new(*bytes),
                None => ProgressBar::no_length(),
            });
            bar.set_style(style(expected.is_some()));
            bar.set_prefix(format!("{name:width$}"));
            bar
        })
        .collect();
    Some(Box::new(move |entry: &Entry| match &entry.event {
        Event::Sample { tables, streams_active } => {
            for (bar, table) in bars.iter().zip(tables) {
                bar.set_position(table.bytes_sent);
                bar.set_message(format!(
                    "{} rows, {streams_active} streams",
                    grouped(table.rows_sent)
                ));
            }
        }
        Event::RunFinished { .. } | Event::RunFailed { .. } => {
            let _ = all.clear();
        }
        _ => {}
    }))
}

fn style(has_length: bool) -> ProgressStyle {
    let template = if has_length {
        "{prefix} [{bar:24}] {decimal_bytes:>9} of {decimal_total_bytes} {decimal_bytes_per_sec:>11} ETA {eta:<4} {msg}"
    } else {
        "{prefix} {decimal_bytes:>9} {decimal_bytes_per_sec:>11} {msg}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
