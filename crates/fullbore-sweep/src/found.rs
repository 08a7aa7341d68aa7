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
    pub rows: Vec<Row>,
    /// Of changes upon each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FoundStep>,
    /// Of one factor whose values are ascending numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee: Option<FoundKnee>,
    /// Loads that were measured, those that were repeated included.
    pub measured: Vec<Measured>,
}

/// What came of one change among others.
#[derive(Debug, Clone, Serialize)]
pub struct FoundStep {
    pub factor: String,
    /// The value that was tried with most success.
    pub tried: String,
    pub is_kept: bool,
    pub alone: Interval,
    /// Of all that is kept, against the baseline.
    pub so_far: Interval,
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

impl FoundStep {
    pub fn of(design: &Design, factor: usize, step: &Step) -> Self {
        let known = &design.factors[factor];
        Self {
            factor: known.name.clone(),
            tried: known.levels[step.tried.0[factor]].clone(),
            is_kept: step.kept == step.tried,
            alone: step.alone,
            so_far: step.so_far,
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
        Self {
            factors: design.factors.clone(),
            baseline: design.words(&design.baseline),
            rows,
            steps,
            knee,
            measured: measured.to_vec(),
        }
    }
}
