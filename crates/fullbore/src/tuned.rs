//! The number of streams that `--streams auto` found when a job was loaded last: the next load begins with it.

use fullbore_load::constants::PARSERS_MAX;
use fullbore_load::job::Job;
use fullbore_load::plan::{Plan, Tuning};
use fullbore_load::run::Tuned;
use fullbore_postgres::Server;
use fullbore_read::error::Result;
use serde::{Deserialize, Serialize};

use crate::kept::{self, cores, machine, target_of};
use crate::plan_view;

const KIND: &str = "streams";

/// What a load came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    target: String,
    machine: String,
    cores: usize,
    method: String,
    streams: usize,
    parsers: usize,
    is_settled: bool,
}

impl Known {
    fn of(job: &Job, server: Option<&Server>, plan: &Plan, tuned: Tuned) -> Self {
        Self {
            target: target_of(job, server),
            machine: machine(),
            cores: cores(),
            method: plan_view::method_of(plan).to_owned(),
            streams: tuned.streams,
            parsers: tuned.parsers,
            is_settled: tuned.is_settled,
        }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.target, &self.machine, self.cores, &self.method)
            == (&other.target, &other.machine, other.cores, &other.method)
    }
}

/// Has a load begin with what an earlier one of the job settled on, where that is known.
pub fn recall(job: &Job, server: Option<&Server>, plan: &mut Plan) -> Result<()> {
    let Some(tuning) = plan.tuning else { return Ok(()) };
    let none = Tuned { streams: tuning.first, parsers: tuning.first_parsers, is_settled: false };
    let wanted = Known::of(job, server, plan, none);
    let known: Vec<Known> = kept::all(KIND, &job.identity()?)?;
    if let Some(known) = known.iter().find(|known| known.is_of(&wanted)) {
        plan.tuning = Some(Tuning {
            first: known.streams.clamp(1, tuning.most),
            first_parsers: match tuning.parsers {
                true => known.parsers.clamp(1, PARSERS_MAX),
                false => tuning.first_parsers,
            },
            is_known: known.is_settled && known.streams <= tuning.most,
            ..tuning
        });
    }
    Ok(())
}

/// Keeps what a load settled on. That it can't be kept is no reason for a load to fail.
pub fn keep(job: &Job, server: Option<&Server>, plan: &Plan, tuned: Option<Tuned>) {
    let Some(tuned) = tuned else { return };
    let entry = Known::of(job, server, plan, tuned);
    let is_same = {
        let entry = entry.clone();
        move |known: &Known| known.is_of(&entry)
    };
    let kept = job.identity().and_then(|job| kept::keep(KIND, &job, entry, is_same));
    if let Err(error) = kept {
        tracing::info!(%error, "the number of streams is not kept");
    }
}
