//! Pauses the load while a limit of `--pause-when` is exceeded.
//!
//! A thread asks the destination for its state at intervals. While a limit is exceeded, no stream gets a
//! piece or the next block of its piece: transactions stay open, queues fill, and parsers wait. If open
//! transactions themselves delay recovery, the active pieces are committed first, or the load would wait
//! for itself. After a signal, active pieces are still finished.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_record::{Event, Recorder};

use super::retry::given_up;
use super::schedule::{Hold, Schedule};
use crate::constants::PAUSE_LOOK_MS;
use crate::plan::Plan;
use crate::sink::{Overload, Throttled};

/// Watches until the load has ended; the time that it stood still.
pub fn watch(
    plan: &Plan,
    sink: &dyn Throttled,
    recorder: &Recorder,
    schedule: &Schedule<'_>,
    finished: &AtomicBool,
) -> Duration {
    let mut total = Duration::ZERO;
    let mut since: Option<Instant> = None;
    let mut hold = Hold::No;
    let mut unheard: Option<Instant> = None;
    while !finished.load(Ordering::Relaxed) {
        match sink.overload(plan) {
            Ok(Overload { reasons, needs_commits }) => {
                unheard = None;
                let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
                hold = match (&reason, needs_commits) {
                    (None, _) => Hold::No,
                    (Some(_), true) => Hold::BetweenPieces,
                    (Some(_), false) => Hold::Everywhere,
                };
                // First: streams must not wait for what telling may come to.
                schedule.hold(hold);
                if schedule.is_cut_short() {
                    break;
                }
                tell(recorder, reason.as_deref(), &mut since, &mut total);
            }
            Err(_) if schedule.is_cut_short() => break,
            // What can't be asked now stays as it was. A stream that loads sees by itself that the server
            // is gone; one that is held asks it nothing, and would wait for ever.
            Err(error) => {
                let since = unheard.get_or_insert_with(Instant::now).elapsed();
                if hold != Hold::No && since >= plan.continuity.patience {
                    schedule.fail(given_up(error, since));
                    break;
                }
                tracing::warn!("--pause-when: {error}");
                schedule.hold(hold);
            }
        }
        std::thread::park_timeout(Duration::from_millis(PAUSE_LOOK_MS));
    }
    schedule.hold(Hold::No);
    if schedule.is_cut_short() {
        // It does not go on.
        return total + since.map_or(Duration::ZERO, |began| began.elapsed());
    }
    tell(recorder, None, &mut since, &mut total);
    total
}

/// Records where a pause begins and ends.
fn tell(
    recorder: &Recorder,
    reason: Option<&str>,
    since: &mut Option<Instant>,
    total: &mut Duration,
) {
    match (reason, since.take()) {
        (Some(reason), None) => {
            tracing::warn!("paused: {reason}");
            recorder.record(Event::RunPaused { reason: reason.to_owned() });
            *since = Some(Instant::now());
        }
        (None, Some(began)) => {
            let seconds = began.elapsed().as_secs_f64();
            tracing::info!(seconds, "resumes after a pause");
            recorder.record(Event::RunContinued { seconds });
            *total += began.elapsed();
        }
        (_, unchanged) => *since = unchanged,
    }
}
