//! How many streams and parsers are wanted: those that are not wait, and give back what they have.

use std::ops::Range;
use std::sync::MutexGuard;
use std::time::Duration;

use fullbore_record::observe::clock::{self, Activity};

use super::Schedule;
use super::state::State;
use crate::constants::SESSION_KEPT_S;
use crate::plan::PieceInput;

/// What is left of a piece for less than this is sent by the stream that has it, in seconds.
const ENDED_ABOVE_S: f64 = 1.0;

impl Schedule<'_> {
    /// The numbers of the streams that are still to be started, for so many to be there; they count as started.
    pub fn streams_lacking(&self, wanted: usize) -> Range<usize> {
        lacking(&mut self.lock().crew.streams_started, wanted)
    }

    /// The same of parsers.
    pub fn parsers_lacking(&self, wanted: usize) -> Range<usize> {
        lacking(&mut self.lock().crew.parsers_started, wanted)
    }

    /// A stream is started.
    pub fn begin_stream(&self) {
        self.lock().crew.streams += 1;
    }

    /// A stream has ended: one that waits may take its place.
    pub fn end_stream(&self) {
        self.lock().crew.streams -= 1;
        self.released.notify_all();
    }

    /// Waits until all streams have ended.
    pub fn wait_for_streams(&self) {
        let mut state = self.lock();
        while state.crew.streams > 0 {
            state = self.released.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Streams that are wanted, and those that are at work or would be if there were any.
    pub fn streams_wanted_and_at_work(&self) -> (usize, usize) {
        let state = self.lock();
        (state.crew.streams_wanted, state.crew.at_work())
    }

    /// Whether pieces wait that another stream could load.
    pub fn has_more(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() || state.streams.iter().any(|stream| !stream.ended)
    }

    /// Bytes of source that were sent so far, and that there are, where that is known.
    pub fn bytes_sent(&self) -> (u64, Option<u64>) {
        self.lock().bytes_sent()
    }

    /// Whether a limit of `--pause-when` is passed.
    pub fn is_held(&self) -> bool {
        self.lock().hold != super::Hold::No
    }

    /// So many are wanted from now on. Streams that are too many end their pieces where they are, and what is left of
    /// these waits for others.
    pub fn want(&self, streams: usize, parsers: usize) {
        let mut state = self.lock();
        (state.crew.streams_wanted, state.crew.parsers_wanted) = (streams.max(1), parsers.max(1));
        let mut active: Vec<(usize, u64)> =
            state.active.iter().map(|active| (active.stream, active.activation)).collect();
        drop(state);
        self.released.notify_all();
        self.work.notify_all();
        active.sort_unstable();
        for (_, activation) in active.into_iter().skip(streams.max(1)) {
            self.end_early(activation);
        }
    }

    /// Ends a piece where it is; what is left of it waits for another stream.
    fn end_early(&self, activation: u64) {
        let mut state = self.lock();
        let Some(active) = state.activated(activation) else { return };
        if let PieceInput::Stream { .. } = active.piece.input {
            // The next one reads on.
            (active.budget, active.exhausted) = (0, true);
            active.arrived.notify_all();
            return;
        }
        let is_short = active.progress.seconds_left().is_some_and(|left| left < ENDED_ABOVE_S);
        if is_short || active.is_halved || !self.may_be_halved(active) {
            return;
        }
        drop(self.split(state, activation, 1.0));
    }

    /// Waits as long as there are more streams than are wanted; calls `rest` where that takes long.
    pub(super) fn wait_if_not_wanted<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        rest: &mut impl FnMut(),
    ) -> MutexGuard<'s, State> {
        if state.crew.at_work() <= state.crew.streams_wanted {
            return state;
        }
        state.crew.parked += 1;
        clock::enter(Activity::Idle);
        let is_parked = |state: &mut State| {
            let is_over = state.closed || state.is_stopping;
            state.crew.at_work() >= state.crew.streams_wanted && !is_over
        };
        let kept = Duration::from_secs_f64(SESSION_KEPT_S);
        let waited = self.released.wait_timeout_while(state, kept, is_parked);
        let (waiting, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state = waiting;
        if timeout.timed_out() {
            drop(state);
            rest();
            let waited = self.released.wait_while(self.lock(), is_parked);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.crew.parked -= 1;
        state
    }
}

/// The numbers from those that were started to so many.
fn lacking(started: &mut usize, wanted: usize) -> Range<usize> {
    let before = std::mem::replace(started, wanted.max(*started));
    before..*started
}
