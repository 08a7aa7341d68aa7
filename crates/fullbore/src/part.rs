//! A load shared by several hosts: this host's part.

use fullbore_load::job::Job;
use fullbore_load::plan::Part;
use fullbore_postgres::ledger::runs::LedgerRun;
use fullbore_postgres::{PostgresTable, Server};
use fullbore_read::error::{Error, Result};

use crate::ledger_state::LedgerState;

/// The part that this run is: the one that it was, or one that joins its load.
pub fn part_of(
    job: &Job,
    server: Option<&Server>,
    state: &LedgerState,
    earlier: Option<&LedgerRun>,
    targets: &[PostgresTable],
) -> Result<Option<Part>> {
    let (Some(spec), Some(server)) = (job.part, server) else { return Ok(None) };
    let schema = &state.schema;
    let Some(earlier) = earlier else {
        let names: Vec<String> = targets.iter().map(|target| target.name().to_string()).collect();
        let identity = identity(job, &names);
        return server.join_parts(schema, &identity, spec, &names).map(Some);
    };
    let known = server.part_of(schema, &earlier.run_id)?.ok_or_else(|| {
        Error::usage_with_hint(
            format!("the ledger does not record which load run {} is a part of", earlier.run_id),
            "the ledger was changed outside Fullbore; roll the run back with `fullbore runs abort`",
        )
    })?;
    Ok(Some(Part { spec, whole: known.whole.into(), identity: known.identity }))
}

/// What all parts of a load have in common. Which tables the names stand for is the server's word: that of
/// the search path.
pub fn identity(job: &Job, targets: &[String]) -> String {
    format!("{} into {}", job.shared_identity(), targets.join(", "))
}

/// Refuses a part of another load than the one that its driver has begun: that has ended meanwhile.
pub fn check_whole(part: Option<&Part>, driven: Option<&str>) -> Result<()> {
    match (part, driven) {
        (Some(part), Some(driven)) if *part.whole != *driven => Err(Error::usage_with_hint(
            format!("load {driven}, which this part belongs to, has ended or was rolled back"),
            "`fullbore runs list` with the same --to shows its state",
        )),
        _ => Ok(()),
    }
}
