//! The ledger as the destination uses it: who keeps it, and the session that holds the job's lock.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use fullbore_pgwire::{Session, TransactionStatus};
use fullbore_read::error::Result;

use super::read::{numbers, rows};
use super::runs::{self, LedgerRun, Which};
use super::schema::{self, Availability};
use super::{Ledger, locks};
use crate::catalog;
use crate::error::{failed, refused};
use crate::postgres::Postgres;
use crate::publish::exclusion;
use crate::server::Server;
use crate::target::PostgresTable;

impl Postgres {
    /// Whether an earlier attempt may have done some of what is left.
    pub(crate) fn is_later_attempt(&self) -> bool {
        self.is_of_several() || self.removed.load(Ordering::Relaxed)
    }

    /// Another process has loaded a part of the run.
    pub(crate) fn is_of_several(&self) -> bool {
        self.ledger().is_some_and(|ledger| ledger.attempt() > 1 || ledger.has_parts)
    }

    /// The control session, opened again where it was lost.
    pub(crate) fn usable_control(&self) -> Result<MutexGuard<'_, Session>> {
        let mut session = self.control();
        if !is_usable(&mut session) {
            *session = self.session()?;
        }
        Ok(session)
    }

    /// The same with the job's lock.
    pub(crate) fn locked_control(&self, ledger: &Ledger) -> Result<MutexGuard<'_, Session>> {
        let mut session = self.control();
        if !is_usable(&mut session) {
            let mut again = self.session()?;
            let backend = locks::settle(&mut again, None).map_err(failed)?;
            if let Some(lost) = ledger.control() {
                // It may hold the lock until the server notices that we are gone.
                locks::end_backend(&mut again, &lost).map_err(failed)?;
            }
            // Whoever has it now goes on with the run, or took it away.
            locks::lock_job(&mut again, &ledger.job).map_err(|error| match error.is_lost() {
                true => error,
                false => ledger.taken_over(),
            })?;
            ledger.set_control(backend);
            self.hold_targets(&mut again)?;
            *session = again;
        }
        Ok(session)
    }

    /// Tells other runs, by a session, what this one does with its targets.
    pub(crate) fn hold_targets(&self, session: &mut Session) -> Result<()> {
        let backend = session.backend_pid();
        if self.holder.load(Ordering::Relaxed) != backend {
            exclusion::hold(self, session)?;
            self.holder.store(backend, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Server {
    /// Whether a ledger can be kept in a schema, by its bare name.
    pub fn ledger_availability(&self, schema: &str) -> Result<Availability> {
        let mut session = self.control();
        if self.is_pooled {
            return Ok(Availability::Refused {
                reason: "the connection goes through a pooler, which does not preserve \
                         session-level locks"
                    .into(),
                hint: "connect to the server itself".into(),
            });
        }
        // From here on the server notices within a minute when we are gone, also while we plan.
        let backend = locks::settle(&mut session, None).map_err(refused)?;
        let _ = self.first.set(backend);
        if !self.settings.allow_publication {
            let all = catalog::publications_for_all_tables(&mut session).map_err(refused)?;
            if let Some(publication) = all.first() {
                return Ok(Availability::Refused {
                    reason: format!(
                        "publication {publication} covers all tables, and would replicate the ledger"
                    ),
                    hint: "allow it with --allow-publication, and create the ledger's tables on \
                           the subscribers"
                        .into(),
                });
            }
        }
        schema::availability(&mut session, schema, &self.trusted).map_err(refused)
    }

    /// Runs that a ledger knows, the newest first; none where there is no ledger.
    pub fn ledger_runs(&self, schema: &str, which: &Which<'_>) -> Result<Vec<LedgerRun>> {
        let mut session = self.control();
        self.trusted.check(&mut session, &schema::bare(schema))?;
        runs::find(&mut session, schema, which)
    }

    /// Why no ledger can be kept of a target's pieces, if so: its row must share the fate of the rows.
    pub(crate) fn ledger_obstacle(&self, target: &PostgresTable) -> Result<Option<String>> {
        if !target.is_piecewise() {
            return Ok(None);
        }
        let odd = "c.relkind = 'f' OR c.relpersistence = 'u'";
        Ok(match target.relation.kind {
            'f' => Some("rows in a foreign table are committed by another server".into()),
            'p' => {
                let sql = format!(
                    "SELECT c.oid::regclass AS name FROM pg_partition_tree({}) t
                       JOIN pg_class c ON c.oid = t.relid WHERE {odd} LIMIT 1",
                    target.relation.oid
                );
                let found = rows(&mut self.control(), &sql).map_err(refused)?;
                let name = found.first().map(|row| row.told("name"));
                name.map(|name| {
                    format!("its partition {} is foreign or unlogged", name.for_people())
                })
            }
            _ => None,
        })
    }

    /// Locks a job for this process, or refuses since another one loads it.
    pub fn lock_job(&self, job: &str) -> Result<()> {
        locks::lock_job(&mut self.control(), job)
    }

    /// The same, ending whoever has it.
    pub fn take_job_over(&self, job: &str) -> Result<()> {
        let mut session = self.control();
        locks::end_holders(&mut session, job)?;
        locks::lock_job(&mut session, job)
    }
}

/// Whether a session is still there, and may write; a transaction that it has open is rolled back. One that
/// was opened while the server or the role only read would only read for ever.
fn is_usable(session: &mut Session) -> bool {
    let is_idle = session.transaction_status() == TransactionStatus::Idle;
    if !is_idle && session.execute("ROLLBACK").is_err() {
        return false;
    }
    let writes = "SELECT (current_setting('transaction_read_only') = 'off')::int AS writes";
    let found = numbers(session, writes, ["writes"]);
    found.is_ok_and(|writes| writes == [1])
}
