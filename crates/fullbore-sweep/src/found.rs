//! The outcome of an experiment, as it is reported and kept.

use serde::Serialize;

use crate::design::{Design, Factor};
use crate::interval::Interval;
use crate::journal::Measured;
use crate::knee::Knee;
use crate::stepwise::Step;
use crate::table::Row;

/// The outcome of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub factors: Vec<Factor>,
    /// The baseline in words: `streams=1`.
    pub baseline: String,
    pub rows: Vec<FoundRow>,
    /// Of changes upon each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FoundStep>,
    /// Of one factor whose values are ascending numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee: Option<FoundKnee>,
    /// Loads that were measured, those that were repeated included.
    pub measured: Vec<Measured>,
}

/// What came of a cell.
#[derive(Debug, Clone, Serialize)]
pub struct FoundRow {
    pub cell: String,
    /// The number of each factor's level.
    pub levels: Vec<usize>,
    pub is_baseline: bool,
    pub count: usize,
    /// Medians. Bytes a second.
    pub seconds: f64,
    pub rate: f64,
    pub steady: Option<f64>,
    pub ramp_s: Option<f64>,
    pub change: Option<FoundChange>,
    pub verdict: Option<String>,
}

/// A change of time: 0.1 is 10% more.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FoundChange {
    pub change: f64,
    /// The 95% interval; null with fewer than four pairs.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub pairs: usize,
}

/// What came of one change among others.
#[derive(Debug, Clone, Serialize)]
pub struct FoundStep {
    pub factor: String,
    /// The value that was tried with most success.
    pub tried: String,
    pub is_kept: bool,
    pub alone: FoundChange,
    /// Of all that is kept, against the baseline.
    pub so_far: FoundChange,
}

/// The smallest level that is as good as the best.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundKnee {
    At(String),
    /// The first one is.
    Flat,
    Unclear,
}

impl From<Interval> for FoundChange {
    fn from(interval: Interval) -> Self {
        let (low, high) = interval.within.unzip();
        Self { change: interval.change, low, high, pairs: interval.pairs }
    }
}

impl FoundStep {
    pub fn of(design: &Design, factor: usize, step: &Step) -> Self {
        let known = &design.factors[factor];
        Self {
            factor: known.name.clone(),
            tried: known.levels[step.tried.0[factor]].clone(),
            is_kept: step.kept == step.tried,
            alone: step.alone.into(),
            so_far: step.so_far.into(),
        }
    }
}

impl Found {
    pub fn of(
        design: &Design,
        rows: Vec<Row>,
        steps: Vec<FoundStep>,
        knee: Option<Knee>,
        measured: &[Measured],
    ) -> Self {
        let knee = knee.map(|knee| match knee {
            Knee::At(level) => FoundKnee::At(design.factors[0].levels[level].clone()),
            Knee::Flat => FoundKnee::Flat,
            Knee::Unclear => FoundKnee::Unclear,
        });
        let row = |row: Row| FoundRow {
            cell: design.words(&row.cell),
            is_baseline: row.cell == design.baseline,
            levels: row.cell.0,
            count: row.count,
            seconds: row.seconds,
            rate: row.rate,
            steady: row.steady,
            ramp_s: row.ramp_s,
            change: row.change.map(FoundChange::from),
            verdict: row.verdict,
        };
        Self {
            factors: design.factors.clone(),
            baseline: design.words(&design.baseline),
            rows: rows.into_iter().map(row).collect(),
            steps,
            knee,
            measured: measured.to_vec(),
        }
    }
}
