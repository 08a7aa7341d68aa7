//! What can happen in a run, as its record says it.

use std::time::{SystemTime, UNIX_EPOCH};

use fullbore_parse::Counts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ceilings::{Achieved, Ceilings};
use crate::diagnose::{Limit, Verdict};
use crate::observe::{Observation, Settings};
use crate::summaries::{PlanSummary, RejectSummary};
use crate::terms::{Form, Method, Verify};

/// The version of the record's format.
pub const RECORD_VERSION: u32 = 1;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Totals of one table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableTotals {
    pub name: String,
    /// Rows of committed pieces, as confirmed by the destination.
    pub rows: u64,
    /// Rejected rows of committed pieces.
    #[serde(default)]
    pub rejected: u64,
    /// Lines skipped and rows padded or cut, in pieces committed by this process.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
    /// Source bytes of committed pieces, after decompression.
    pub bytes: u64,
    /// Committed pieces.
    pub pieces: u64,
    /// Values rounded from nanoseconds to microseconds, in pieces committed by this process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounded: u64,
    /// Rows sent so far, committed or not.
    pub rows_sent: u64,
    /// Source bytes of rows sent so far, committed or not.
    pub bytes_sent: u64,
    /// Source bytes in total, if known.
    pub bytes_expected: Option<u64>,
    /// What became of the rows of an upsert; absent before they are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    #[serde(skip)]
    pub kept_on_failure: bool,
}

/// What an upsert did with its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// Rows whose key the table did not have.
    pub inserted: u64,
    /// Rows that took the place of another one.
    pub updated: u64,
    /// Rows that the table has as they are, or newer.
    pub unchanged: u64,
    /// Rows of the table whose key was not in the sources.
    pub deleted: u64,
    /// Rows whose key another row of the sources has.
    pub duplicates: u64,
}

/// A phase of a run and its duration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    pub name: String,
    pub seconds: f64,
}

/// What was verified of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// Level of verification.
    pub level: Verify,
    pub rows: u64,
    pub pieces: u64,
    /// Columns of which every value was compared; 0 if only rows were counted.
    pub columns: u64,
    /// Columns whose values client and database added up, with the same result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sums: u64,
    /// Rows that triggers of the target kept out.
    pub rows_kept_out: u64,
    /// Rows that violated a constraint of the whole table, and were taken out before publishing.
    #[serde(default, alias = "rows_sifted")]
    pub violations: u64,
    /// What was not compared, and why.
    pub not_covered: Vec<String>,
    /// Rows counted in their tables after loading.
    #[serde(default)]
    pub rows_counted: u64,
    /// Rows of tables from which no row was deleted, by the server's statistics.
    #[serde(default)]
    pub rows_unchanged: u64,
    /// What was not counted, and why.
    #[serde(default)]
    pub not_counted: Vec<String>,
}

/// The method of a table, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableMethod {
    pub method: Method,
    pub reason: String,
}

/// The rate with so many streams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    pub streams: usize,
    /// Source bytes a second.
    pub bytes_per_second: f64,
}

/// Something that happened in a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A new run began.
    RunStarted {
        /// Version of the record's format.
        version: u32,
        run_id: String,
        /// Version of Fullbore.
        fullbore: String,
        started_unix_ms: u64,
        streams: usize,
        parsers: usize,
        pieces: usize,
        tables: Vec<String>,
        /// Method of each table.
        #[serde(default)]
        methods: Vec<TableMethod>,
    },
    /// The plan in short.
    Planned { plan: Box<PlanSummary> },
    /// Another limit of what all streams send; null: none.
    RateChanged { bytes_per_second: Option<u64> },
    /// Progress, several times a second.
    Sample { tables: Vec<TableTotals>, streams_active: usize },
    /// Server settings that advice depends on.
    ServerSettings { settings: Settings },
    /// All counters, about once a second.
    Observed { observation: Box<Observation> },
    /// The bottleneck of the load phase.
    Verdict { verdict: Verdict, advice: Vec<String> },
    /// Ceilings measured before the run.
    Ceilings { ceilings: Box<Ceilings> },
    /// The achieved rate as a share of the ceiling.
    Achieved { achieved: Achieved },
    /// `--streams auto` tries another number of streams.
    StreamsTried { streams: usize, parsers: usize },
    /// The number of streams that the run needs, by what others brought.
    StreamsSettled {
        streams: usize,
        parsers: usize,
        /// The rates that were measured.
        tried: Vec<Tried>,
        /// The bottleneck meanwhile.
        limit: Limit,
    },
    /// A piece was slow: a stream without other work took over the second half of what it had left.
    PieceHalved {
        piece: usize,
        /// Number of the piece that the rest became.
        rest: usize,
        /// Number of the table.
        table: usize,
        /// The stream that took it over.
        stream: usize,
        /// Source bytes of the rest.
        bytes: u64,
        /// How long the piece would have taken yet; null if no row of it had been read.
        seconds_left: Option<f64>,
    },
    /// Rows take another form on their way.
    FormChanged {
        form: Form,
        /// The bottleneck before.
        limit: Limit,
    },
    /// Connections by an endpoint break: its pieces go by the others.
    EndpointDown { endpoint: String, reason: String },
    /// An endpoint accepts connections again.
    EndpointUp {
        endpoint: String,
        /// How long it was down.
        seconds: f64,
    },
    /// A piece was committed.
    PieceCommitted {
        piece: usize,
        table: usize,
        stream: usize,
        /// The way that it took, where several were given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
        rows: u64,
        bytes: u64,
        /// From claim to commit; 0 in records of earlier versions.
        #[serde(default)]
        seconds: f64,
    },
    /// A phase of publishing finished.
    PhaseFinished { phase: Phase },
    /// Rejected rows: their files, and the most frequent reasons.
    Rejected { rejects: RejectSummary },
    /// The run succeeded.
    RunFinished {
        rows: u64,
        rejected: u64,
        bytes: u64,
        seconds: f64,
        phases: Vec<Phase>,
        tables: Vec<TableTotals>,
        /// What was verified; absent in records of earlier versions.
        #[serde(default)]
        verified: Option<Verified>,
    },
    /// A run was resumed; `at` counts from here.
    RunResumed {
        started_unix_ms: u64,
        pieces_committed: u64,
        rows_committed: u64,
        /// Version of Fullbore that resumed it; absent in records of earlier versions.
        #[serde(default)]
        fullbore: Option<String>,
        #[serde(default)]
        streams: Option<usize>,
        #[serde(default)]
        parsers: Option<usize>,
    },
    /// Connections were lost: pieces that are not committed are loaded again.
    RoundStarted { reason: String, pieces_committed: u64 },
    /// A limit of `--pause-when` is exceeded: the load pauses.
    RunPaused { reason: String },
    /// A message for the users of the run.
    Notice { notice: String },
    /// A pause ended.
    RunContinued {
        /// Length of the pause.
        seconds: f64,
    },
    /// A run was aborted or undone.
    RunTakenBack {
        /// Rows of plain appends, which stay in the table.
        #[serde(default)]
        rows_kept: u64,
    },
    /// The run failed or was interrupted.
    RunFailed {
        error: String,
        /// The run can be resumed.
        #[serde(default)]
        is_kept: bool,
        /// Rows of plain appends, which stay in the table.
        rows_kept: u64,
        /// What could not be cleaned up.
        left_behind: Vec<String>,
    },
}

pub fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// An event with its moment.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Seconds since the run began.
    pub at: f64,
    #[serde(flatten)]
    pub event: Event,
}
