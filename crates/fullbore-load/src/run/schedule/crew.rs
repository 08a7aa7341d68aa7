//! How many streams and parsers are wanted: those that are not wait, and give back what they have.

use std::ops::Range;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use fullbore_record::observe::clock::{self, Activity};

use super::Schedule;
use super::state::State;
use crate::constants::SESSION_KEPT_S;
use crate::plan::PieceInput;

/// What is left of a piece for less than this is sent by the stream that has it, in seconds.
const ENDED_ABOVE_S: f64 = 1.0;

impl Schedule<'_> {
    /// The numbers of the streams that are still to be started, for so many to be there.
    pub fn streams_lacking(&self, wanted: usize) -> Range<usize> {
        let started = self.lock().crew.streams_started;
        started..wanted.max(started)
    }

    /// The same of parsers; they count as started.
    pub fn parsers_lacking(&self, wanted: usize) -> Range<usize> {
        let started = &mut self.lock().crew.parsers_started;
        let before = std::mem::replace(started, wanted.max(*started));
        before..*started
    }

    /// A stream is started.
    pub fn begin_stream(&self) {
        let crew = &mut self.lock().crew;
        crew.streams += 1;
        crew.streams_started += 1;
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
        let state = self.lock();
        let sent = state.totals.iter().map(|table| table.bytes_sent).sum();
        (sent, state.totals.iter().map(|table| table.bytes_expected).sum())
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
        let mut ended: Vec<_> = state
            .active
            .iter()
            .map(|active| (active.stream, active.activation, active.piece.table))
            .collect();
        drop(state);
        self.released.notify_all();
        self.work.notify_all();
        ended.sort_by_key(|(stream, ..)| *stream);
        for (_, activation, table) in ended.into_iter().skip(streams.max(1)) {
            self.end_early(activation, table);
        }
    }

    /// Ends a piece where it is; what is left of it waits for another stream.
    fn end_early(&self, activation: u64, table: usize) {
        let mut state = self.lock();
        let found = state.active.iter_mut().find(|active| active.activation == activation);
        let Some(active) = found else { return };
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
        active.is_halved = true;
        let feed = active.feed.clone();
        drop(state);
        let taken = self.take_from(table, &feed, 1.0);
        let mut state = self.lock();
        let number = state.next_number;
        let found = state.active.iter_mut().find(|active| active.activation == activation);
        let Some(active) = found else { return };
        active.is_halved = false;
        active.arrived.notify_all();
        let taken = taken.unwrap_or_else(|error| {
            tracing::info!(%error, "a piece is not ended early");
            Vec::new()
        });
        if let Some(piece) = active.give_away(taken, number) {
            state.next_number += 1;
            state.waiting.push_front(piece);
            self.ready.notify_all();
        }
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
        let since = Instant::now();
        let mut is_resting = false;
        while state.crew.at_work() >= state.crew.streams_wanted
            && !state.closed
            && !state.is_stopping
        {
            let kept = Duration::from_secs_f64(SESSION_KEPT_S).saturating_sub(since.elapsed());
            if kept.is_zero() && !std::mem::replace(&mut is_resting, true) {
                drop(state);
                rest();
                state = self.lock();
                continue;
            }
            let wait = if is_resting { Duration::from_secs(3600) } else { kept };
            let waited = self.released.wait_timeout(state, wait);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        state.crew.parked -= 1;
        state
    }
}
