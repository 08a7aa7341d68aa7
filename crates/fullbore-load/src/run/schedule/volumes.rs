//! Which piece is given out next, where sources are on several volumes.
//!
//! One after the other, all streams would read from one disk while the others rest. So each volume gets streams by
//! the time that what is left of it will take at its pace, and all of them end together. Within a volume
//! the order of the plan stays: the largest first, then as the files come.

use std::collections::BTreeMap;

use super::state::{Active, State};
use crate::plan::{Plan, PlannedPiece};
use crate::run::covered::share;

/// What the pieces before the last one count for in a volume's pace.
const FADES: f64 = 0.5;

/// The paces of volumes, by device.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    paces: BTreeMap<u64, Pace>,
}

/// Bytes that streams have read of a volume, and the seconds that it took them.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    bytes: f64,
    seconds: f64,
}

/// What is left of a volume.
struct Left {
    first: usize,
    bytes: u64,
    streams: usize,
    pace: Pace,
}

impl Volumes {
    /// A piece has ended.
    pub(super) fn note(&mut self, plan: &Plan, ended: &Active) {
        let Some(device) = device(plan, &ended.piece) else { return };
        let pace = self.paces.entry(device).or_default();
        pace.bytes *= FADES;
        pace.seconds *= FADES;
        pace.add(ended);
    }

    /// The place of the next piece among those that wait; 0 where there is only one volume.
    pub(super) fn next(&self, plan: &Plan, state: &State) -> usize {
        let Some(first) = state.waiting.front() else { return 0 };
        if state.again.contains_key(&first.number) {
            return 0;
        }
        let mut volumes: BTreeMap<u64, Left> = BTreeMap::new();
        let is_in_turn = |piece: &PlannedPiece| plan.tables_at_once || piece.table == first.table;
        let waiting = state.waiting.iter().enumerate();
        for (at, piece) in waiting.take_while(|(_, piece)| is_in_turn(piece)) {
            let device = device(plan, piece).unwrap_or(0);
            let pace = self.paces.get(&device).copied().unwrap_or_default();
            let none = Left { first: at, bytes: 0, streams: 0, pace };
            volumes.entry(device).or_insert(none).bytes += piece.bytes.max(1);
        }
        if volumes.len() < 2 {
            return 0;
        }
        for active in &state.active {
            let found = device(plan, &active.piece).and_then(|device| volumes.get_mut(&device));
            if let Some(volume) = found {
                volume.streams += 1;
                volume.pace.add(active);
            }
        }
        let mut all = Pace::default();
        for volume in volumes.values() {
            all.bytes += volume.pace.bytes;
            all.seconds += volume.pace.seconds;
        }
        // What another stream would find left of each: the largest such share is the one that is behind.
        let behind = |volume: &Left| {
            let pace = volume.pace.rate().or(all.rate()).unwrap_or(1.0);
            volume.bytes as f64 / pace / (volume.streams + 1) as f64
        };
        // Of volumes that are alike, the one that comes first.
        let next = volumes
            .values()
            .min_by(|a, b| behind(b).total_cmp(&behind(a)).then(a.first.cmp(&b.first)));
        next.map_or(0, |volume| volume.first)
    }
}

impl Pace {
    fn add(&mut self, active: &Active) {
        let progress = &active.progress;
        self.bytes += share(active.piece.bytes, progress.done, progress.length) as f64;
        self.seconds += progress.began.elapsed().as_secs_f64();
    }

    fn rate(self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.bytes / self.seconds.max(1e-3))
    }
}

/// The device of a piece's first file.
fn device(plan: &Plan, piece: &PlannedPiece) -> Option<u64> {
    let file = piece.input.first_file()?;
    Some(plan.tables[piece.table].files[file].device)
}
