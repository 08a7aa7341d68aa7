//! Runs that were begun while this one was planned.
//!
//! A plan refuses files that another run has loaded into the same table, or is loading. Between its look
//! into the ledger and its own row there, others may begin: the same job spelled otherwise, or the process that ended
//! the session that held the job's lock. So each run looks once more when its row is there: of two that
//! begin at once at least one sees the other.

use fullbore_load::plan::Plan;
use fullbore_load::plan::recorded::RecordedFile;
use fullbore_pgwire::Session;
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::Ledger;
use super::runs::{self, State, Which};
use crate::error::refuse;
use crate::postgres::Postgres;

/// Refuses to load files that a run begun meanwhile loads into the same table.
pub fn check(
    session: &mut Session,
    postgres: &Postgres,
    ledger: &Ledger,
    plan: &Plan,
) -> Result<()> {
    let Some(first) = postgres.first.get().filter(|_| !postgres.settings.loads_again) else {
        return Ok(());
    };
    let which = Which::Since { started_us: first.started_us, except: &ledger.run_id };
    for run in runs::find(session, &ledger.schema, &which)? {
        if matches!(run.state, State::Aborting | State::Undone) {
            continue;
        }
        for (target, table) in postgres.targets().iter().zip(&plan.tables) {
            // A table that is replaced has been looked at once more already.
            if target.publish == Publish::Replace || target.relation.oid == 0 {
                continue;
            }
            let its = run.tables.iter().filter(|then| then.oid == target.relation.oid);
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
                    format!(
                        "run {} was begun meanwhile and also loads {} into {}",
                        run.run_id,
                        file.path,
                        target.name()
                    ),
                    format!("run the command again: it checks again which files are loaded{again}"),
                ));
            }
        }
    }
    Ok(())
}
