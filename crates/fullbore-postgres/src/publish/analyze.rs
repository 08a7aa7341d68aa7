//! Statistics of what was loaded: of new tables before they replace the old ones, of all others once their
//! rows are published.

use std::sync::Barrier;

use fullbore_load::plan::Plan;
use fullbore_load::sink::Committed;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::Event;
use fullbore_record::terms::Publish;

use super::indexes::{self, Job};
use super::partitions;
use crate::catalog;
use crate::error::failed;
use crate::postgres::Postgres;
use crate::statistics::give::{Gift, clear, give};
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

/// Statistics of new tables before they are shown: of those that replace others, which had some, so that no
/// query is planned without; and of partitions, where they are known.
pub fn early(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<()> {
    let mut gifts = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        match target.publish {
            Publish::Append | Publish::Upsert => {}
            Publish::Partitions => gifts.extend(postgres.gifts_of_pieces(plan, table)?),
            Publish::Replace => {
                let staging = target.staging(plan)?;
                gifts.extend(postgres.gift_of_whole(table, &staging, committed));
            }
        }
    }
    give(postgres, plan, gifts)?;
    let targets = postgres.targets().iter().enumerate();
    let replaced = targets.filter(|(_, target)| target.publish == Publish::Replace);
    let left = replaced.filter(|(table, _)| !postgres.is_given(*table, None));
    let jobs = left.map(|(_, target)| Ok(job("ANALYZE", &target.staging(plan)?, false)));
    indexes::build(postgres, plan, jobs.collect::<Result<_>>()?)
}

/// Targets and options of columns, extended statistics, targets of indexes.
const IS_TUNED: &str = "
    SELECT EXISTS (SELECT FROM pg_statistic_ext WHERE stxrelid = {oid})
        OR EXISTS (SELECT FROM pg_attribute
                    WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped
                      AND (attstattarget >= 0 OR EXISTS (
                              SELECT FROM pg_options_to_table(attoptions)
                               WHERE option_name IN {options})))
        OR EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid
                    WHERE i.indrelid = {oid} AND a.attstattarget >= 0) AS is_tuned";

/// Whether the table has settings or objects of its own that ANALYZE reads.
pub fn is_tuned(session: &mut Session, oid: u32) -> Result<bool> {
    let sql =
        IS_TUNED.replace("{options}", catalog::COLUMN_OPTIONS).replace("{oid}", &oid.to_string());
    let rows = session.query(&sql).map_err(failed)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_tuned")))
}

/// Whether a table has what its statistics were gathered without before it replaced the old one.
fn is_tuned_now(session: &mut Session, name: &QualifiedName) -> Result<bool> {
    match catalog::relation(session, name).map_err(failed)? {
        Some(table) => is_tuned(session, table.oid),
        None => Ok(false),
    }
}

/// What is left to do once rows are shown.
pub fn late(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<()> {
    give(postgres, plan, gifts_of_parents(postgres, plan, committed)?)?;
    for (table, target) in postgres.targets().iter().enumerate() {
        if target.publish == Publish::Partitions && postgres.version() < ANALYZES_ONLY {
            apart(postgres, plan, table, target)?;
        }
    }
    indexes::build(postgres, plan, jobs(postgres, plan)?)
}

/// Before 18 nothing gathers a partitioned table's statistics without its partitions', one after the other. So
/// sessions lock these and analyze them, each its own, while another one is told to skip what is locked: that
/// leaves the parent to it. What has failed is analyzed with the parent later.
fn apart(postgres: &Postgres, plan: &Plan, table: usize, target: &PostgresTable) -> Result<()> {
    let name = target.name();
    let shown = partitions::shown(&mut postgres.control(), plan, table, target)?;
    let mut sessions = Vec::new();
    // One more, which has the parent.
    for _ in 0..(plan.streams + 1).min(shown.len() + 1) {
        match postgres.marked_session_now() {
            Err(error) if error.is_crowded() => break,
            opened => sessions.push(opened?),
        }
    }
    let Some(mut of_parent) = sessions.pop().filter(|_| !sessions.is_empty()) else {
        return Ok(());
    };
    let workers = sessions.len();
    let mut own = vec![Vec::new(); workers];
    shown.iter().enumerate().for_each(|(at, (_, name))| own[at % workers].push(name.to_string()));
    // Locked, and later no longer needed: the parent's session must find them locked all the time.
    let step = Barrier::new(workers + 1);
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter_mut()
            .zip(&own)
            .map(|(session, own)| {
                let step = &step;
                scope.spawn(move || {
                    let names = own.join(", ONLY ");
                    let locked = session.execute(&format!(
                        "BEGIN; LOCK TABLE ONLY {names} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT"
                    ));
                    step.wait();
                    let analyze = format!("ANALYZE {}", own.join(", "));
                    let analyzed = locked.and_then(|_| session.execute(&analyze));
                    step.wait();
                    analyzed.and_then(|_| session.execute("COMMIT")).map(drop)
                })
            })
            .collect();
        step.wait();
        let parent = of_parent.execute(&format!("ANALYZE (SKIP_LOCKED) {name}")).map(drop);
        step.wait();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        joined.fold(parent, Result::and)
    });
    match done {
        Ok(()) => {
            postgres.note_given(table, None);
            Ok(())
        }
        Err(error) if error.server_message().is_none() => Err(failed(error)),
        Err(error) => {
            tracing::debug!(%error, "partitions are analyzed one after the other");
            Ok(())
        }
    }
}

/// Statistics of what was loaded, the partitions of a table side by side; not of those that have some already.
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
    if target.publish == Publish::Replace && !is_tuned_now(session, name)? {
        return Ok(Vec::new());
    }
    if target.publish == Publish::Partitions && postgres.version() < ANALYZES_ONLY {
        let is_done = postgres.is_given(table, None);
        return Ok((!is_done).then(|| job("ANALYZE", name, true)).into_iter().collect());
    }
    if target.publish != Publish::Partitions {
        return Ok(vec![job("ANALYZE", name, true)]);
    }
    let shown = partitions::shown(session, plan, table, target)?;
    let others = shown.iter().filter(|(piece, _)| !postgres.is_given(table, Some(*piece)));
    let jobs = others.map(|(_, name)| job("ANALYZE", name, true));
    let is_given = postgres.is_given(table, None);
    let parent = (!is_given).then(|| job("ANALYZE ONLY", name, true));
    Ok(jobs.chain(parent).collect())
}

/// The statistics of partitioned tables all of whose partitions this run has loaded.
fn gifts_of_parents(
    postgres: &Postgres,
    plan: &Plan,
    committed: &[Committed],
) -> Result<Vec<Gift>> {
    let mut gifts = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        if target.publish != Publish::Partitions || target.statistics.is_none() {
            continue;
        }
        let name = target.name();
        let ours = partitions::shown(&mut postgres.control(), plan, table, target)?.len();
        let rows = postgres
            .control()
            .query(&format!(
                "SELECT count(*) FILTER (WHERE isleaf) AS leaves FROM pg_partition_tree({}::regclass)",
                quote_literal(&name.to_string()).map_err(failed)?
            ))
            .map_err(failed)?;
        if rows.first().and_then(|row| row.number("leaves")) != Some(ours) {
            continue;
        }
        if let Some(gift) = postgres.gift_of_whole(table, name, committed) {
            // What the new ones do not replace would stay.
            clear(&mut postgres.control(), name).map_err(failed)?;
            gifts.push(gift);
        }
    }
    Ok(gifts)
}
