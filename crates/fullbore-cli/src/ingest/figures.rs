//! Figures of an ingest, for Prometheus, and whether all is well.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fullbore::ingest::{Duty, LoadedBatch};
use fullbore_report::live::{Figured, MetricsText};

#[derive(Debug, Default)]
struct Counts {
    table: String,
    batches: u64,
    files: u64,
    rows: u64,
    rejected: u64,
    bytes: u64,
    seconds: f64,
    last: f64,
    merges: u64,
    rows_merged: u64,
    partitions: Option<usize>,
    rows_expired: u64,
    failures: u64,
    /// Whose last attempt has failed.
    failing: Vec<Duty>,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Counts>);

impl Figures {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn begins(&self, table: &str) {
        self.count(|counts| table.clone_into(&mut counts.table));
    }

    pub fn loaded(&self, batch: &LoadedBatch) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.count(|counts| {
            counts.batches += 1;
            counts.files += batch.files as u64;
            counts.rows += batch.rows;
            counts.rejected += batch.rejected;
            counts.bytes += batch.bytes;
            counts.seconds += batch.seconds;
            counts.last = now.as_secs_f64();
            counts.failing.retain(|work| *work == Duty::Merging);
        });
    }

    pub fn merged(&self, rows: u64, left: usize) {
        self.count(|counts| {
            counts.merges += 1;
            counts.rows_merged += rows;
            counts.partitions = Some(left);
            counts.failing.retain(|work| *work != Duty::Merging);
        });
    }

    pub fn expired(&self, rows: u64) {
        self.count(|counts| counts.rows_expired += rows);
    }

    pub fn failed(&self, of: Duty) {
        self.count(|counts| {
            counts.failures += 1;
            if !counts.failing.contains(&of) {
                counts.failing.push(of);
            }
        });
    }

    pub fn recovered(&self, of: Duty) {
        self.count(|counts| counts.failing.retain(|work| *work != of));
    }
}

impl Figured for Figures {
    fn metrics(&self) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = MetricsText::default();
        let mut put = |name: &str, kind: &str, help: &str, value: f64| {
            text.describe(name, kind, help);
            text.put(name, &[("table", &counts.table)], value);
        };
        put(
            "fullbore_ingest_batches_total",
            "counter",
            "Batches published.",
            counts.batches as f64,
        );
        put("fullbore_ingest_files_total", "counter", "Files published.", counts.files as f64);
        put("fullbore_ingest_rows_total", "counter", "Rows published.", counts.rows as f64);
        put("fullbore_ingest_rejects_total", "counter", "Rows rejected.", counts.rejected as f64);
        put(
            "fullbore_ingest_bytes_total",
            "counter",
            "Source bytes published.",
            counts.bytes as f64,
        );
        put("fullbore_ingest_load_seconds_total", "counter", "Time of loads.", counts.seconds);
        put(
            "fullbore_ingest_last_batch_timestamp_seconds",
            "gauge",
            "When the last batch was published.",
            counts.last,
        );
        put(
            "fullbore_ingest_merges_total",
            "counter",
            "Merges of partitions.",
            counts.merges as f64,
        );
        put(
            "fullbore_ingest_merged_rows_total",
            "counter",
            "Rows written by merges.",
            counts.rows_merged as f64,
        );
        put(
            "fullbore_ingest_expired_rows_total",
            "counter",
            "Rows dropped for their age.",
            counts.rows_expired as f64,
        );
        put(
            "fullbore_ingest_failures_total",
            "counter",
            "Failures, retried.",
            counts.failures as f64,
        );
        if let Some(partitions) = counts.partitions {
            put(
                "fullbore_ingest_partitions",
                "gauge",
                "Partitions after the last merge.",
                partitions as f64,
            );
        }
        text.text()
    }

    fn is_failing(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).failing.is_empty()
    }
}
