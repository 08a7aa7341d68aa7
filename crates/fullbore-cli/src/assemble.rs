//! Plans with what this machine and the ledger keep.

use std::path::PathBuf;

use fullbore_load::job::Job;
use fullbore_load::plan::TablePlan;
use fullbore_load::plan::assemble::{self, Assembled, Earlier, Folders};
use fullbore_postgres::ledger::runs::{LedgerRun, State};
use fullbore_postgres::{Postgres, Target};
use fullbore_read::error::Result;

use crate::state::runs_dir;

/// The plan of a job, of a new run or of one that goes on.
pub fn assemble(
    job: &Job,
    postgres: Option<&Postgres>,
    reject_dir: PathBuf,
    earlier: Option<&LedgerRun>,
) -> Result<Assembled<Target>> {
    let check = |number: usize, table: &TablePlan, target: Option<&Target>| match earlier {
        Some(earlier) => check_resumed(earlier, number, table, target),
        None => Ok(()),
    };
    let earlier = earlier.map(|run| Earlier {
        recorded: run.recorded(),
        atomic: run.tables.iter().map(|table| table.atomic).collect(),
        check: &check,
    });
    let folders = Folders { runs: runs_dir()?, rejects: reject_dir };
    assemble::assemble(job, postgres, folders, earlier)
}

/// Refuses to go on where a table, planned anew, does not come out as it was.
fn check_resumed(
    earlier: &LedgerRun,
    number: usize,
    table: &TablePlan,
    target: Option<&Target>,
) -> Result<()> {
    let recorded = earlier.recorded();
    // Once its rows are shown the target may be a new table.
    let target = target.filter(|_| earlier.state != State::Published);
    let then = earlier.tables.get(number);
    let change = then.zip(target).and_then(|(then, target)| then.target_change(target));
    match change {
        Some(change) => Err(recorded.refusal(&format!("the target changed: {change}"))),
        None => recorded.check(number, table),
    }
}
