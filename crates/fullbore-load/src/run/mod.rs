//! Run: executes a plan without further decisions.
//!
//! The [`driver`] prepares, verifies and publishes; in between, a [`worker`] loads the pieces. With a
//! ledger, the driver repeats this in rounds: one round, unless connections are lost.
//!
//! A worker has two kinds of threads. *Parsers* take a block from the feed of an active piece, parse it and
//! encode it. *Streams* each own a session: they claim a piece, send what parsers encoded for it
//! in the order of the source, have the destination check the non-canonical rows, and commit. Bounded
//! queues connect the two ([`schedule`]), so a slow destination throttles the parsers and memory stays
//! bounded.

mod ahead;
mod covered;
mod driver;
mod key_check;
mod late_rejects;
mod limit_now;
mod lines;
mod lines_before;
mod nulls;
pub mod pace;
mod packing;
mod parser;
mod pause;
mod piece;
pub mod placement;
mod polite;
mod reject_files;
mod reject_record;
pub mod rejects;
mod reread;
pub mod retry;
mod schedule;
mod source_row;
mod spool;
mod stream;
mod summaries;
mod threads;
mod transformed;
mod tuning;
mod unjudged;
mod verdict;
pub mod verify;
mod violations;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::ceilings::Achieved;
use fullbore_record::diagnose::Verdict;
use fullbore_record::observe::{Clocks, Seen};
use fullbore_record::{Event, Phase, Recorder, RejectSummary, TableTotals, Verified};

use crate::plan::Plan;
use crate::sink::Sink;
use driver::Driver;
use placement::Nodes;
pub use tuning::Tuned;
use tuning::Tuner;

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub rows: u64,
    pub rejected: u64,
    /// Bytes of source text, after decompression.
    pub bytes: u64,
    /// Of these, what was committed before this process went on with the run.
    pub rows_before: u64,
    pub bytes_before: u64,
    pub seconds: f64,
    pub phases: Vec<Phase>,
    pub pieces: u64,
    /// Pieces are committed, with rows or without.
    pub pieces_committed: usize,
    /// A connection was lost in the last round, and with it perhaps word of a piece's commit.
    pub is_unsure: bool,
    pub tables: Vec<TableTotals>,
    /// What was seen of the threads, the machine and the server while rows moved.
    pub seen: Seen,
    /// What held it back, and what to do about that.
    pub verdict: Option<(Verdict, Vec<String>)>,
    /// The number of streams that was best, where that could change.
    pub tuned: Option<Tuned>,
    /// How much of its ceiling it achieved, where that is known.
    pub achieved: Option<Achieved>,
    /// What was proved of it.
    pub verified: Option<Verified>,
    /// How long it held still, where `--pause-when` made it.
    pub paused_seconds: f64,
    /// Where the rejected rows are, if there are any.
    pub reject_files: Vec<std::path::PathBuf>,
}

impl Outcome {
    /// Source bytes a second while rows moved: without what comes before and after, and without pauses.
    pub fn rate(&self) -> Option<f64> {
        let load = self.phases.iter().find(|phase| phase.name == "load")?;
        let seconds = load.seconds - self.paused_seconds;
        let bytes = self.bytes.saturating_sub(self.bytes_before);
        (seconds > 0.0 && bytes > 0).then(|| bytes as f64 / seconds)
    }
}

/// A run that did not end well.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    pub outcome: Outcome,
    /// What is committed is kept, and the run can be resumed.
    pub is_kept: bool,
    /// Its rows were shown before it failed; `None` where that is not known.
    pub is_published: Option<bool>,
    /// What could not be taken away again.
    pub left_behind: Vec<String>,
    /// Rows that are in the target although the run failed (plain `append` alone).
    pub rows_kept: u64,
}

