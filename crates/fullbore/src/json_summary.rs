//! The result of a load as one JSON object: what `--json` prints, and what Python returns.

use fullbore_load::plan::{Continuity, Plan};
use fullbore_load::run::{Outcome, Tuned};
use fullbore_parse::Counts;
use fullbore_record::Verified;
use fullbore_record::ceilings::Achieved;
use fullbore_record::diagnose::Verdict;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ended::RunBefore;
use crate::error_json::ErrorDetails;
use crate::plan_view;

/// The outcome of a load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JsonSummary<'a> {
    run_id: &'a str,
    /// Rate achieved as a share of the ceiling; null without a ceiling.
    achieved_over_ceiling: Option<f64>,
    /// The ceiling and the rate compared with it.
    achieved: Option<Achieved>,
    /// Rows loaded.
    rows: u64,
    /// Rows rejected.
    rejected: u64,
    /// Lines skipped and rows padded or cut, by this process.
    counts: Counts,
    /// Bytes of source, after decompression.
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    /// Rows committed before this process resumed the run.
    rows_before: u64,
    /// `copy`, `direct`, or `mixed` where tables differ.
    method: &'static str,
    streams: usize,
    parsers: usize,
    /// Pieces committed.
    pieces: u64,
    phases: &'a [fullbore_record::Phase],
    /// What was verified; null where the run failed.
    verified: Option<&'a Verified>,
    /// Replaced tables that were kept.
    pub kept: Vec<String>,
    tables: &'a [fullbore_record::TableTotals],
    reject_files: &'a [std::path::PathBuf],
    /// The bottleneck.
    verdict: Option<&'a Verdict>,
    advice: &'a [String],
    error: Option<String>,
    /// The error as data; null without one.
    pub error_details: Option<ErrorDetails>,
    /// Destination, without a password.
    destination: &'a str,
    /// The run stopped and can be resumed.
    pub resumable: bool,
    /// Why no ledger was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_ledger: Option<&'a str>,
    /// Time paused by `--pause-when`.
    paused_seconds: f64,
    /// Share of this host when several hosts load together.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<String>,
    /// Parts that are not loaded yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

/// What `--json` prints where a run has loaded the same files before: what that came to.
pub fn finished_before(run: &RunBefore) -> serde_json::Value {
    serde_json::json!({
        "run_id": run.run_id,
        "rows": run.rows,
        "rejected": run.rejected,
        "bytes": run.bytes,
        "seconds": 0.0,
        "bytes_per_second": 0.0,
        "rows_before": run.rows,
        "pieces": run.pieces,
        "error": null,
        "resumable": false,
        "finished_before": true,
    })
}

/// What a summary says of a run besides its outcome.
pub struct About<'a> {
    pub run_id: &'a str,
    pub method: &'static str,
    pub streams: usize,
    pub parsers: usize,
    pub destination: &'a str,
    pub no_ledger: Option<&'a str>,
    pub part: Option<String>,
}

impl<'a> JsonSummary<'a> {
    pub fn of(plan: &'a Plan, outcome: &'a Outcome, error: Option<String>) -> Self {
        let (streams, parsers) = Tuned::or_planned(outcome.tuned, plan);
        let about = About {
            run_id: &plan.run_id,
            method: plan_view::method_of(plan),
            streams,
            parsers,
            destination: &plan.destination,
            no_ledger: no_ledger(plan),
            part: plan.continuity.part.as_ref().map(|part| part.spec.to_string()),
        };
        Self::about(about, outcome, error)
    }

    pub fn about(about: About<'a>, outcome: &'a Outcome, error: Option<String>) -> Self {
        Self {
            run_id: about.run_id,
            achieved_over_ceiling: outcome.achieved.map(|achieved| achieved.over_ceiling),
            achieved: outcome.achieved,
            rows: outcome.rows,
            rejected: outcome.rejected,
            counts: counts_of(outcome),
            bytes: outcome.bytes,
            seconds: outcome.seconds,
            bytes_per_second: rate(outcome),
            rows_before: outcome.rows_before,
            method: about.method,
            streams: about.streams,
            parsers: about.parsers,
            pieces: outcome.pieces,
            phases: &outcome.phases,
            verified: outcome.verified.as_ref(),
            kept: Vec::new(),
            tables: &outcome.tables,
            reject_files: &outcome.reject_files,
            verdict: outcome.verdict.as_ref().map(|(verdict, _)| verdict),
            advice: outcome.verdict.as_ref().map_or(&[], |(_, advice)| advice.as_slice()),
            error,
            error_details: None,
            destination: about.destination,
            resumable: false,
            no_ledger: about.no_ledger,
            paused_seconds: outcome.paused_seconds,
            part: about.part,
            waits_for: Vec::new(),
        }
    }
}

/// Why no ledger was kept, where it is the server that let none be kept.
pub fn no_ledger(plan: &Plan) -> Option<&str> {
    let Continuity { is_unkept, reason, .. } = &plan.continuity;
    is_unkept.then_some(reason.as_str())
}

/// Bytes per second of what this process has loaded.
pub fn rate(outcome: &Outcome) -> f64 {
    outcome.bytes.saturating_sub(outcome.bytes_before) as f64 / outcome.seconds.max(1e-9)
}

/// What of all tables was not taken as it stood.
pub fn counts_of(outcome: &Outcome) -> Counts {
    let mut counts = Counts::default();
    outcome.tables.iter().for_each(|table| counts += table.counts);
    counts
}
