//! What can happen in a run, as its record says it.

use std::time::{SystemTime, UNIX_EPOCH};

use fullbore_parse::Counts;
use serde::{Deserialize, Serialize};

use crate::ceilings::{Achieved, Ceilings};
use crate::diagnose::Verdict;
use crate::observe::{Observation, Settings};
use crate::terms::{Method, Verify};
use crate::told::{ToldPlan, ToldRejects};

/// The version of the record's format.
pub const RECORD_VERSION: u32 = 1;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What one table has come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableTotals {
    pub name: String,
    /// Rows of committed pieces, as the destination confirmed them.
    pub rows: u64,
    /// Rows of committed pieces that were rejected.
    #[serde(default)]
    pub rejected: u64,
    /// What was passed over, padded or cut in pieces that this process committed.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
    /// Source bytes of committed pieces, after decompression.
    pub bytes: u64,
    pub pieces: u64,
    /// Values of committed pieces whose nanoseconds were rounded to microseconds, since the run was begun
    /// or gone on with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounded: u64,
    /// Rows and bytes handed to sessions so far, committed or not.
    pub rows_sent: u64,
    pub bytes_sent: u64,
    /// Source bytes there are, where that is known.
    pub bytes_expected: Option<u64>,
    #[serde(skip)]
    pub kept_on_failure: bool,
}

/// A phase of publishing that took time, for the summary.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Phase {
    pub name: String,
    pub seconds: f64,
}

/// What was proved of a run that has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    pub level: Verify,
    pub rows: u64,
    pub pieces: u64,
    /// Columns of which every value was compared.
    pub columns: u64,
    /// Rows that the target itself kept out, by its triggers.
    pub rows_kept_out: u64,
    /// Rows that broke a key and were taken out: their own sums were made by the destination, and
    /// taken out of those of the whole.
    #[serde(default, alias = "rows_sifted")]
    pub violations: u64,
    /// What was not covered, and why.
    pub not_covered: Vec<String>,
    /// Rows that the destination counted in their tables, beyond what it counted as they came.
    #[serde(default)]
    pub rows_counted: u64,
    /// Rows in tables from which, as the destination's own statistics have it, nothing was taken.
    #[serde(default)]
    pub rows_unchanged: u64,
    /// What was not counted there, and why.
    #[serde(default)]
    pub not_counted: Vec<String>,
}

/// How a table's rows enter the destination, and why that way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableMethod {
    pub method: Method,
    pub reason: String,
}

/// Something that happened in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        version: u32,
        run_id: String,
        fullbore: String,
        started_unix_ms: u64,
        streams: usize,
        parsers: usize,
        pieces: usize,
        tables: Vec<String>,
        /// How each table's rows enter the destination.
        #[serde(default)]
        methods: Vec<TableMethod>,
    },
    /// What is told of the plan.
    Planned {
        plan: Box<ToldPlan>,
    },
    Sample {
        tables: Vec<TableTotals>,
        streams_active: usize,
    },
    /// The settings of the server, as far as they matter to advice.
    ServerSettings {
        settings: Settings,
    },
    /// All counters, about once a second.
    Observed {
        observation: Box<Observation>,
    },
    /// What held the run back while rows moved.
    Verdict {
        verdict: Verdict,
        advice: Vec<String>,
    },
    /// What the run's way can do, as it was measured before.
    Ceilings {
        ceilings: Box<Ceilings>,
    },
    /// How much of its ceiling the run achieved.
    Achieved {
        achieved: Achieved,
    },
    PieceCommitted {
        piece: usize,
        table: usize,
        stream: usize,
        rows: u64,
        bytes: u64,
        /// From its claim to its commit; none in records of earlier versions.
        #[serde(default)]
        seconds: f64,
    },
    PhaseFinished {
        phase: Phase,
    },
    /// Rows were refused; where they are, and of which kinds.
    Rejected {
        rejects: ToldRejects,
    },
    RunFinished {
        rows: u64,
        rejected: u64,
        bytes: u64,
        seconds: f64,
        phases: Vec<Phase>,
        tables: Vec<TableTotals>,
        /// What was proved of it; none in records of earlier versions.
        #[serde(default)]
        verified: Option<Verified>,
    },
    /// A run that was begun before goes on; moments are counted from here.
    RunResumed {
        started_unix_ms: u64,
        pieces_committed: u64,
        rows_committed: u64,
        /// Of the process that goes on; none in records of earlier versions.
        #[serde(default)]
        fullbore: Option<String>,
        #[serde(default)]
        streams: Option<usize>,
        #[serde(default)]
        parsers: Option<usize>,
    },
    /// Connections were lost: what is not committed is begun anew.
    RoundStarted {
        reason: String,
        pieces_committed: u64,
    },
    /// A limit of `--pause-when` is passed: nothing is sent until it is no longer.
    RunPaused {
        reason: String,
    },
    /// Something that whoever looks on should know: whom the run waits for, say.
    Notice {
        notice: String,
    },
    /// A pause has ended.
    RunContinued {
        seconds: f64,
    },
    /// A run that had stopped, or finished, was taken back.
    RunTakenBack {
        /// Rows of plain appends, which stay.
        #[serde(default)]
        rows_kept: u64,
    },
    RunFailed {
        error: String,
        /// It can be resumed.
        #[serde(default)]
        is_kept: bool,
        rows_kept: u64,
        left_behind: Vec<String>,
    },
}

pub fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// An event with its moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since the run began.
    pub at: f64,
    #[serde(flatten)]
    pub event: Event,
}
