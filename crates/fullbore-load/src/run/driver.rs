//! The driver of a run: prepares, has the pieces that are not committed loaded, publishes, verifies.
//!
//! There is one round, unless connections are lost. Then the remaining streams load what they can. Once
//! all have ended, the destination reports the committed pieces, and the next round loads the others. So a
//! piece with an unknown commit is neither lost nor doubled. Pieces that a server crash rolled back, since
//! their log was not flushed, are found too.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_parse::Counts;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::observe::Clocks;
use fullbore_record::{Event, Phase, Recorder, TableTotals, now_unix_ms};

use super::Outcome;
use super::lines_before;
use super::placement::Nodes;
use super::rejects::{Rejects, remove_saved};
use super::retry::{self, Patience};
use super::schedule::{Refused, Schedule};
use super::tuning::Tuner;
use super::worker::Worker;
use super::{verify, violations};
use crate::constants::{ROUNDS_WITHOUT_PROGRESS_MAX, VIOLATION_PASSES_MAX};
use crate::plan::Plan;
use crate::sink::{Committed, LoadState, Sink, Verifying};

pub struct Driver<'a> {
    pub plan: &'a Arc<Plan>,
    pub sink: &'a dyn Sink,
    pub recorder: &'a Recorder,
    pub interrupted: &'a AtomicBool,
    pub clocks: &'a Clocks,
    pub nodes: &'a Nodes,
    /// Where the number of streams may change.
    pub tuner: Option<&'a Tuner>,
}

