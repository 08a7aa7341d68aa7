//! The loads of an experiment in their order, until enough is known.

use std::path::Path;

use fullbore_load::job::Job;
use fullbore_read::error::{Error, Result};
use fullbore_sweep::{
    Cell, Design, Found, FoundStep, Interval, Journal, Knee, Stepwise, change, knee, order, pairs,
    rows,
};

use super::measure::Bench;
use super::{cell_of, of_journal};
use crate::words::{bytes, seconds};

/// Blocks before which no interval is trusted to be narrow.
const BLOCKS_MIN: usize = 4;

/// How often a load that was disturbed is repeated.
const REPEATED_MAX: usize = 2;

/// Loads of a cell after which it can be said what is usual with it.
const USUAL_FROM: usize = 3;

/// Blocks of one step have numbers of their own.
const BLOCKS_OF_A_STEP: usize = 10_000;

pub struct Experiment<'a> {
    pub job: &'a Job,
    pub design: &'a Design,
    pub repeat: usize,
    pub precision: f64,
    pub journal: Journal,
    pub journal_path: &'a Path,
    pub bench: Bench,
}

impl Experiment<'_> {
    /// Every cell in every block.
    pub fn factorial(&mut self) -> Result<Found> {
        let cells = self.design.cells();
        self.blocks(&cells, 0)?;
        Ok(self.found(&cells, Vec::new()))
    }

    /// One factor after the other.
    pub fn stepwise(&mut self) -> Result<Found> {
        let design = self.design;
        let stepwise = Stepwise { design };
        let mut in_force = design.baseline.clone();
        let (mut steps, mut all) = (Vec::new(), Vec::new());
        for (number, factor) in design.factors.iter().enumerate() {
            let cells = stepwise.cells(number, &in_force);
            self.blocks(&cells, number * BLOCKS_OF_A_STEP)?;
            let measured = &self.journal.measured;
            let of_step: Vec<_> =
                measured.iter().filter(|m| m.block / BLOCKS_OF_A_STEP == number).cloned().collect();
            let step = stepwise.step(number, &in_force, &of_step);
            let step =
                step.ok_or_else(|| Error::usage("a step has no block that was not disturbed"))?;
            let words = match step.kept == in_force {
                true => "not kept".to_owned(),
                false => format!("kept: {}", factor.levels[step.kept.0[number]]),
            };
            tell!("{}: {words}", factor.name);
            in_force = step.kept.clone();
            for cell in cells {
                if !all.contains(&cell) {
                    all.push(cell);
                }
            }
            steps.push(FoundStep::of(design, number, &step));
        }
        Ok(self.found(&all, steps))
    }

    /// Measures cells until they are known well enough.
    fn blocks(&mut self, cells: &[Cell], first: usize) -> Result<()> {
        for number in 0..self.repeat {
            let block = first + number;
            for cell in order(cells, self.design.seed, block) {
                self.measure(block, &cell)?;
            }
            if number + 1 >= BLOCKS_MIN && self.is_precise(cells, first) {
                tell!(
                    "all intervals are within {:.1}%: stopped after {} blocks",
                    self.precision * 100.0,
                    number + 1
                );
                break;
            }
        }
        Ok(())
    }

    fn measure(&mut self, block: usize, cell: &Cell) -> Result<()> {
        if self.journal.has(block, cell) {
            return Ok(());
        }
        let (job, settings) = cell_of(self.job, self.design, cell)?;
        // What is always so is no disturbance.
        let its: Vec<_> = self.journal.measured.iter().filter(|m| m.cell == *cell).collect();
        let disturbed = its.iter().filter(|m| m.disturbed.is_some()).count();
        let is_usual = its.len() >= USUAL_FROM && disturbed * 2 > its.len();
        let repeats = if is_usual { 0 } else { REPEATED_MAX };
        for repeated in 0..=repeats {
            let mut measured = self.bench.measure(&job, &settings, block, cell)?;
            let words = self.design.words(cell);
            let rate = bytes((measured.bytes as f64 / measured.seconds.max(1e-9)) as u64);
            let disturbed = measured.disturbed.clone();
            let is_last = repeated == repeats;
            let remark = match (&disturbed, is_last) {
                (None, _) => String::new(),
                (Some(why), false) => format!("; repeated: {why}"),
                (Some(why), true) => format!("; counted although {why}"),
            };
            let number = block % BLOCKS_OF_A_STEP + 1;
            tell!("block {number}: {words}: {} ({rate}/s){remark}", seconds(measured.seconds));
            if is_last {
                measured.disturbed = None;
            }
            self.journal.add(measured).map_err(|error| of_journal(self.journal_path, error))?;
            if disturbed.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn is_precise(&self, cells: &[Cell], first: usize) -> bool {
        let of_step: Vec<_> =
            self.journal.measured.iter().filter(|m| m.block >= first).cloned().collect();
        let is_narrow = |cell: &Cell| {
            let pairs = pairs(&of_step, &self.design.baseline, cell);
            let width = change(&pairs, self.design.seed).as_ref().and_then(Interval::half_width);
            width.is_some_and(|width| width <= self.precision)
        };
        cells.iter().filter(|cell| **cell != self.design.baseline).all(is_narrow)
    }

    fn found(&self, cells: &[Cell], steps: Vec<FoundStep>) -> Found {
        let design = self.design;
        let rows = rows(design, cells, &self.journal.measured);
        let knee = match (&design.factors[..], steps.is_empty()) {
            ([factor], true) if factor.is_ascending() => Some(self.knee(cells)),
            _ => None,
        };
        Found::of(design, rows, steps, knee, &self.journal.measured)
    }

    fn knee(&self, cells: &[Cell]) -> Knee {
        let measured = &self.journal.measured;
        let seconds = |block: usize, cell: &Cell| {
            let is_it = |m: &&fullbore_sweep::Measured| {
                m.block == block && m.cell == *cell && m.disturbed.is_none()
            };
            measured.iter().find(is_it).map(|m| m.seconds)
        };
        let blocks: Vec<Vec<f64>> = (0..self.repeat)
            .filter_map(|block| cells.iter().map(|cell| seconds(block, cell)).collect())
            .collect();
        knee(&blocks, self.design.seed)
    }
}
