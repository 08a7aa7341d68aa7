//! Summaries of a plan and its outcome, for the run record.

use fullbore_parse::dialect::Family;
use fullbore_record::{
    Event, PartSummary, PlanSummary, RECORD_VERSION, TableMethod, TableSummary, now_unix_ms,
};

use super::Outcome;
use crate::plan::{Format, Plan, TablePlan};

/// Notes that are told of a table; a thousand files may each have one.
const NOTES_MAX: usize = 20;

pub fn run_started(plan: &Plan) -> Event {
    Event::RunStarted {
        version: RECORD_VERSION,
        run_id: plan.run_id.clone(),
        fullbore: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: now_unix_ms(),
        streams: plan.begins_with(),
        parsers: plan.parsers,
        pieces: plan.pieces.len(),
        tables: plan.tables.iter().map(|table| table.name.clone()).collect(),
        methods: plan
            .tables
            .iter()
            .map(|table| TableMethod { method: table.method, reason: table.method_reason.clone() })
            .collect(),
    }
}

pub fn run_finished(outcome: &Outcome) -> Event {
    Event::RunFinished {
        rows: outcome.rows,
        rejected: outcome.rejected,
        bytes: outcome.bytes,
        seconds: outcome.seconds,
        phases: outcome.phases.clone(),
        tables: outcome.tables.clone(),
        verified: outcome.verified.clone(),
    }
}

/// What is told of a plan.
pub fn plan_summary(plan: &Plan) -> PlanSummary {
    PlanSummary {
        tables: plan.tables.iter().map(table_summary).collect(),
        verify: plan.verify,
        max_rejects: plan.max_rejects.to_string(),
        is_resumable: plan.continuity.is_resumable,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        destination: plan.destination.clone(),
        part_of: plan
            .continuity
            .part
            .as_ref()
            .map(|part| PartSummary { part: part.spec.to_string(), whole: part.whole.to_string() }),
        hosts: Vec::new(),
    }
}

fn table_summary(table: &TablePlan) -> TableSummary {
    let packed = table.files.iter().find(|file| !file.is_seekable() && file.is_regular);
    let format = match (&table.format, packed) {
        (Format::Columnar(kind), _) => kind.words().to_owned(),
        (Format::Delimited(dialect), packed) if dialect.family == Family::Json => {
            format!("JSON lines{}", if packed.is_some() { ", compressed" } else { "" })
        }
        (Format::Delimited(dialect), packed) if dialect.family == Family::Fixed => {
            format!("fixed-width text{}", if packed.is_some() { ", compressed" } else { "" })
        }
        (Format::Delimited(dialect), packed) => format!(
            "{:?}, delimiter {:?}{}",
            dialect.family,
            dialect.delimiter as char,
            if packed.is_some() { ", compressed" } else { "" }
        ),
    };
    TableSummary {
        files: table.files.len(),
        first_file: table
            .files
            .first()
            .map_or(String::new(), |file| file.path.display().to_string()),
        bytes: table.bytes,
        format,
        publish: table.publish,
        is_atomic: table.is_atomic,
        lane_reason: table.lane_reason.clone(),
        notes: table.notes.iter().chain(&table.schema_notes).take(NOTES_MAX).cloned().collect(),
    }
}
