//! Takes back a run that stopped, with nothing but what the ledger knows of it.

use fullbore_core::constants::LOCK_TIMEOUT_DEFAULT_MS;
use fullbore_core::error::Result;
use fullbore_core::job::Publish;
use fullbore_core::run_id::RunId;

use super::locks;
use super::roles::acting_as;
use super::runs::{self, LedgerRun, State};
use crate::connection::{QualifiedName, Session};
use crate::destination::Postgres;
use crate::error::{failed, refuse};
use crate::publish::made::drop_if_empty;

/// What became of a run that was taken back.
#[derive(Debug, Default)]
pub struct TakenBack {
    /// Tables that can't be dropped, and why.
    pub left_behind: Vec<String>,
    /// Rows that stay, since nothing tells them from others.
    pub rows_kept: u64,
}

impl Postgres {
    /// Takes a run back: its tables, and what the ledger knows of it.
    pub fn take_back(&self, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
        acting_as(&mut self.control(), run, |session| take_back(session, schema, run))
    }

    /// Whether somebody works on a job.
    pub fn is_job_locked(&self, job: &str) -> Result<bool> {
        locks::is_locked(&mut self.control(), job).map_err(failed)
    }
}

/// Takes a run back by a session that the caller has.
pub(super) fn take_back(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
    locks::lock_job(session, &run.job)?;
    begin(session, schema, run)?;
    let targets: Vec<_> = run.tables.iter().map(|table| &table.target).collect();
    let left_behind = drop_all(session, &run.run_id, &targets)?;
    let mut taken = TakenBack { left_behind, rows_kept: 0 };
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

/// From here on nobody loads or publishes the run; refused where its rows are shown.
pub(super) fn begin(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<()> {
    let state = runs::begin_abort(session, schema, &run.run_id, None)?;
    match state {
        Some(state @ (State::Published | State::Finished | State::Undone)) => Err(refuse(
            format!("run {} is {}: its rows are shown", run.run_id, state.name()),
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
    let mut left = Vec::new();
    for name in runs::leftovers(session, id, targets)? {
        // Whoever reads it is not waited for for ever: what stays is named, and can be dropped later.
        let drop = format!(
            "BEGIN; SET LOCAL lock_timeout = {LOCK_TIMEOUT_DEFAULT_MS}; DROP TABLE {name}; COMMIT"
        );
        if let Err(error) = session.execute(&drop) {
            session.execute("ROLLBACK").map_err(failed)?;
            left.push(format!("{name} can't be dropped: {error}"));
        }
    }
    Ok(left)
}

/// Rows that plain append had committed.
fn rows_kept(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<u64> {
    let committed = super::pieces::committed(session, schema, &run.run_id)?;
    let is_piecewise = |table: usize| {
        run.tables.get(table).is_some_and(|t| t.publish == Publish::Append && !t.atomic)
    };
    Ok(committed.iter().filter(|piece| is_piecewise(piece.table)).map(|piece| piece.rows).sum())
}
