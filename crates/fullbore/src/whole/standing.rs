//! Where a load in parts stands before its driver begins.

use std::collections::BTreeMap;

use fullbore_load::job::{Job, PartSpec};
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_read::error::{Error, Result};
use serde::Serialize;

use crate::destinations::Destinations;
use crate::ledger_state::LedgerState;
use crate::part::identity;

/// Where a load stands.
#[derive(Debug, Serialize)]
pub struct Standing {
    /// Id of the load that is under way, or of the next.
    pub whole: String,
    /// Parts of it that have begun.
    pub begun: usize,
    /// The last load of the same that has finished.
    pub finished: Option<Finished>,
}

/// A load that has finished.
#[derive(Debug, Serialize)]
pub struct Finished {
    pub whole: String,
    pub parts: u32,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub pieces: u64,
    /// The files of each part, with their sizes.
    pub files: BTreeMap<u32, Vec<(String, u64)>>,
}

/// Asks the ledger where a load of so many parts stands. Refuses one that is under way where it is not to be
/// resumed, and what can't be loaded in parts.
pub fn standing(job: &Job, of: u32, resume: bool) -> Result<Standing> {
    let spec = PartSpec { number: 1, of };
    let job = Job { part: Some(spec), ..job.clone() };
    crate::check::check(&job)?;
    let to = Destinations::open(&job, &|_| ())?;
    let state = LedgerState::ask(&job, to.server(), resume)?;
    let Some(server) = to.server() else {
        return Err(Error::usage_with_hint(
            "only a PostgreSQL server can be loaded by several hosts",
            "set one with --to URL",
        ));
    };
    let mut targets = Vec::new();
    for table in &job.tables {
        let name = table.name.as_deref().unwrap_or_default();
        let Some(named) = server.named(name)? else {
            return Err(Error::usage_with_hint(
                format!("table {name} does not exist"),
                "create it first; `fullbore plan` with --create and some of the files prints the statement",
            ));
        };
        targets.push(named.name.to_string());
    }
    let identity = identity(&job, &targets);
    let (whole, begun) = server.whole_of(&state.schema, &identity, spec, &targets)?;
    if let Some(part) = begun.first().filter(|_| !resume) {
        return Err(Error::usage_with_hint(
            format!("this load is already under way: {}", part.words()),
            format!(
                "--resume resumes it; `fullbore runs abort {}` rolls back all parts",
                part.run_id
            ),
        ));
    }
    let finished = server.last_finished(&state.schema, &identity)?;
    let finished = finished.first().map(|(first, _)| {
        let runs = || finished.iter().map(|(_, run)| run);
        let files = |run: &LedgerRun| {
            let files = run.tables.iter().flat_map(|table| &table.plan.files);
            files.map(|file| (file.path.clone(), file.size)).collect()
        };
        Finished {
            whole: first.whole.to_string(),
            parts: first.of,
            rows: runs().map(|run| run.rows_committed).sum(),
            rejected: runs().map(|run| run.rejected).sum(),
            bytes: runs().map(|run| run.bytes_committed).sum(),
            pieces: runs().map(|run| run.pieces_committed).sum(),
            files: finished.iter().map(|(part, run)| (part.number, files(run))).collect(),
        }
    });
    Ok(Standing { whole, begun: begun.len(), finished })
}
