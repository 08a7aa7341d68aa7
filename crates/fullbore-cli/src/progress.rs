//! Progress during a run: one bar a table and one for all, drawn from the record's samples.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fullbore_record::{Entry, Event, Listener};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::limit_now::Now;
use crate::words::{bytes, counted, grouped, said, seconds, shown};

/// A listener that draws the bars; where nobody looks it only tells of pauses.
pub fn listener(tables: &[(String, Option<u64>)], quiet: bool) -> Option<Listener> {
    if quiet || !std::io::stderr().is_terminal() {
        let lines = (!quiet).then(|| Mutex::new(Lines::new(tables)));
        return Some(Box::new(move |entry: &Entry| {
            let line = lines.as_ref().and_then(|lines| {
                lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(entry)
            });
            for words in line.into_iter().chain(of_pause(&entry.event)) {
                tell!("{words}");
            }
        }));
    }
    let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let mut lines = tables.to_vec();
    if tables.len() > 1 {
        lines.push(("all".into(), tables.iter().map(|(_, expected)| *expected).sum()));
    }
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let bars: Vec<ProgressBar> = lines
        .iter()
        .map(|(name, expected)| {
            let bar = screen.add(match expected {
                Some(bytes) => ProgressBar::new(*bytes),
                None => ProgressBar::no_length(),
            });
            bar.set_style(style(expected.is_some()));
            bar.set_prefix(format!("{:width$}", shown(name)));
            bar
        })
        .collect();
    let (now, limit) = (Now::default(), Mutex::new(String::new()));
    let limit = move |entry: &Entry| {
        let mut limit = limit.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(words) = now.take(entry) {
            *limit = format!(", {words}");
        }
        limit.clone()
    };
    let is_first = AtomicBool::new(true);
    Some(Box::new(move |entry: &Entry| match &entry.event {
        Event::Sample { tables, streams_active } => {
            for (bar, table) in bars.iter().zip(tables) {
                bar.set_position(table.bytes_sent);
                bar.set_message(format!("{} rows", grouped(table.rows_sent)));
            }
            // The last line is that of all tables, or of the only one.
            if let Some(last) = bars.last() {
                let rows: u64 = tables.iter().map(|table| table.rows_sent).sum();
                last.set_position(tables.iter().map(|table| table.bytes_sent).sum());
                last.set_message(format!(
                    "{} rows, {}{}",
                    grouped(rows),
                    counted(*streams_active as u64, "stream"),
                    limit(entry)
                ));
            }
            if is_first.swap(false, Ordering::Relaxed) {
                // What a run that goes on had sent before tells nothing of its rate.
                bars.iter().for_each(ProgressBar::reset_eta);
            }
        }
        Event::Observed { .. } | Event::ServerSettings { .. } => drop(limit(entry)),
        Event::RunFinished { .. } | Event::RunFailed { .. } => {
            // Each by itself: a bar that is not finished draws itself again when it is dropped.
            bars.iter().for_each(ProgressBar::finish_and_clear);
            let _ = screen.clear();
            screen.set_draw_target(ProgressDrawTarget::hidden());
        }
        event => {
            if let Some(words) = of_pause(event) {
                // Above the bars, which are drawn again.
                let _ = screen.println(words);
            }
        }
    }))
}

/// Seconds between two lines where there is no terminal.
const LINE_EVERY_S: f64 = 10.0;

/// Progress as lines, for logs.
struct Lines {
    /// Bytes of all tables, where they are known.
    expected: Option<u64>,
    /// When the last line was written, and how many bytes had been sent.
    last: Option<(f64, u64)>,
}

impl Lines {
    fn new(tables: &[(String, Option<u64>)]) -> Self {
        Self { expected: tables.iter().map(|(_, expected)| *expected).sum(), last: None }
    }

    /// A line, where one is due.
    fn take(&mut self, entry: &Entry) -> Option<String> {
        let Event::Sample { tables, streams_active } = &entry.event else { return None };
        let rows: u64 = tables.iter().map(|table| table.rows_sent).sum();
        let sent: u64 = tables.iter().map(|table| table.bytes_sent).sum();
        // What a run that goes on had sent before is no rate.
        let (at, before) = *self.last.get_or_insert((entry.at, sent));
        let passed = entry.at - at;
        if passed < LINE_EVERY_S {
            return None;
        }
        self.last = Some((entry.at, sent));
        let share = match self.expected {
            Some(expected) if expected > 0 => {
                let percent = (sent as f64 / expected as f64 * 100.0).min(100.0);
                format!(" of {} ({percent:.0}%)", bytes(expected))
            }
            _ => String::new(),
        };
        Some(format!(
            "{}: {}, {}{share}, {}/s, {}",
            seconds(entry.at),
            counted(rows, "row"),
            bytes(sent),
            bytes((sent.saturating_sub(before) as f64 / passed) as u64),
            counted(*streams_active as u64, "stream")
        ))
    }
}

/// What is said of a pause, and of other events, also where nothing else is: a load that holds still looks like one that
/// hangs.
fn of_pause(event: &Event) -> Option<String> {
    match event {
        Event::RunPaused { reason } => Some(format!("paused: {reason}")),
        Event::RunContinued { seconds: paused } => {
            Some(format!("resumed after a pause of {}", seconds(*paused)))
        }
        event => said(event),
    }
}

fn style(has_length: bool) -> ProgressStyle {
    // The last part is cut where the terminal is narrow; a line that wraps can't be drawn over.
    let template = if has_length {
        "{prefix} [{bar:16}] {percent:>3}% {decimal_bytes_per_sec:>11} ETA {eta:<4} {wide_msg}"
    } else {
        "{prefix} {decimal_bytes:>9} {decimal_bytes_per_sec:>11} {wide_msg}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use fullbore_record::TableTotals;

    use super::*;

    #[test]
    fn without_a_terminal_there_is_a_line_every_ten_seconds() {
        let mut lines = Lines::new(&[("t".to_owned(), Some(4_000_000_000))]);
        let mut sample = |at: f64, rows: u64| {
            let total =
                TableTotals { rows_sent: rows, bytes_sent: rows * 100, ..TableTotals::default() };
            lines.take(&Entry {
                at,
                event: Event::Sample { tables: vec![total], streams_active: 1 },
            })
        };
        assert_eq!(sample(0.2, 0), None);
        assert_eq!(sample(9.9, 9_000_000), None);
        let words = "10.20 s: 10,000,000 rows, 1.00 GB of 4.00 GB (25%), 100 MB/s, 1 stream";
        assert_eq!(sample(10.2, 10_000_000).as_deref(), Some(words));
        assert_eq!(sample(11.0, 11_000_000), None);
        assert!(sample(20.3, 20_000_000).is_some());
    }
}
