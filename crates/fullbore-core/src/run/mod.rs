//! Run: carries out a plan and decides nothing any more.
//!
//! Two kinds of threads. *Parsers* take a block from the feed of an active piece, parse it and
//! encode it. *Streams* each own a session: they claim a piece, send what parsers encoded for it
//! in the order of the source, let the destination judge the odd rows, and commit. Between the two
//! stand bounded queues ([`schedule`]), so that a slow destination holds back the parsers and
//! memory stays bounded.

mod key_check;
mod lines;
mod parser;
pub mod rejects;
mod schedule;
mod spool;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::destination::{Destination, Phase};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::{Event, Recorder, TableTotals};

use rejects::Rejects;
use schedule::Schedule;

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub rows: u64,
    pub rejected: u64,
    /// Bytes of source text, after decompression.
    pub bytes: u64,
    pub seconds: f64,
    pub phases: Vec<Phase>,
    pub pieces: u64,
    pub tables: Vec<TableTotals>,
    /// Where the rejected rows are, if there are any.
    pub reject_files: Vec<std::path::PathBuf>,
}

/// A run that did not end well.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    pub outcome: Outcome,
    /// What could not be taken away again.
    pub left_behind: Vec<String>,
    /// Rows that are in the target although the run failed (plain `append` alone).
    pub rows_kept: u64,
}

/// How often progress is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Runs a plan to its end. `interrupted` is looked at between blocks.
pub fn run(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    recorder: &Recorder,
    interrupted: &AtomicBool,
) -> Result<Outcome, Box<Failure>> {
    let began = Instant::now();
    let mut outcome = Outcome::default();
    recorder.record(Event::run_started(plan));
    tracing::info!(
        run = plan.run_id,
        streams = plan.streams,
        parsers = plan.parsers,
        "run started"
    );
    let result = carry_out(plan, destination, recorder, interrupted, &mut outcome);
    outcome.seconds = began.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            recorder.record(Event::run_finished(&outcome));
            let Outcome { rows, rejected, seconds, .. } = outcome;
            tracing::info!(run = plan.run_id, rows, rejected, seconds, "run finished");
            Ok(outcome)
        }
        Err(error) => {
            tracing::error!(run = plan.run_id, "run failed: {error}");
            let left_behind = destination.abort(plan);
            for name in &left_behind {
                tracing::warn!("left behind: {name}");
            }
            // Pieces appended to the target itself stay; everything else is gone with the abort.
            let rows_kept =
                outcome.tables.iter().filter(|table| table.kept_on_failure).map(|t| t.rows).sum();
            recorder.record(Event::RunFailed {
                error: error.to_string(),
                rows_kept,
                left_behind: left_behind.clone(),
            });
            Err(Box::new(Failure { error, outcome, left_behind, rows_kept }))
        }
    }
}

fn carry_out(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    recorder: &Recorder,
    interrupted: &AtomicBool,
    outcome: &mut Outcome,
) -> Result<()> {
    let began = Instant::now();
    destination.prepare(plan)?;
    outcome.phases.push(Phase { name: "prepare".into(), seconds: began.elapsed().as_secs_f64() });

    let began = Instant::now();
    let schedule = Schedule::new(plan, interrupted)?;
    let rejects = Rejects::new(plan);
    let loaded = load(plan, destination, recorder, &schedule, &rejects);
    outcome.phases.push(Phase { name: "load".into(), seconds: began.elapsed().as_secs_f64() });
    let totals = schedule.totals();
    outcome.rows = totals.iter().map(|table| table.rows).sum();
    outcome.bytes = totals.iter().map(|table| table.bytes).sum();
    outcome.pieces = totals.iter().map(|table| table.pieces).sum();
    outcome.tables = totals;
    let finished = rejects.finish(plan, &schedule);
    outcome.rejected = rejects.count();
    // Of a run that failed they are wanted most.
    let not_written = finished.map(|files| outcome.reject_files = files);
    loaded?;
    not_written?;
    rejects.check_share(outcome.rows)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    for phase in destination.publish(plan)? {
        tracing::info!(phase = phase.name, seconds = phase.seconds, "phase finished");
        recorder.record(Event::PhaseFinished { phase: phase.clone() });
        outcome.phases.push(phase);
    }
    Ok(())
}

/// The phase in which data moves: all threads live and end in here.
fn load(
    plan: &Arc<Plan>,
    destination: &dyn Destination,
    recorder: &Recorder,
    schedule: &Schedule<'_>,
    rejects: &Rejects,
) -> Result<()> {
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..plan.parsers {
            std::thread::Builder::new()
                .name(format!("parser-{number}"))
                .spawn_scoped(scope, || {
                    schedule.guard(|| parser::parse_until_done(plan, destination, schedule));
                })
                .expect("a thread can be started");
        }
        let streams: Vec<_> = (0..plan.streams)
            .map(|number| {
                std::thread::Builder::new()
                    .name(format!("stream-{number}"))
                    .spawn_scoped(scope, move || {
                        schedule.guard(|| {
                            stream::load_until_done(
                                plan,
                                destination,
                                recorder,
                                schedule,
                                rejects,
                                number,
                            )
                        });
                    })
                    .expect("a thread can be started")
            })
            .collect();
        let sampler = scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                recorder.record(schedule.sample());
                std::thread::park_timeout(SAMPLE_INTERVAL);
                schedule.notice_interrupt();
            }
        });
        for stream in streams {
            // A panic was turned into a failure by the guard.
            let _ = stream.join();
        }
        schedule.close();
        finished.store(true, Ordering::Relaxed);
        sampler.thread().unpark();
    });
    recorder.record(schedule.sample());
    schedule.take_failure().map_or(Ok(()), Err)
}
