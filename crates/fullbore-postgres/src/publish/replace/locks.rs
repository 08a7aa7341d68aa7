//! The locks of the swap. First only writers are locked out, and rows written since the run began are
//! searched for. Readers wait only during the swap itself.
//!
//! Upgrading the lock could deadlock with a transaction that has read a table and now writes to it, and
//! the server would cancel that transaction. So while open transactions use a table, we do not queue for
//! the second lock: we poll, and release the first lock if one of them waits for us. For single queries we
//! queue, and later queries wait behind us.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fullbore_load::job::OtherWriters;
use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Event;
use fullbore_record::terms::Publish;

use super::kept::Guard;
use super::writers;
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;
use crate::publish::locking::{self, Frame, LockWait};

/// How often it is looked whether transactions that use a table have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A run's targets that are replaced, in the one order in which all runs lock tables.
fn replaced(postgres: &Postgres) -> Vec<(QualifiedName, usize)> {
    let targets = postgres.targets().iter().enumerate();
    let replaced = targets.filter(|(_, target)| target.publish == Publish::Replace);
    let mut replaced: Vec<_> =
        replaced.map(|(number, target)| (target.name().clone(), number)).collect();
    replaced.sort();
    replaced
}

fn lock(session: &mut Session, tables: &[(QualifiedName, usize)], mode: &str) -> Result<()> {
    let names = tables.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", ");
    let locked = session.execute(&format!("LOCK TABLE {names} IN {mode} MODE"));
    locked.map(drop).map_err(|error| failed_while(error, &format!("locking {names}")))
}

impl Postgres {
    pub(crate) fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps writers out from here on, where that was asked for.
    pub(crate) fn lock_writers_out(&self, plan: &Plan, from_the_beginning: bool) -> Result<()> {
        let tables = replaced(self);
        if plan.continuity.other_writers != OtherWriters::LockedOut || tables.is_empty() {
            return Ok(());
        }
        if self.live_guard().is_some() {
            return Ok(());
        }
        let mut session = self.marked_session()?;
        let (wait, what) = (LockWait::beforehand(plan), "keeping writers out");
        locking::insist(self, &mut session, &wait, Frame::Open, what, |session| {
            lock(session, &tables, "SHARE")
        })?;
        *self.guard() = Some(Guard { session, is_sure: from_the_beginning });
        Ok(())
    }

    /// The session that keeps writers out, if it still does.
    pub(crate) fn live_guard(&self) -> Option<MutexGuard<'_, Option<Guard>>> {
        let mut guard = self.guard();
        if guard.as_mut()?.is_alive() {
            return Some(guard);
        }
        *guard = None;
        let notice = "the session that blocked writers was lost; the table is checked for rows \
                      written by others before the swap";
        self.report(Event::Notice { notice: notice.to_owned() });
        None
    }
}

/// Locks all tables that are to be replaced for the swap, in the transaction that is open; refuses where
/// others have written to one. `is_sure` says that nobody can have.
pub fn take(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    is_sure: &mut bool,
) -> Result<()> {
    let tables = replaced(postgres);
    let wait = LockWait::of(plan);
    if tables.is_empty() {
        return Ok(());
    }
    if plan.continuity.other_writers == OtherWriters::Ignored {
        lock(session, &tables, "ACCESS EXCLUSIVE")?;
        let names: Vec<String> = tables.iter().map(|(name, _)| name.to_string()).collect();
        let notice = format!(
            "any rows that others wrote to {} during this run are lost with the old table \
             (--replace-anyway)",
            names.join(", ")
        );
        postgres.report(Event::Notice { notice });
        return Ok(());
    }
    if !*is_sure {
        lock(session, &tables, "SHARE")?;
        let baselines = writers::baselines(postgres, session, plan)?;
        for (name, number) in &tables {
            let old = super::tools::unchanged(postgres, session, *number)?;
            match baselines.get(number) {
                Some(baseline) => baseline.check(session, name, old.oid, &plan.run_id)?,
                None => {
                    tracing::warn!("{name}: the run was begun by a version that kept no baseline")
                }
            }
        }
        // The lock of a guard stays between attempts.
        *is_sure = true;
    }
    let began = Instant::now();
    loop {
        match users(postgres, session, &tables)? {
            Users::AtMostQueries => return lock(session, &tables, "ACCESS EXCLUSIVE"),
            Users::WaitForUs => return Err(in_use("has read the table and wants to write to it")),
            Users::Transactions => {}
        }
        if !wait.timeout.is_zero() && began.elapsed() > wait.timeout {
            return Err(in_use("uses the table"));
        }
        postgres.rest(LOOK)?;
    }
}

/// A lock that is not even waited for.
fn in_use(how: &str) -> Error {
    Error::Destination {
        message: format!("a transaction {how}"),
        hint: None,
        kind: DestinationFailure::Locked,
    }
}

/// Who uses the tables beside us.
enum Users {
    /// Nobody, or queries that are transactions of their own.
    AtMostQueries,
    /// Transactions that may go on to write to a table.
    Transactions,
    /// One of them waits for us.
    WaitForUs,
}

fn users(
    postgres: &Postgres,
    session: &mut Session,
    tables: &[(QualifiedName, usize)],
) -> Result<Users> {
    let oids: Vec<String> =
        tables.iter().map(|(_, number)| postgres.planned(*number).oid().to_string()).collect();
    // Of other roles' sessions it may be all that is known that they are there.
    let rows = session
        .query(&format!(
            "SELECT string_agg(DISTINCT h.pid::text, ' ') AS pids,
                    bool_or(pg_backend_pid() = ANY (pg_blocking_pids(h.pid))) AS waits
               FROM pg_locks h LEFT JOIN pg_stat_activity a ON a.pid = h.pid
              WHERE h.locktype = 'relation' AND h.relation IN ({}) AND h.granted
                AND h.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND h.pid IS DISTINCT FROM pg_backend_pid()
                AND (a.state = 'active' AND a.xact_start = a.query_start) IS NOT TRUE",
            oids.join(", ")
        ))
        .map_err(failed)?;
    let row = rows.first();
    let pids = row.and_then(|row| row.get("pids")).unwrap_or_default();
    // Nobody waits for these in the server's eyes.
    postgres.look_at(pids);
    Ok(match row.and_then(|row| row.get("waits")) {
        Some("t") => Users::WaitForUs,
        _ if pids.is_empty() => Users::AtMostQueries,
        _ => Users::Transactions,
    })
}
