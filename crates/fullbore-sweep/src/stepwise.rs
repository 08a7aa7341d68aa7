//! One change after the other, each upon those that were kept, as the fifth field report did it.

use crate::design::{Cell, Design};
use crate::interval::{Interval, change};
use crate::journal::Measured;

/// A change, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What is in force after it.
    pub kept: Cell,
    /// The level that was tried with most success.
    pub tried: Cell,
    /// Its time, compared with what was in force before.
    pub alone: Interval,
    /// The time of what is in force after it, compared with the baseline.
    pub so_far: Interval,
}

/// Experiments that follow from each other.
#[derive(Debug)]
pub struct Stepwise<'a> {
    pub design: &'a Design,
}

impl Stepwise<'_> {
    /// What the step of a factor measures: the baseline, what is in force, and that with each other level.
    pub fn cells(&self, factor: usize, in_force: &Cell) -> Vec<Cell> {
        let mut cells = vec![self.design.baseline.clone(), in_force.clone()];
        // The baseline is in force at first.
        cells.dedup();
        cells.extend(self.others(factor, in_force).filter(|cell| *cell != self.design.baseline));
        cells
    }

    /// What is in force, with each other level of a factor.
    fn others<'a>(&self, factor: usize, in_force: &'a Cell) -> impl Iterator<Item = Cell> + 'a {
        let levels = 0..self.design.factors[factor].levels.len();
        levels.filter(move |level| *level != in_force.0[factor]).map(move |level| {
            let mut cell = in_force.clone();
            cell.0[factor] = level;
            cell
        })
    }

    /// Which level of a factor is kept: the fastest, where it is surely faster than what was in force. None
    /// without a block that has them all.
    pub fn step(&self, factor: usize, in_force: &Cell, measured: &[Measured]) -> Option<Step> {
        let of = |from: &Cell, to: &Cell| change(&pairs(measured, from, to), self.design.seed);
        let compared = self.others(factor, in_force).filter_map(|cell| {
            let alone = of(in_force, &cell)?;
            Some((cell, alone))
        });
        let tried = compared.min_by(|(_, a), (_, b)| a.change.total_cmp(&b.change));
        let (tried, alone) = tried?;
        let is_better = alone.change < 0.0 && alone.differs();
        let kept = if is_better { tried.clone() } else { in_force.clone() };
        let so_far = of(&self.design.baseline, &kept)?;
        Some(Step { kept, tried, alone, so_far })
    }
}

/// The seconds of two cells in each block that has both.
pub fn pairs(measured: &[Measured], from: &Cell, to: &Cell) -> Vec<(f64, f64)> {
    let undisturbed = |cell: &Cell| {
        let cell = cell.clone();
        measured.iter().filter(move |m| m.cell == cell && m.disturbed.is_none())
    };
    let pair = |one: &Measured| {
        let other = undisturbed(to).find(|other| other.block == one.block)?;
        Some((one.seconds, other.seconds))
    };
    undisturbed(from).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures five blocks of cells whose levels change the time by these factors.
    fn measure(cells: &[Cell], of: &[[f64; 2]], block: &mut usize, measured: &mut Vec<Measured>) {
        for _ in 0..5 {
            for (n, cell) in cells.iter().enumerate() {
                let factor: f64 = cell.0.iter().zip(of).map(|(level, of)| of[*level]).product();
                // A block's own speed, and a little of each measurement's.
                let noise = 1.0 + 0.0005 * ((*block * 7 + n * 3) % 5) as f64;
                let seconds = 20.0 * (1.0 + *block as f64 / 50.0) * factor * noise;
                measured.push(Measured {
                    block: *block,
                    cell: cell.clone(),
                    seconds,
                    bytes: 1,
                    steady: None,
                    ramp_s: None,
                    verdict: None,
                    disturbed: None,
                    run: String::new(),
                });
            }
            *block += 1;
        }
    }

    #[test]
    fn steps_add_up() {
        // As the fifth report: 8.4% off, 1.6% more, nothing, and something that is worse.
        let of = [[1.0, 0.916], [1.0, 0.983], [1.0, 1.0], [1.0, 1.2]];
        let factors = ["a=0,1", "b=0,1", "c=0,1", "d=0,1"].map(|f| f.parse().expect("a factor"));
        let design = Design::new(factors.to_vec(), &[], 3).expect("a design");
        let stepwise = Stepwise { design: &design };
        let (mut in_force, mut block, mut measured) = (design.baseline.clone(), 0, Vec::new());
        let (mut log, mut steps) = (0.0, Vec::new());
        for factor in 0..4 {
            measure(&stepwise.cells(factor, &in_force), &of, &mut block, &mut measured);
            let step = stepwise.step(factor, &in_force, &measured).expect("measured");
            if step.kept != in_force {
                log += (1.0 + step.alone.change).ln();
            }
            let so_far = (1.0 + step.so_far.change).ln();
            assert!((so_far - log).abs() < 0.002, "{factor}: {so_far} {log}");
            in_force = step.kept.clone();
            steps.push(step);
        }
        assert_eq!(in_force, Cell(vec![1, 1, 0, 0]));
        assert!((steps[3].so_far.change - (0.916 * 0.983 - 1.0)).abs() < 0.002, "{steps:?}");
        assert!((steps[3].alone.change - 0.2).abs() < 0.002, "{steps:?}");
    }
}