/// Runs a plan to its end. `interrupted` is looked at between blocks.
pub fn run(
    plan: &Arc<Plan>,
    sink: &dyn Sink,
    recorder: &Recorder,
    interrupted: &AtomicBool,
) -> Result<Outcome, Box<Failure>> {
    let began = Instant::now();
    let mut outcome = Outcome::default();
    if !plan.continuity.resumes {
        recorder.record(summaries::run_started(plan));
    }
    recorder.record(Event::Planned { plan: Box::new(summaries::plan_summary(plan)) });
    if let Some(ceilings) = &plan.ceilings {
        recorder.record(Event::Ceilings { ceilings: Box::new(ceilings.clone()) });
    }
    tracing::info!(
        run = plan.run_id,
        streams = plan.streams,
        parsers = plan.parsers,
        "run started"
    );
    let tuner = Tuner::of(plan);
    let most = tuner.as_ref().map_or((plan.streams, plan.parsers), Tuner::most);
    let clocks = Clocks::new(most.0, most.1);
    let tuner = tuner.as_ref();
    let nodes = &Nodes::of(plan, sink.paced(), recorder);
    let driver = Driver { plan, sink, recorder, interrupted, clocks: &clocks, nodes, tuner };
    let result = driver.carry_out(&mut outcome);
    outcome.tuned = tuner.and_then(Tuner::tuned);
    outcome.seconds = began.elapsed().as_secs_f64();
    if result.is_ok() {
        verdict::weigh(plan, &mut outcome);
    }
    if let Some((verdict, advice)) = outcome.verdict.clone() {
        recorder.record(Event::Verdict { verdict, advice });
    }
    if !outcome.reject_files.is_empty() {
        recorder.record(Event::Rejected { rejects: RejectSummary::of(&outcome.reject_files) });
    }
    match result {
        Ok(()) => {
            outcome.achieved =
                plan.ceilings.as_ref().and_then(|known| known.achieved(outcome.rate()?));
            if let Some(achieved) = outcome.achieved {
                recorder.record(Event::Achieved { achieved });
            }
            recorder.record(summaries::run_finished(&outcome));
            let Outcome { rows, rejected, seconds, .. } = outcome;
            tracing::info!(run = plan.run_id, rows, rejected, seconds, "run finished");
            Ok(outcome)
        }
        Err(error) => {
            let error = sink.explain(error);
            tracing::error!(run = plan.run_id, "run failed: {error}");
            let Ending { is_kept, left_behind } = end_failed(plan, sink, &error, &outcome);
            for name in &left_behind {
                tracing::warn!("not dropped: {name}");
            }
            // Pieces appended to the target itself stay; everything else is gone with the abort.
            let rows_kept =
                outcome.tables.iter().filter(|table| table.kept_on_failure).map(|t| t.rows).sum();
            recorder.record(Event::RunFailed {
                error: error.to_string(),
                is_kept,
                rows_kept,
                left_behind: left_behind.clone(),
            });
            let is_published = match sink.resumable() {
                Some(ledger) if is_kept => ledger.is_published(),
                _ => Some(false),
            };
            let failure = Failure { error, outcome, is_kept, is_published, left_behind, rows_kept };
            Err(Box::new(failure))
        }
    }
}

/// What became of a run that failed: rolled back, or left to be resumed.
fn end_failed(plan: &Plan, sink: &dyn Sink, error: &Error, outcome: &Outcome) -> Ending {
    if keeps(plan, error, outcome) {
        if let Some(ledger) = sink.resumable() {
            ledger.leave(plan);
        }
        return Ending { is_kept: true, left_behind: Vec::new() };
    }
    let left_behind = sink.abort(plan);
    // What can't be taken away now is still known to the ledger.
    let is_kept = plan.continuity.is_resumable && !left_behind.is_empty();
    Ending { is_kept, left_behind }
}

struct Ending {
    is_kept: bool,
    left_behind: Vec<String>,
}

/// Whether what is committed is kept, for another try to go on with.
fn keeps(plan: &Plan, error: &Error, outcome: &Outcome) -> bool {
    use DestinationFailure::{Constraint, Data, Differs, Sources, TakenOver};
    if !plan.continuity.is_resumable {
        return false;
    }
    let is_shown = || {
        let mut tables = outcome.tables.iter();
        tables.any(|table| table.kept_on_failure && (table.rows > 0 || outcome.is_unsure))
    };
    // What is wrong is not gone on with; what is in the table already can't be rolled back.
    if matches!(error, Error::Destination { kind: Differs, .. }) {
        return is_shown();
    }
    if matches!(error, Error::Destination { kind: TakenOver, .. }) || plan.continuity.resumes {
        return true;
    }
    // What was not heard of the ledger knows: whoever goes on, or rolls the run back, asks it.
    if outcome.pieces_committed == 0 && !outcome.is_unsure {
        return false;
    }
    if is_shown() {
        return true;
    }
    if plan.ends_with_process() {
        return false;
    }
    // Its rows may stand among those of other parts.
    if plan.continuity.part.is_some() {
        return true;
    }
    match error {
        // Other files would be another run.
        Error::Source { .. }
        | Error::SourceChanged { .. }
        | Error::Unterminated { .. }
        | Error::Usage { .. } => false,
        Error::Destination { kind: Sources, .. } => false,
        // Whoever asked for --resume may mend the table; others expect a clean end.
        Error::Destination { kind: Constraint | Data, .. } => plan.continuity.keeps,
        _ => true,
    }
}
