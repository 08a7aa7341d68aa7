//! What limits a run while it runs.

use fullbore_record::diagnose::{Circumstances, Verdict, verdict};
use fullbore_record::observe::{Latest, Observation};

use crate::plan::Plan;

/// What limited a run from an earlier look of its observer to the last one.
pub fn since(plan: &Plan, earlier: &Observation, latest: &Latest) -> Verdict {
    let settings = latest.settings.as_ref();
    let about = Circumstances {
        server_is_here: settings.is_some_and(|settings| settings.is_here),
        tables: plan.tables.len(),
    };
    verdict(&latest.seen.since(earlier), &about)
}
