//! Plans a load with local state and the ledger.

use std::path::PathBuf;

use fullbore_load::job::Job;
use fullbore_load::plan::Draft;
use fullbore_load::plan::assemble::{self, Earlier, Folders};
use fullbore_postgres::ledger::runs::{LedgerRun, State};
use fullbore_postgres::{PostgresTable, Server};
use fullbore_read::error::Result;

use crate::state::runs_dir;

/// The plan of a job, of a new run or of one that goes on.
pub fn assemble(
    job: &Job,
    server: Option<&Server>,
    reject_dir: PathBuf,
    earlier: Option<&LedgerRun>,
) -> Result<Draft<PostgresTable>> {
    // Once its rows are published the target may be a new table.
    let loading = earlier.filter(|run| run.state != State::Published);
    let target_change =
        |number: usize, target: &PostgresTable| loading?.tables.get(number)?.target_change(target);
    let earlier = earlier.map(|run| Earlier {
        recorded: run.recorded(),
        atomic: run.tables.iter().map(|table| table.atomic).collect(),
        target_change: &target_change,
    });
    let folders = Folders { runs: runs_dir()?, rejects: reject_dir };
    assemble::assemble(job, server, folders, earlier)
}
