//! Runs that load the same files at the same time.
//!
//! A plan refuses files that another run has loaded into the same table, or is loading. Between its look
//! into the ledger and its own row there, others may begin: the same job spelled otherwise, or the process that ended
//! the session that held the job's lock. So each run looks once more when its row is there and its job is locked,
//! whether it begins or is resumed: of two that do so at once at least one sees the other.

use fullbore_load::plan::Plan;
use fullbore_load::plan::recorded::RecordedFile;
use fullbore_pgwire::Session;
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::runs::{self, LedgerRun, LedgerTable, State, Which};
use super::{Ledger, locks};
use crate::error::{failed, refuse};
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// Refuses to load files that another run loads into the same table: one that was begun meanwhile, or is at work.
pub fn check(
    session: &mut Session,
    postgres: &Postgres,
    ledger: &Ledger,
    plan: &Plan,
) -> Result<()> {
    let Some(first) = postgres.first.get().filter(|_| !postgres.settings.loads_again) else {
        return Ok(());
    };
    // A table that is replaced has been looked at once more already.
    let is_replaced = |target: &PostgresTable| target.publish == Publish::Replace;
    if postgres.targets().iter().all(is_replaced) {
        return Ok(());
    }
    // In this order: what begins between the two is among those begun since, and told so.
    let unfinished = runs::find(session, &ledger.schema, &Which::Unfinished)?;
    let which = Which::Since { started_us: first.started_us, except: &ledger.run_id };
    let since = runs::find(session, &ledger.schema, &which)?;
    for run in &since {
        check_one(postgres, plan, run, "was begun meanwhile and also loads", |_, _| true)?;
    }
    // Partitions of the same files may be those of other rows.
    let joins = |target: &PostgresTable, then: &LedgerTable| {
        target.publish.joins_rows() && then.publish.joins_rows()
    };
    for run in unfinished {
        let is_known = since.iter().any(|other| other.run_id == run.run_id);
        let is_other = run.job != ledger.job && !is_known;
        if is_other && locks::is_locked(session, &run.job).map_err(failed)? {
            check_one(postgres, plan, &run, "is loading", joins)?;
        }
    }
    Ok(())
}

/// Refuses where a run has files of the plan in one of its tables; `counts` says of two tables whether that matters.
fn check_one(
    postgres: &Postgres,
    plan: &Plan,
    run: &LedgerRun,
    does: &str,
    counts: impl Fn(&PostgresTable, &LedgerTable) -> bool,
) -> Result<()> {
    if matches!(run.state, State::Aborting | State::Undone) {
        return Ok(());
    }
    for (target, table) in postgres.targets().iter().zip(&plan.tables) {
        if target.publish == Publish::Replace || target.relation.oid == 0 {
            continue;
        }
        let is_same = |then: &&LedgerTable| then.oid == target.relation.oid && counts(target, then);
        let its = run.tables.iter().filter(is_same);
        let its: Vec<&RecordedFile> = its.flat_map(|then| &then.plan.files).collect();
        let ours = table.files.iter().filter(|file| file.is_regular);
        let shared = ours
            .map(|file| RecordedFile::of(file))
            .find(|file| its.iter().any(|then| then.is_at(file)));
        if let Some(file) = shared {
            let again = match target.publish {
                Publish::Append | Publish::Upsert => {
                    "; --if-loaded again loads the files a second time"
                }
                _ => "",
            };
            return Err(refuse(
                format!("run {} {does} {} into {}", run.run_id, file.path, target.name()),
                format!(
                    "once it has ended, run the command again: it checks again which files are \
                     loaded{again}"
                ),
            ));
        }
    }
    Ok(())
}
