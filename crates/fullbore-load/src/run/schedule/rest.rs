//! What a slow piece has left: a stream without other work takes over the second half of it.
//!
//! So a run does not wait for one slow file, disk or connection alone, and its last pieces end together. The piece
//! ends earlier then than was planned, and its rest is a piece with a number of its own; either may be committed
//! without the other. A feed is ended under its own lock, so that no record is read by both.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fullbore_read::FileRange;
use fullbore_read::error::Result;
use fullbore_read::feed::Feed;
use fullbore_read::halve::Halving;
use fullbore_record::observe::clock::{self, Activity};
use fullbore_record::terms::Publish;

use super::Schedule;
use super::handed::RestOf;
use super::state::{Active, State};
use crate::constants::{REST_BYTES_MIN, REST_LOOK_MS, REST_TAKEN_OVER_S};
use crate::plan::{Format, PieceInput, PlannedPiece};
use crate::run::covered::{length, share};

/// The part that a stream without work takes over.
const HALF: f64 = 0.5;

/// A piece whose rest could not be taken over so often is left alone.
const REST_MISSES_MAX: u32 = 4;

impl Schedule<'_> {
    /// Looks for the rest of a piece that is worth being taken over, and has it wait to be claimed; waits itself for
    /// a moment where there is none yet. None where there will be none.
    pub(super) fn find_rest<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
    ) -> Option<MutexGuard<'s, State>> {
        if !state.active.iter().any(|active| self.may_be_halved(active)) {
            return None;
        }
        let Some(slow) = self.slowest(&state) else {
            clock::enter(Activity::Idle);
            let look = Duration::from_millis(REST_LOOK_MS);
            let waited = self.ready.wait_timeout(state, look);
            return Some(waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0);
        };
        let active = &state.active[slow];
        let rest_of =
            RestOf { piece: active.piece.number, seconds: active.progress.seconds_left() };
        let activation = active.activation;
        clock::enter(Activity::Starved);
        let (mut state, rest) = self.split(state, activation, HALF);
        if let Some(number) = rest {
            state.rests.insert(number, rest_of);
        }
        Some(state)
    }

    /// Makes another piece, which waits to be claimed, of the last part of what an active one has left; its number.
    /// None where the piece has ended, or no place is known for it.
    pub(super) fn split<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        activation: u64,
        part: f64,
    ) -> (MutexGuard<'s, State>, Option<usize>) {
        let Some(active) = state.activated(activation) else { return (state, None) };
        active.is_halved = true;
        let (table, feed) = (active.piece.table, active.feed.clone());
        // Reading may take long, and so may whoever reads of the feed now.
        drop(state);
        let taken = self.take_from(table, &feed, part);
        let mut state = self.lock();
        let number = state.next_number;
        // Where it was given up meanwhile, all of it will be read again, from a feed that was not ended.
        let Some(active) = state.activated(activation) else { return (state, None) };
        active.is_halved = false;
        active.arrived.notify_all();
        let rest = taken.unwrap_or_else(|error| {
            tracing::info!(%error, "a piece is not split");
            Vec::new()
        });
        let Some(piece) = active.give_away(rest, number) else { return (state, None) };
        state.next_number += 1;
        state.waiting.push_front(piece);
        self.ready.notify_all();
        (state, Some(number))
    }

    /// Whether a piece can have a rest that another one may load.
    pub(super) fn may_be_halved(&self, active: &Active) -> bool {
        let (piece, table) = (&active.piece, &self.plan.tables[active.piece.table]);
        // A partition is one piece, and so is what one session fills; lines were counted before ranges that were
        // planned.
        let is_one = piece.bounds.is_some()
            || table.is_joined
            || table.publish == Publish::Partitions
            || self.lines_before.contains_key(&piece.table);
        let is_given_up = active.progress.misses > REST_MISSES_MAX;
        !is_one && !active.exhausted && !is_given_up && !self.is_read_on(piece)
    }

    /// The piece that will take longest yet, where that is worth to be halved.
    fn slowest(&self, state: &State) -> Option<usize> {
        let seconds_left = |(at, active): (usize, &Active)| {
            let progress = &active.progress;
            let left = progress.length.saturating_sub(progress.done);
            let is_little = share(active.piece.bytes, left, progress.length) < REST_BYTES_MIN;
            let is_early = Instant::now() < progress.halved_from;
            if is_little || is_early || active.is_halved || !self.may_be_halved(active) {
                return None;
            }
            let for_ever = f64::INFINITY;
            let seconds = match progress.seconds_left() {
                None if progress.began.elapsed().as_secs_f64() > REST_TAKEN_OVER_S => for_ever,
                seconds => seconds?,
            };
            (seconds > REST_TAKEN_OVER_S).then_some((at, seconds))
        };
        let slow = state.active.iter().enumerate().filter_map(seconds_left);
        slow.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// Ends a feed before the last part of what it has left: that part, or nothing where no place is known for it.
    fn take_from(&self, table: usize, feed: &Mutex<Feed>, part: f64) -> Result<Vec<FileRange>> {
        let table = &self.plan.tables[table];
        let lock = || feed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let left = lock().left();
        let dialect = match &table.format {
            Format::Delimited(dialect) => Some(dialect),
            Format::Columnar(_) => None,
        };
        let halving = Halving {
            files: &table.files,
            dialect,
            record_bytes_max: self.plan.max_field_bytes,
            joints: &table.joints,
        };
        let half = halving.last_part(&left, part)?;
        // It was read on meanwhile.
        let is_ended = half.first().is_some_and(|first| lock().end_before(first));
        Ok(if is_ended { half } else { Vec::new() })
    }
}

impl Active {
    /// Makes another piece of its last ranges; without any it stays whole for now.
    fn give_away(&mut self, rest: Vec<FileRange>, number: usize) -> Option<PlannedPiece> {
        let is_rows = matches!(self.piece.input, PieceInput::Rows(_));
        let (PieceInput::Ranges(ranges) | PieceInput::Rows(ranges)) = &mut self.piece.input else {
            return None;
        };
        let Some(first) = rest.first() else {
            self.progress.misses += 1;
            let pause =
                Duration::from_secs_f64(REST_TAKEN_OVER_S * f64::from(self.progress.misses));
            self.progress.halved_from = Instant::now() + pause;
            return None;
        };
        let is_before = |range: &FileRange| {
            range.file != first.file || range.end <= first.start || first.start < range.start
        };
        let kept = ranges.iter().take_while(|range| is_before(range)).count();
        ranges.truncate(kept + 1);
        match ranges.last_mut() {
            Some(last) if last.start < first.start => last.end = first.start,
            _ => ranges.truncate(kept),
        }
        let (whole, part) = (self.progress.length, length(&rest));
        let bytes = share(self.piece.bytes, part, whole);
        self.piece.bytes -= bytes;
        self.progress.length = whole.saturating_sub(part);
        let input = if is_rows { PieceInput::Rows(rest) } else { PieceInput::Ranges(rest) };
        Some(PlannedPiece { number, input, bytes, ..self.piece.clone() })
    }
}