impl Driver<'_> {
    pub fn carry_out(&self, outcome: &mut Outcome) -> Result<()> {
        let began = Instant::now();
        let mut state = self.begin()?;
        outcome.rows_before = state.committed.iter().map(|piece| piece.rows).sum();
        outcome.bytes_before = state.committed.iter().map(|piece| piece.portion.bytes).sum();
        push_phase(outcome, "prepare", began);
        let mut progress = Progress { committed: state.committed.len(), rounds_without: 0 };
        let (mut refused, mut earlier) = (Refused::default(), Earlier::default());
        while let Some(lost) = self.round(state, &mut refused, &mut earlier, outcome)? {
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if !progress.goes_on(outcome) {
                return Err(lost);
            }
            tracing::warn!("another round is needed: {lost}");
            self.recorder.record(Event::RoundStarted {
                reason: lost.to_string(),
                pieces_committed: outcome.pieces,
            });
            let began = Instant::now();
            self.clocks.streams().iter().for_each(|clock| clock.set_aside());
            self.rest(progress.pause(self.plan.continuity.patience))?;
            state = self.attempt().map_err(|error| caused_by(Some(&lost), error))?;
            push_phase(outcome, "reconnect", began);
        }
        Ok(())
    }

    fn begin(&self) -> Result<LoadState> {
        if !self.plan.continuity.resumes {
            self.prepare()?;
            return Ok(LoadState::default());
        }
        let state = self.attempt()?;
        self.recorder.record(Event::RunResumed {
            started_unix_ms: now_unix_ms(),
            pieces_committed: state.committed.len() as u64,
            rows_committed: state.committed.iter().map(|piece| piece.rows).sum(),
            fullbore: Some(env!("CARGO_PKG_VERSION").into()),
            streams: Some(self.plan.begins_with()),
            parsers: Some(self.plan.parsers),
        });
        Ok(state)
    }

    /// Makes what the run needs. Where the server is lost over it, what is there of it is rolled back by
    /// the ledger's knowledge, and all is made again.
    fn prepare(&self) -> Result<()> {
        if !self.plan.continuity.is_resumable {
            return self.sink.prepare(self.plan);
        }
        let has_ended = || self.is_interrupted();
        let mut was_lost = false;
        let prepared = Patience::new(self.plan.continuity.patience, &has_ended).insist(|| {
            if was_lost {
                let left = self.sink.abort(self.plan);
                if !left.is_empty() {
                    return Err(not_taken_back(&left));
                }
            }
            let prepared = self.sink.prepare(self.plan);
            if let Some(lost) = prepared.as_ref().err().filter(|error| error.is_lost()) {
                was_lost = true;
                let reason = lost.to_string();
                self.recorder.record(Event::RoundStarted { reason, pieces_committed: 0 });
            }
            prepared
        });
        prepared.map_err(|error| self.or_interrupted(error))
    }

    /// Asks where the run stands; a server that is gone is waited for.
    fn attempt(&self) -> Result<LoadState> {
        let Some(ledger) = self.sink.resumable() else { return Ok(LoadState::default()) };
        let has_ended = || self.is_interrupted();
        let patience = Patience::new(self.plan.continuity.patience, &has_ended);
        let state = patience.insist(|| ledger.attempt(self.plan));
        state.map_err(|error| self.or_interrupted(error))
    }

    fn rest(&self, pause: Duration) -> Result<()> {
        match retry::pause(pause, || self.is_interrupted()) {
            true => Ok(()),
            false => Err(Error::Interrupted),
        }
    }

    /// Whoever stops a run that waits for its server wants to read that it stopped.
    fn or_interrupted(&self, error: Error) -> Error {
        if error.is_lost() && self.is_interrupted() { Error::Interrupted } else { error }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Loads what is not committed and publishes; the loss that makes another round needed, if any.
    fn round(
        &self,
        state: LoadState,
        refused: &mut Refused,
        earlier: &mut Earlier,
        outcome: &mut Outcome,
    ) -> Result<Option<Error>> {
        let began = Instant::now();
        let rejects = Rejects::new(self.plan);
        rejects.restore(self.plan, &state)?;
        let before = std::mem::take(refused);
        let is_published = state.is_published;
        let mut state = state;
        earlier.recall(&mut state.committed);
        let schedule = Schedule::new(self.plan, self.interrupted, state.committed, before)
            .with_lines(lines_before::count(self.plan)?);
        let loaded = match is_published {
            true => Ok(()),
            false => self.load(&schedule, &rejects, outcome),
        };
        push_phase(outcome, "load", began);
        *refused = schedule.refused();
        let committed = schedule.committed();
        fill(outcome, &schedule, &committed);
        earlier.keep(&committed, &mut outcome.tables);
        let lost = schedule.take_lost();
        outcome.is_unsure = lost.is_some();
        let is_last = loaded.is_err() || lost.is_none();
        if is_last {
            let pieces = self.clocks.pieces();
            let tuned = self.tuner.and_then(Tuner::tuned);
            let (mut verdict, advice) =
                super::verdict::pronounce(self.plan, &outcome.seen, tuned, &pieces);
            super::verdict::bound(&mut verdict, self.plan, outcome);
            outcome.verdict = Some((verdict, advice));
            let finished = rejects.finish(self.plan, &schedule);
            outcome.rejected = rejects.count();
            // Of a run that failed they are wanted most.
            let not_written = finished.map(|files| outcome.reject_files = files);
            loaded.map_err(|error| self.or_interrupted(caused_by(lost.as_ref(), error)))?;
            not_written?;
        }
        if self.is_interrupted() {
            return Err(Error::Interrupted);
        }
        if lost.is_some() {
            return Ok(lost);
        }
        if !is_published {
            rejects.check_limit(outcome.rows)?;
            verify::pieces(self.plan, &committed)?;
        }
        let mut committed = committed;
        match self.publish(&mut committed, &rejects, outcome) {
            Err(error) if error.is_lost() && self.plan.continuity.is_resumable => {
                return Ok(Some(error));
            }
            published => published?,
        }
        let proven = self.sink.verifying().map(Verifying::verified).unwrap_or_default();
        for (table, merged) in &proven.merged {
            outcome.tables[*table].merged = Some(*merged);
        }
        outcome.verified = Some(verify::verified(&committed, proven));
        // A part that waits for others may be gone on with, and its rejects are asked for then.
        if self.plan.continuity.part.is_none() {
            remove_saved(self.plan, &committed);
        }
        Ok(None)
    }

    fn load(
        &self,
        schedule: &Schedule<'_>,
        rejects: &Rejects,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let Self { plan, sink, recorder, clocks, nodes, tuner, .. } = *self;
        let worker = Worker { plan, sink, recorder, schedule, rejects, clocks, nodes, tuner };
        worker.load(&mut outcome.seen, &mut outcome.paused_seconds)
    }

    /// Publishes the rows. Where a constraint prevents that and rows may be rejected, the ones that
    /// violate it are taken out first.
    fn publish(
        &self,
        committed: &mut [Committed],
        rejects: &Rejects,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let mut passes = 0;
        let phases = loop {
            match self.sink.publish(self.plan, committed) {
                Err(error)
                    if passes < VIOLATION_PASSES_MAX
                        && violations::may_reject(self.plan, &error) =>
                {
                    tracing::info!("rows that violate constraints are rejected: {error}");
                    let began = Instant::now();
                    let removed = violations::reject(
                        self.plan, self.sink, &error, committed, rejects, outcome,
                    )?;
                    push_phase(outcome, "reject violations", began);
                    if !removed {
                        return Err(error);
                    }
                    passes += 1;
                }
                published => break published?,
            }
        };
        for phase in phases {
            tracing::info!(phase = phase.name, seconds = phase.seconds, "phase finished");
            self.recorder.record(Event::PhaseFinished { phase: phase.clone() });
            outcome.phases.push(phase);
        }
        Ok(())
    }
}

