//! Ends or pauses a round: failures, signals, exceeded limits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fullbore_read::error::{Error, Result};
use fullbore_record::observe::clock::{self, Activity};

use super::state::State;
use super::{Hold, Schedule};
use crate::constants::INTERRUPT_GRACE_S;

impl Schedule<'_> {
    /// Runs a thread's work; an error or a panic ends the whole run.
    pub fn guard(&self, work: impl FnOnce() -> Result<()>) {
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Error::Client {
                    message: format!("a bug in Fullbore ended the run: {text}"),
                    hint: None,
                }
            }
        };
        self.fail(failure);
    }

    /// Ends the run; the first failure is the one that counts, and none after the end does: of a pipe
    /// that nobody waits for any more, say.
    pub fn fail(&self, error: Error) {
        let mut state = self.lock();
        if !state.closed {
            state.failure.get_or_insert(error);
        }
        self.wake_all(state);
    }

    /// Where a signal came, gives out no more pieces; those under way have so long to be committed. What
    /// is waited for comes back once.
    pub fn notice_interrupt(&self, since: &mut Option<Instant>) -> Option<String> {
        if !self.interrupted.load(Ordering::Relaxed) {
            return None;
        }
        let is_first = since.is_none();
        let since = since.get_or_insert_with(Instant::now);
        self.lock().is_stopping = true;
        self.released.notify_all();
        // What is not kept needn't be waited for.
        let grace = Duration::from_secs(INTERRUPT_GRACE_S);
        if !self.plan.continuity.is_resumable || since.elapsed() >= grace {
            self.fail(Error::Interrupted);
        }
        is_first.then(|| self.waits_for())
    }

    /// What a run that was interrupted waits for.
    fn waits_for(&self) -> String {
        let pieces = match self.lock().active.len() {
            _ if !self.plan.continuity.is_resumable => {
                return "stopping: uncommitted rows are rolled back".to_owned();
            }
            0 => return "stopping; ^C again aborts".to_owned(),
            1 => "1 piece".to_owned(),
            pieces => format!("{pieces} pieces"),
        };
        format!("stopping: finishing {pieces}; ^C again aborts")
    }

    /// Whether nobody waits for what a stream could still load.
    pub fn has_ended(&self) -> bool {
        let state = self.lock();
        state.closed || state.is_stopping
    }

    /// No more work will come.
    pub fn close(&self) {
        self.wake_all(self.lock());
    }

    fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        state.closed = true;
        self.attention.end();
        state.active.iter().for_each(|active| active.arrived.notify_all());
        drop(state);
        self.work.notify_all();
        self.ready.notify_all();
        self.released.notify_all();
    }

    /// Whether it ends before all is loaded.
    pub fn is_cut_short(&self) -> bool {
        let state = self.lock();
        let is_interrupted = self.interrupted.load(Ordering::Relaxed);
        is_interrupted || state.is_stopping || state.failure.is_some()
    }

    /// Lets streams wait, or go on.
    pub fn hold(&self, hold: Hold) {
        self.lock().hold = hold;
        self.released.notify_all();
    }

    /// Waits as long as one of these holds, unless the run is to end.
    pub(super) fn wait_if_held<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        held: &[Hold],
    ) -> MutexGuard<'s, State> {
        while held.contains(&state.hold) && !state.closed && !state.is_stopping {
            clock::enter(Activity::Held);
            state = self.released.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state
    }

    pub fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// Why connections were lost, where some were.
    pub fn take_lost(&self) -> Option<Error> {
        self.lock().lost.take()
    }
}
