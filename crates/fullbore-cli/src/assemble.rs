//! Plans with what this machine and the ledger keep.

use std::path::PathBuf;

use fullbore_load::job::Job;
use fullbore_load::plan::TablePlan;
use fullbore_load::plan::assemble::{self, Assembled, Earlier, Folders};
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_postgres::{Postgres, Target};
use fullbore_read::error::Result;

use crate::load::check_resumed;
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
