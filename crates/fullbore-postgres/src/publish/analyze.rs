//! Statistics of what was loaded: of new tables before they replace the old ones, of all others once their
//! rows are published.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::Event;
use fullbore_record::terms::Publish;

use super::indexes::Job;
use super::partitions;
use crate::catalog;
use crate::error::failed;
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// The first version that can gather a partitioned table's own statistics without its partitions'.
const ANALYZES_ONLY: u32 = 180_000;

fn job(what: &str, name: &QualifiedName, may_be_gone: bool) -> Job {
    Job {
        what: format!("gathering statistics of {name}"),
        statements: vec![format!("{what} {name}")],
        locks_others: false,
        may_be_gone,
    }
}

/// Statistics of new tables before they replace the old ones, which had some: no query is planned without.
pub fn early_jobs(postgres: &Postgres, plan: &Plan) -> Result<Vec<Job>> {
    let replaced = postgres.targets().iter().filter(|target| target.publish == Publish::Replace);
    replaced.map(|target| Ok(job("ANALYZE", &target.staging(plan)?, false))).collect()
}

/// Whether a table has what its statistics were gathered without before it replaced the old one.
const IS_TUNED: &str = "
    SELECT EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = {oid})
        OR EXISTS (SELECT FROM pg_attribute
                    WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped
                      AND (attstattarget >= 0 OR EXISTS (
                              SELECT FROM pg_options_to_table(attoptions)
                               WHERE option_name IN {options})))
        OR EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid
                    WHERE i.indrelid = {oid} AND a.attstattarget >= 0) AS is_tuned";

fn is_tuned(session: &mut Session, name: &QualifiedName) -> Result<bool> {
    let Some(table) = catalog::relation(session, name).map_err(failed)? else { return Ok(false) };
    let sql = IS_TUNED
        .replace("{options}", catalog::COLUMN_OPTIONS)
        .replace("{oid}", &table.oid.to_string());
    let rows = session.query(&sql).map_err(failed)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_tuned")))
}

/// Statistics of what was loaded, the partitions of a table side by side.
pub fn jobs(postgres: &Postgres, plan: &Plan) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        match jobs_of(postgres, plan, table, target) {
            // Its rows are shown: whoever drops it now is not in the way of the others.
            Err(error) if !error.is_lost() => {
                let notice = format!("no statistics of {} were gathered: {error}", target.name());
                postgres.report(Event::Notice { notice });
            }
            found => jobs.extend(found?),
        }
    }
    Ok(jobs)
}

fn jobs_of(
    postgres: &Postgres,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<Vec<Job>> {
    let session = &mut postgres.control();
    let name = target.name();
    if target.publish == Publish::Replace && !is_tuned(session, name)? {
        return Ok(Vec::new());
    }
    if target.publish != Publish::Partitions || postgres.version() < ANALYZES_ONLY {
        return Ok(vec![job("ANALYZE", name, true)]);
    }
    let shown = partitions::shown(session, plan, table, target)?;
    let jobs = shown.iter().map(|name| job("ANALYZE", name, true));
    Ok(jobs.chain([job("ANALYZE ONLY", name, true)]).collect())
}
