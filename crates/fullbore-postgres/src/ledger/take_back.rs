//! Rolls back a stopped run, using only the ledger.

use fullbore_load::run_id::RunId;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;

use super::delete_rows;
use super::roles::acting_as;
use super::runs::{self, LedgerRun, State};
use super::state::LedgerTable;
use super::{locks, merges, parts, pieces};
use crate::catalog;
use crate::error::{failed, refuse};
use crate::naming::{is_derived, maker};
use crate::publish::made::{drop_if_empty, drop_tables};
use crate::server::Server;
use crate::target::PostgresTable;

/// What became of a run that was rolled back.
#[derive(Debug, Default)]
pub struct TakenBack {
    /// Tables that can't be dropped, and why.
    pub left_behind: Vec<String>,
    /// Rows that stay.
    pub rows_kept: u64,
}

impl Server {
    /// Takes a run back: its tables, and what the ledger knows of it.
    pub fn take_back(&self, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
        acting_as(&mut self.control(), run, |session| take_back(session, schema, run))
    }

    /// Takes back a run of our own that ended before its first row, unless a load is at work on it.
    pub fn clear_unbegun(&self, schema: &str, run: &LedgerRun) -> Result<()> {
        if self.check_own(run).is_err() {
            return Ok(());
        }
        let mut session = self.control();
        if !locks::try_lock_job(&mut session, &run.job)? {
            return Ok(());
        }
        let cleared = (|| {
            // It may have gone on before we had its lock.
            let now = runs::find(&mut session, schema, &runs::Which::Run(&run.run_id))?;
            let Some(run) = now.first().filter(|now| now.state == State::Preparing) else {
                return Ok(());
            };
            acting_as(&mut session, run, |session| take_back_locked(session, schema, run)).map(drop)
        })();
        // Another job may begin while ours is loaded.
        locks::unlock_job(&mut session, &run.job);
        cleared
    }

    /// Deletes the rows of a run that stopped from the tables they were appended to, exactly, or refuses;
    /// how many. The run stays, with nothing of it loaded.
    pub fn delete_appended(&self, schema: &str, run: &LedgerRun) -> Result<u64> {
        acting_as(&mut self.control(), run, |session| delete_appended(session, schema, run))
    }

    /// Tables next to the targets that were made by a run which no ledger knows: one that could not be
    /// resumed was killed, or is still at work.
    pub fn left_by_unknown(
        &self,
        schema: &str,
        targets: &[PostgresTable],
    ) -> Result<Vec<QualifiedName>> {
        let mut session = self.control();
        let has_parts = runs::is_there(&mut session, schema, "parts").map_err(failed)?;
        let mut left = Vec::new();
        for name in catalog::tables_with(&mut session, "_fb_").map_err(failed)? {
            let Some(id) = maker(&name) else { continue };
            let mut is_its = false;
            for target in targets {
                is_its |= is_derived(&name, target.name(), &id).map_err(failed)?;
            }
            let is_known = is_its
                && (!runs::find(&mut session, schema, &runs::Which::Run(&id))?.is_empty()
                    || has_parts && !parts::of_whole(&mut session, schema, &id)?.is_empty());
            if is_its && !is_known {
                left.push(name);
            }
        }
        Ok(left)
    }

    /// Whether somebody works on a job.
    pub fn is_job_locked(&self, job: &str) -> Result<bool> {
        locks::is_locked(&mut self.control(), job).map_err(failed)
    }
}

/// Takes a run back by a session that the caller has.
pub(crate) fn take_back(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
    locks::lock_job(session, &run.job)?;
    take_back_locked(session, schema, run)
}

fn take_back_locked(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
    begin(session, schema, run)?;
    let targets: Vec<_> = run.tables.iter().map(|table| &table.target).collect();
    let left_behind = drop_all(session, &run.run_id, &targets)?;
    let mut taken = TakenBack { left_behind, ..TakenBack::default() };
    for table in &run.tables {
        if table.creates {
            drop_if_empty(session, &table.target, table.oid)?;
        }
    }
    if taken.left_behind.is_empty() {
        taken.rows_kept = rows_kept(session, schema, run)?;
        runs::remove(session, schema, &run.run_id)?;
    }
    Ok(taken)
}

fn delete_appended(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<u64> {
    locks::lock_job(session, &run.job)?;
    // Of earlier attempts nothing comes any more.
    runs::fence(session, schema, &run.run_id)?;
    session.execute("BEGIN").map_err(failed)?;
    let deleted = (|| {
        let mut deleted = 0;
        for (number, table) in run.tables.iter().enumerate() {
            if table.is_piecewise() {
                deleted += delete_rows::delete(session, schema, run, number)?;
                pieces::forget(session, schema, &run.run_id, number)?;
            }
        }
        session.execute("COMMIT").map_err(failed)?;
        Ok(deleted)
    })();
    if deleted.is_err() {
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
    }
    deleted
}

/// From here on nobody loads or publishes the run; refused where its rows are shown.
pub(super) fn begin(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<()> {
    let state = runs::begin_abort(session, schema, &run.run_id, None)?;
    match state {
        Some(state @ (State::Published | State::Finished | State::Undone)) => Err(refuse(
            format!("run {} is {}: its rows are published", run.run_id, state.name()),
            "there is nothing to abort",
        )),
        _ => Ok(()),
    }
}

/// Drops the tables that a run, or a whole of runs, made beside its targets; those that stay, and why.
pub(super) fn drop_all(
    session: &mut Session,
    id: &RunId,
    targets: &[&QualifiedName],
) -> Result<Vec<String>> {
    let names = runs::leftovers(session, id, targets)?;
    let left = drop_tables(session, names).into_iter();
    Ok(left.map(|(name, error)| format!("{name} can't be dropped: {error}")).collect())
}

/// Rows that plain append had committed, and those that an upsert had merged.
fn rows_kept(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<u64> {
    let committed = super::pieces::committed(session, schema, &run.run_id)?;
    let is_piecewise = |table: usize| run.tables.get(table).is_some_and(LedgerTable::is_piecewise);
    let appended: u64 =
        committed.iter().filter(|piece| is_piecewise(piece.table)).map(|piece| piece.rows).sum();
    Ok(appended + merges::done(session, schema, &run.run_id)?)
}