/// Where a server that was lost does not come back, how it was lost is what one wants to know.
fn caused_by(lost: Option<&Error>, last: Error) -> Error {
    match (lost, last) {
        (Some(lost), last @ Error::Destination { .. }) if last.is_lost() => {
            let message = last.to_string();
            Error::Destination {
                message: format!("{lost}; then: {message}"),
                hint: lost.hint().map(str::to_owned),
                kind: DestinationFailure::Lost,
            }
        }
        (_, last) => last,
    }
}

/// What stands in the way of another beginning, as long as the server is gone.
fn not_taken_back(left: &[String]) -> Error {
    Error::Destination {
        message: format!("the connection was lost; possible leftovers: {}", left.join(", ")),
        hint: None,
        kind: DestinationFailure::Lost,
    }
}

fn fill(outcome: &mut Outcome, schedule: &Schedule<'_>, committed: &[Committed]) {
    let totals = schedule.totals();
    outcome.rows = totals.iter().map(|table| table.rows).sum();
    outcome.bytes = totals.iter().map(|table| table.bytes).sum();
    outcome.pieces = totals.iter().map(|table| table.pieces).sum();
    outcome.pieces_committed = committed.len();
    outcome.tables = totals;
}

/// A phase that a run goes through again counts with its first time.
fn push_phase(outcome: &mut Outcome, name: &str, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    match outcome.phases.iter_mut().find(|phase| phase.name == name) {
        Some(phase) => phase.seconds += seconds,
        None => outcome.phases.push(Phase { name: name.into(), seconds }),
    }
}

/// What earlier rounds counted that the destination does not keep.
#[derive(Default)]
struct Earlier {
    /// By piece.
    counts: HashMap<usize, Counts>,
    /// Values rounded, by table.
    rounded: Vec<u64>,
}

impl Earlier {
    /// Gives pieces that an earlier round committed what it counted of them.
    fn recall(&self, committed: &mut [Committed]) {
        for piece in committed {
            if let Some(counts) = self.counts.get(&piece.piece) {
                piece.portion.counts = *counts;
            }
        }
    }

    fn keep(&mut self, committed: &[Committed], totals: &mut [TableTotals]) {
        self.counts = committed.iter().map(|piece| (piece.piece, piece.portion.counts)).collect();
        self.rounded.resize(totals.len(), 0);
        for (table, rounded) in totals.iter_mut().zip(&mut self.rounded) {
            table.rounded += *rounded;
            *rounded = table.rounded;
        }
    }
}

/// Whether rounds still come to something.
struct Progress {
    committed: usize,
    rounds_without: u32,
}

impl Progress {
    /// Notes how far a round came; whether another one is worth it.
    fn goes_on(&mut self, outcome: &Outcome) -> bool {
        // Those without rows too.
        let committed = outcome.pieces_committed;
        if committed > self.committed {
            self.rounds_without = 0;
        } else {
            self.rounds_without += 1;
        }
        self.committed = committed;
        self.rounds_without < ROUNDS_WITHOUT_PROGRESS_MAX
    }

    /// How long the next round is put off: what ends each of them may pass in the time that a server which
    /// is gone would be waited for. The second one is not, each later one twice as long as the one before.
    fn pause(&self, patience: Duration) -> Duration {
        match ROUNDS_WITHOUT_PROGRESS_MAX.saturating_sub(self.rounds_without) {
            left if self.rounds_without > 1 => patience / 2_u32.pow(left + 1),
            _ => Duration::ZERO,
        }
    }
}
