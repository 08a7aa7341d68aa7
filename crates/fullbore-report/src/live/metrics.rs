//! The run in figures, as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::Write;

use fullbore_record::TableTotals;
use fullbore_record::observe::ThreadTimes;
use fullbore_record::observe::clock::Activity;
use serde::Serialize;

use crate::page::Page;

/// All figures of a run, as they stand.
pub fn of(page: &Page) -> String {
    let mut text = MetricsText::default();
    text.describe("fullbore_run_info", "gauge", "The run, its version and its state.");
    let version = page.fullbore.as_str();
    let labels =
        [("run", page.run_id.as_str()), ("version", version), ("state", page.state.name())];
    text.put("fullbore_run_info", &labels, 1.0);
    text.one("fullbore_run_seconds", "gauge", "How long the run has taken so far.", page.seconds);
    text.one("fullbore_streams", "gauge", "Streams of the run.", page.streams as f64);
    text.one("fullbore_parsers", "gauge", "Parsers of the run.", page.parsers as f64);
    text.one("fullbore_pieces_planned", "gauge", "Pieces that were planned.", page.pieces as f64);
    text.one(
        "fullbore_pieces_active",
        "gauge",
        "Pieces that are under way.",
        page.streams_active as f64,
    );
    text.one(
        "fullbore_paused",
        "gauge",
        "1 while the run is paused.",
        f64::from(u8::from(page.paused.is_some())),
    );
    by_table(&mut text, page);
    by_stage(&mut text, page);
    of_verdict(&mut text, page);
    of_server(&mut text, page);
    text.0
}

/// Gauges all: what was sent of a piece that is rolled back, or committed and lost with a crash of the
/// server, is sent again, and counted again.
fn by_table(text: &mut MetricsText, page: &Page) {
    type Count = fn(&TableTotals) -> u64;
    let counts: [(&str, &str, Count); 6] = [
        ("fullbore_rows", "Rows of committed pieces.", |t| t.rows),
        ("fullbore_bytes", "Source bytes of committed pieces.", |t| t.bytes),
        ("fullbore_rejects", "Rows of committed pieces that were rejected.", |t| t.rejected),
        ("fullbore_pieces", "Pieces that are committed.", |t| t.pieces),
        ("fullbore_rows_sent", "Rows handed to sessions, committed or not.", |t| t.rows_sent),
        ("fullbore_bytes_sent", "Source bytes handed to sessions, committed or not.", |t| {
            t.bytes_sent
        }),
    ];
    for (name, help, count) in counts {
        text.describe(name, "gauge", help);
        for (table, sum) in by_name(page, |table| Some(count(table))) {
            text.put(name, &[("table", table)], sum as f64);
        }
    }
    let name = "fullbore_bytes_expected";
    text.describe(name, "gauge", "Total source bytes, if known.");
    for (table, sum) in by_name(page, |table| table.bytes_expected) {
        text.put(name, &[("table", table)], sum as f64);
    }
}

/// Sums of what is known, by table: two of a job may have one name, a figure may not.
fn by_name(page: &Page, of: impl Fn(&TableTotals) -> Option<u64>) -> Vec<(&str, u64)> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for table in &page.tables {
        let Some(count) = of(table) else { continue };
        match sums.iter_mut().find(|(name, _)| *name == table.name) {
            Some((_, sum)) => *sum += count,
            None => sums.push((&table.name, count)),
        }
    }
    sums
}

fn by_stage(text: &mut MetricsText, page: &Page) {
    let Some((_, seen)) = page.observations.last() else { return };
    let name = "fullbore_stage_seconds_total";
    text.describe(name, "counter", "Time of all threads of a stage, by what they did.");
    let cpu = "fullbore_stage_cpu_seconds_total";
    let mut of_cpu = MetricsText::default();
    of_cpu.describe(cpu, "counter", "CPU time of all threads of a stage.");
    let stages: [(&str, &[ThreadTimes]); 2] = [("parse", &seen.parsers), ("send", &seen.streams)];
    for (stage, threads) in stages {
        for activity in Activity::ALL {
            let spent = threads.iter().map(|thread| thread.times.of(activity));
            let (ms, cpu_ms) = spent.fold((0, 0), |sum, s| (sum.0 + s.ms, sum.1 + s.cpu_ms));
            if ms > 0 {
                let labels = [("stage", stage), ("activity", &*word(activity))];
                text.put(name, &labels, ms as f64 / 1000.0);
                of_cpu.put(cpu, &labels, cpu_ms as f64 / 1000.0);
            }
        }
    }
    text.0.push_str(&of_cpu.0);
    let own = seen.host.own_cpu_ms as f64 / 1000.0;
    text.one("fullbore_cpu_seconds_total", "counter", "CPU time of the load's process.", own);
}

fn of_verdict(text: &mut MetricsText, page: &Page) {
    let Some(verdict) = page.verdict_so_far() else { return };
    let name = "fullbore_verdict_share";
    text.describe(name, "gauge", "Shares of stream time, by limit.");
    for share in &verdict.shares {
        text.put(name, &[("limit", share.limit.name())], share.share);
    }
}

fn of_server(text: &mut MetricsText, page: &Page) {
    let Some((first, seen)) = page.seen_now() else { return };
    let (Some(server), Some(before)) = (&seen.server, &first.server) else { return };
    // The server counts since it was started: what is told is since the run was.
    let server = server.since(before);
    let counters = [
        ("fullbore_server_wal_bytes_total", "WAL bytes that the server wrote.", server.wal_bytes),
        (
            "fullbore_server_written_bytes_total",
            "Data files the server wrote.",
            server.written_bytes,
        ),
        (
            "fullbore_server_checkpoints_total",
            "Checkpoints of the server.",
            server.checkpoints_timed + server.checkpoints_requested,
        ),
    ];
    for (name, help, value) in counters {
        text.one(name, "counter", help, value as f64);
    }
}

/// The word for it that the record has.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Figures in the text format of Prometheus.
#[derive(Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a figure.
    pub fn describe(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One value of the figure that was begun last.
    pub fn put(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.describe(name, kind, help);
        self.put(name, &[], value);
    }

    pub fn text(self) -> String {
        self.0
    }
}

/// A label's value: a table's name may be anything.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
