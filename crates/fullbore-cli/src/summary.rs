//! The result of a run as people read it.

use fullbore::destinations::is_database;
use fullbore::json_summary::{counts_of, no_ledger, rate};
use fullbore_load::plan::Plan;
use fullbore_load::run::{Outcome, Tuned};
use fullbore_parse::Counts;
use fullbore_record::diagnose::Limit;
use fullbore_record::terms::Verify;
use fullbore_record::{Merged, Verified};

use crate::words::{achieved, bytes, counted, details, grouped, seconds, sentence};

/// The same in words; none where all was.
fn counts_words(counts: Counts) -> Option<String> {
    let said = [
        (counts.padded, "row", "padded with NULL"),
        (counts.cut, "row", "cut"),
        (counts.filtered, "row", "left out by --where"),
        (counts.blank, "blank line", "skipped"),
        (counts.comments, "comment", "skipped"),
    ];
    let said: Vec<String> = said
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, how)| format!("{} {how}", counted(count, what)))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What became of the rows of an upsert, in words.
fn merged_words(merged: &Merged) -> String {
    let Merged { inserted, updated, unchanged, deleted, duplicates } = *merged;
    let said = [(inserted, "inserted"), (updated, "updated"), (unchanged, "unchanged")];
    let others = [(deleted, "deleted"), (duplicates, "replaced by others of the same key")];
    let others = others.into_iter().filter(|(rows, _)| *rows > 0);
    let said = said.into_iter().chain(others);
    said.map(|(rows, how)| format!("{} {how}", grouped(rows))).collect::<Vec<_>>().join(", ")
}

/// What was proved, in words.
fn verified_words(verified: &Verified) -> String {
    let rows = counted(verified.rows, "row");
    let pieces = counted(verified.pieces, "piece");
    let mut words = match verified.level {
        Verify::Quick | Verify::Count => {
            let is_whole = verified.rows_counted + verified.rows_unchanged == verified.rows;
            let how = match verified.rows_unchanged {
                _ if !is_whole || !verified.not_counted.is_empty() => {
                    "counted by client and server"
                }
                0 => "counted in the table",
                _ => "and the server's statistics show no deletions by others",
            };
            let sums = match verified.sums {
                0 => String::new(),
                columns => format!(", and so do the sums of {}", counted(columns, "column")),
            };
            format!("row counts match ({rows}, {pieces}), {how}{sums}")
        }
        Verify::Full => {
            format!("every value of {rows} in {pieces}, {}", counted(verified.columns, "column"))
        }
    };
    if verified.rows_kept_out > 0 {
        let kept_out = counted(verified.rows_kept_out, "row");
        words.push_str(&format!("; {kept_out} suppressed by the table's triggers"));
    }
    if verified.violations > 0 {
        let rows = counted(verified.violations, "row");
        words.push_str(&format!(", excluding {rows} that violated constraints"));
    }
    words
}

/// What the summary says of a run besides what it came to.
pub struct About<'a> {
    pub run_id: &'a str,
    pub destination: &'a str,
    pub streams: usize,
    pub parsers: usize,
    pub has_ceiling: bool,
    /// Columns of each table whose values are rounded.
    pub rounded: Vec<&'a [String]>,
    /// Why no ledger was kept.
    pub no_ledger: Option<&'a str>,
}

impl<'a> About<'a> {
    pub fn of(plan: &'a Plan, outcome: &Outcome) -> Self {
        let (streams, parsers) = Tuned::or_planned(outcome.tuned, plan);
        Self {
            run_id: &plan.run_id,
            destination: &plan.destination,
            streams,
            parsers,
            // Of other databases none is measured.
            has_ceiling: plan.ceilings.is_some() || is_database(Some(&plan.destination)),
            rounded: plan.tables.iter().map(|table| table.rounded.as_slice()).collect(),
            no_ledger: no_ledger(plan),
        }
    }
}

