//! What limits a run while it runs.

use fullbore_record::diagnose::{Circumstances, Verdict, verdict};
use fullbore_record::observe::{Latest, Observation};

use crate::plan::Plan;

/// What limited a run from an earlier look of its observer to the last one.
pub fn since(plan: &Plan, earlier: &Observation, latest: &Latest) -> Verdict {
    let about = Circumstances::of(latest.settings.as_ref(), plan.tables.len());
    verdict(&latest.seen.since(earlier), &about)
}
