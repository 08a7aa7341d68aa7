//! Takes back a run that stopped, with nothing but what the ledger knows of it.

use fullbore_core::error::Result;
use fullbore_core::job::Publish;

use super::locks;
use super::runs::{self, LedgerRun, State};
use crate::connection::Session;
use crate::destination::Postgres;
use crate::error::{failed, refuse};
use crate::publish::made::drop_if_empty;

/// What became of a run that was taken back.
#[derive(Debug, Default)]
pub struct TakenBack {
    /// Tables that can't be dropped.
    pub left_behind: Vec<String>,
    /// Rows that stay, since nothing tells them from others.
    pub rows_kept: u64,
}

impl Postgres {
    /// Takes a run back: its tables, and what the ledger knows of it.
    pub fn take_back(&self, schema: &str, run: &LedgerRun) -> Result<TakenBack> {
        let mut session = self.control();
        locks::lock_job(&mut session, &run.job)?;
        let state = runs::begin_abort(&mut session, schema, &run.run_id, None)?;
        if let Some(state @ (State::Published | State::Finished | State::Undone)) = state {
            return Err(refuse(
                format!("run {} is {}: its rows are shown", run.run_id, state.name()),
                "there is nothing to abort",
            ));
        }
        let mut taken = TakenBack::default();
        for name in runs::leftovers(&mut session, &run.run_id)? {
            if session.execute(&format!("DROP TABLE {name}")).is_err() {
                taken.left_behind.push(name.to_string());
            }
        }
        for table in &run.tables {
            if table.publish == Publish::Append && !table.atomic {
                continue;
            }
            if table.creates {
                drop_if_empty(&mut session, &table.target, table.oid)?;
            }
        }
        if taken.left_behind.is_empty() {
            taken.rows_kept = rows_kept(&mut session, schema, run)?;
            runs::remove(&mut session, schema, &run.run_id)?;
        }
        Ok(taken)
    }

    /// Whether somebody works on a job.
    pub fn is_job_locked(&self, job: &str) -> Result<bool> {
        locks::is_locked(&mut self.control(), job).map_err(failed)
    }
}

/// Rows that plain append had committed.
fn rows_kept(session: &mut Session, schema: &str, run: &LedgerRun) -> Result<u64> {
    let committed = super::pieces::committed(session, schema, &run.run_id).map_err(failed)?;
    let is_piecewise = |table: usize| {
        run.tables.get(table).is_some_and(|t| t.publish == Publish::Append && !t.atomic)
    };
    Ok(committed.iter().filter(|piece| is_piecewise(piece.table)).map(|piece| piece.rows).sum())
}