/// The table at the end of a run.
pub fn print(run: &About<'_>, outcome: &Outcome) {
    if let Some(figures) = &outcome.achieved {
        tell!("{}", achieved(figures));
    }
    let name_width =
        outcome.tables.iter().map(|t| t.name.chars().count()).max().unwrap_or(0).max(5);
    let line = |cells: [&str; 5]| {
        let [name, rows, rejects, size, pieces] = cells;
        tell!("{name:name_width$}  {rows:>15}  {rejects:>9}  {size:>9}  {pieces:>6}");
    };
    line(["table", "rows", "rejects", "bytes", "pieces"]);
    let counts = |name: &str, rows: u64, rejects: u64, size: u64, pieces: u64| {
        line([name, &grouped(rows), &grouped(rejects), &bytes(size), &grouped(pieces)]);
    };
    for table in &outcome.tables {
        counts(&table.name, table.rows, table.rejected, table.bytes, table.pieces);
    }
    if outcome.tables.len() > 1 {
        counts("all", outcome.rows, outcome.rejected, outcome.bytes, outcome.pieces);
    }
    for table in &outcome.tables {
        if let Some(merged) = &table.merged {
            say("merged", format_args!("{}: {}", table.name, merged_words(merged)));
        }
    }
    let rate = bytes(rate(outcome) as u64);
    say(
        "loaded",
        format_args!(
            "{}, {} in {} ({rate}/s)",
            counted(outcome.rows, "row"),
            bytes(outcome.bytes),
            seconds(outcome.seconds),
        ),
    );
    if outcome.rows_before > 0 {
        let before = counted(outcome.rows_before, "row");
        more(format_args!("{before} of these were committed before the run was resumed"));
    }
    if let Some((verdict, advice)) = &outcome.verdict
        && verdict.limit != Limit::None
    {
        tell!("{}", sentence(verdict));
        let names: Vec<&str> = outcome.tables.iter().map(|table| table.name.as_str()).collect();
        details(verdict, &names).iter().for_each(|line| more(format_args!("{line}")));
        advice.iter().for_each(|line| more(format_args!("advice: {line}")));
    }
    if !run.has_ceiling {
        say(
            "ceiling",
            format_args!(
                "unknown; measure it with `fullbore preflight all` and the same arguments"
            ),
        );
    }
    if let Some(verified) = &outcome.verified {
        say("verified", format_args!("{}", verified_words(verified)));
        for left in &verified.not_covered {
            more(format_args!("not covered: {left}"));
        }
        for left in &verified.not_counted {
            more(format_args!("not counted in the table: {left}"));
        }
    }
    if outcome.rejected > 0 {
        say("rejects", format_args!("{} rejected", counted(outcome.rejected, "row")));
        for path in &outcome.reject_files {
            more(format_args!("{} (reasons in the .jsonl file)", path.display()));
        }
    }
    if let Some(words) = counts_words(counts_of(outcome)) {
        say("notes", format_args!("{words}"));
    }
    for (columns, totals) in run.rounded.iter().zip(&outcome.tables) {
        if totals.rounded > 0 {
            let values = counted(totals.rounded, "value");
            let columns = columns.join(", ");
            say("rounded", format_args!("{values} in {columns}, from nanoseconds to microseconds"));
        }
    }
    let phases: Vec<String> = outcome
        .phases
        .iter()
        .filter(|phase| phase.seconds >= 0.005)
        .map(|phase| format!("{} {}", phase.name, seconds(phase.seconds)))
        .collect();
    if !phases.is_empty() {
        say("phases", format_args!("{}", phases.join(", ")));
    }
    if outcome.paused_seconds > 0.0 {
        say("paused", format_args!("{} (--pause-when)", seconds(outcome.paused_seconds)));
    }
    say("to", format_args!("{}", run.destination));
    say(
        "run",
        format_args!(
            "{}; {}, {}",
            run.run_id,
            counted(run.streams as u64, "stream"),
            counted(run.parsers as u64, "parser"),
        ),
    );
    if let Some(reason) = run.no_ledger {
        say("ledger", format_args!("no ledger was kept: {reason}"));
    }
}

/// A line of the summary, in two columns; [`sentence`] has the width of the first, `bottleneck:`.
fn say(label: &str, words: std::fmt::Arguments<'_>) {
    tell!("{:<11} {words}", format!("{label}:"));
}

/// What belongs to the line before.
fn more(words: std::fmt::Arguments<'_>) {
    tell!("{:11} {words}", "");
}

/// Which tables were kept, and what can be done with them.
pub fn print_kept(plan: &Plan, kept: &[String]) {
    for name in kept {
        let schema = name.split_once("\".\"").map_or("", |(schema, _)| schema);
        tell!("the replaced table is kept as {name}");
        tell!(
            "  `fullbore runs undo {}` restores it, DROP SCHEMA {schema}\" CASCADE drops it",
            plan.run_id
        );
    }
}

/// Says what a part that is loaded waits for.
pub fn print_waits(plan: &Plan, waits_for: &[String]) {
    let Some(part) = plan.continuity.part.as_ref().filter(|_| !waits_for.is_empty()) else {
        return;
    };
    tell!(
        "part {} is loaded; the last part to finish publishes the rows of all parts. Waiting for:",
        part.spec
    );
    for words in waits_for {
        tell!("  {words}");
    }
}
