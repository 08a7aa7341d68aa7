//! The rounds of a run: load what is not committed, then publish.
//!
//! One round is all there is, unless connections are lost. Then the streams that are left load what
//! they can; once all have ended, the destination is asked what is committed, and what is not is
//! loaded in the next round. A piece whose commit was not heard of is so neither lost nor doubled, and
//! pieces that a crash of the server took back, since nobody had waited for the log, are found too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::rejects::{Rejects, remove_saved};
use super::retry::Patience;
use super::schedule::Schedule;
use super::{Outcome, load};
use crate::constants::ROUNDS_WITHOUT_PROGRESS_MAX;
use crate::destination::{Committed, Destination, Phase, Standing};
use crate::error::{DestinationFailure, Error, Result};
use crate::plan::Plan;
use crate::record::{Event, Recorder, now_unix_ms};

pub struct Rounds<'a> {
    pub plan: &'a Arc<Plan>,
    pub destination: &'a dyn Destination,
    pub recorder: &'a Recorder,
    pub interrupted: &'a AtomicBool,
}

impl Rounds<'_> {
    pub fn carry_out(&self, outcome: &mut Outcome) -> Result<()> {
        let began = Instant::now();
        let mut standing = self.begin()?;
        outcome.rows_before = standing.committed.iter().map(|piece| piece.rows).sum();
        outcome.bytes_before = standing.committed.iter().map(|piece| piece.portion.bytes).sum();
        push_phase(outcome, "prepare", began);
        let mut progress = Progress { committed: standing.committed.len(), rounds_without: 0 };
        while let Some(lost) = self.round(standing, outcome)? {
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if !progress.goes_on(outcome) {
                return Err(lost);
            }
            tracing::warn!("begun anew after a lost connection: {lost}");
            self.recorder.record(Event::RoundStarted {
                reason: lost.to_string(),
                pieces_committed: outcome.pieces,
            });
            let began = Instant::now();
            standing = self.attempt().map_err(|error| caused_by(Some(&lost), error))?;
            push_phase(outcome, "reconnect", began);
        }
        Ok(())
    }

    fn begin(&self) -> Result<Standing> {
        if !self.plan.continuity.resumes {
            self.destination.prepare(self.plan)?;
            return Ok(Standing::default());
        }
        let standing = self.attempt()?;
        self.recorder.record(Event::RunResumed {
            started_unix_ms: now_unix_ms(),
            pieces_committed: standing.committed.len() as u64,
            rows_committed: standing.committed.iter().map(|piece| piece.rows).sum(),
        });
        Ok(standing)
    }

    /// Asks where the run stands; a server that is gone is waited for.
    fn attempt(&self) -> Result<Standing> {
        let has_ended = || self.is_interrupted();
        let patience = Patience::new(self.plan.continuity.patience, &has_ended);
        let standing = patience.insist(|| self.destination.attempt(self.plan));
        standing.map_err(|error| self.or_interrupted(error))
    }

    /// Whoever stops a run that waits for its server wants to read that it stopped.
    fn or_interrupted(&self, error: Error) -> Error {
        if error.is_lost() && self.is_interrupted() { Error::Interrupted } else { error }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Loads what is not committed and publishes; the loss that makes another round needed, if any.
    fn round(&self, standing: Standing, outcome: &mut Outcome) -> Result<Option<Error>> {
        let began = Instant::now();
        let rejects = Rejects::new(self.plan);
        rejects.restore(self.plan, &standing.committed)?;
        let schedule = Schedule::new(self.plan, self.interrupted, standing.committed);
        let loaded = match standing.is_published {
            true => Ok(()),
            false => {
                let paused = &mut outcome.paused_seconds;
                load(self.plan, self.destination, self.recorder, &schedule, &rejects, paused)
            }
        };
        push_phase(outcome, "load", began);
        let committed = schedule.committed();
        fill(outcome, &schedule, &committed);
        let lost = schedule.take_lost();
        let is_last = loaded.is_err() || lost.is_none();
        if is_last {
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
        rejects.check_share(outcome.rows)?;
        match self.publish(&committed, outcome) {
            Err(error) if error.is_lost() && self.plan.continuity.is_resumable => {
                return Ok(Some(error));
            }
            published => published?,
        }
        // A part that waits for others may be gone on with, and its rejects are asked for then.
        if self.plan.continuity.part.is_none() {
            remove_saved(self.plan, &committed);
        }
        Ok(None)
    }

    fn publish(&self, committed: &[Committed], outcome: &mut Outcome) -> Result<()> {
        for phase in self.destination.publish(self.plan, committed)? {
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
        (Some(lost), Error::Destination { message, kind: DestinationFailure::Lost, .. }) => {
            Error::Destination {
                message: format!("{lost}; then: {message}"),
                hint: lost.hint().map(str::to_owned),
                kind: DestinationFailure::Lost,
            }
        }
        (_, last) => last,
    }
}

fn fill(outcome: &mut Outcome, schedule: &Schedule<'_>, committed: &[Committed]) {
    let totals = schedule.totals();
    outcome.rows = totals.iter().map(|table| table.rows).sum();
    outcome.bytes = totals.iter().map(|table| table.bytes).sum();
    outcome.pieces = totals.iter().map(|table| table.pieces).sum();
    outcome.has_committed = !committed.is_empty();
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

/// Whether rounds still come to something.
struct Progress {
    committed: usize,
    rounds_without: u32,
}

impl Progress {
    /// Notes how far a round came; whether another one is worth it.
    fn goes_on(&mut self, outcome: &Outcome) -> bool {
        let committed = outcome.pieces as usize;
        if committed > self.committed {
            self.rounds_without = 0;
        } else {
            self.rounds_without += 1;
        }
        self.committed = committed;
        self.rounds_without < ROUNDS_WITHOUT_PROGRESS_MAX
    }
}
