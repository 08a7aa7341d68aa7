//! Writes by tasks of an engine (`docs/decisions/sinks.md`): tables that attempts of tasks have staged, found by
//! the names that the write's id gives them, and whether the write is closed.
//!
//! An attempt creates its table under a shared lock of the write, and only while the write is open. The process
//! that closes the write, by publishing or by rolling back, does so before it takes that lock alone to drop what
//! is left. So no table appears afterwards, whatever a host assumed dead still does.

use fullbore_load::job::{Staged, Write};
use fullbore_load::plan::Plan;
use fullbore_load::run_id::RunId;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use super::read::rows;
use super::{Ledger, locks, runs, schema};
use crate::catalog::{self, Relation};
use crate::error::{failed, failed_while, refuse};
use crate::naming::{derived, is_derived};
use crate::publish::{append, made};
use crate::server::Server;

/// Where a write stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Open,
    Published,
    RolledBack,
}

/// Attempts that a task may make: an engine may try again without end.
const ATTEMPTS_MAX: u64 = 8;

/// What the comment of a staged table says before its target: whoever rolls a write back has only its id.
const STAGED_FOR: &str = "Fullbore: rows staged for ";

/// How long whoever is making a table is waited for.
const MAKING_MS: u32 = 20_000;

impl Server {
    /// Makes the table that an attempt of a task, by its number, stages its rows in; the write's standing if it
    /// is closed already. Tables of earlier attempts say how many there were: more than [`ATTEMPTS_MAX`] are
    /// refused.
    pub fn stage(
        &self,
        schema: &str,
        id: &RunId,
        target: &str,
        task: u32,
    ) -> Result<Result<QualifiedName, Standing>> {
        let mut session = self.control();
        let relation = target_of(&mut session, target)?;
        for attempt in 0..ATTEMPTS_MAX {
            let number = u64::from(task) * ATTEMPTS_MAX + attempt;
            let staging = derived(&relation.name, id, &format!("{number:05}")).map_err(failed)?;
            let made = locked(&mut session, id, "_shared", |session| {
                match standing(session, schema, id)? {
                    Standing::Open => make(session, &relation, &staging).map(Ok),
                    closed => Ok(Err(closed)),
                }
            })?;
            match made {
                Ok(true) => return Ok(Ok(staging)),
                Ok(false) => {}
                Err(closed) => return Ok(Err(closed)),
            }
        }
        Err(refuse(
            format!("task {task} of write {} has failed {ATTEMPTS_MAX} times", &**id),
            "see the engine's log for why its workers ended",
        ))
    }

    /// The table that a write is into, if something that it has staged is there: its driver may have died.
    pub fn write_target(&self, id: &RunId) -> Result<Option<String>> {
        let mut session = self.control();
        let staged =
            catalog::tables_with(&mut session, &format!("_fb_{}_", &**id)).map_err(failed)?;
        for name in staged {
            let literal = quote_literal(&name.to_string()).map_err(failed)?;
            let sql = format!("SELECT obj_description({literal}::regclass, 'pg_class') AS said");
            let found = rows(&mut session, &sql).map_err(failed)?;
            let said = found.first().map(|row| row.told("said").for_people().to_owned());
            let Some(target) = said.as_deref().and_then(|said| said.strip_prefix(STAGED_FOR))
            else {
                continue;
            };
            // Whoever may comment on a table may say anything.
            let parsed = QualifiedName::parse(target).map_err(failed)?;
            if is_derived(&name, &parsed, id).map_err(failed)? {
                return Ok(Some(target.to_owned()));
            }
        }
        Ok(None)
    }

    /// Where a write stands.
    pub fn write_standing(&self, schema: &str, id: &RunId) -> Result<Standing> {
        standing(&mut self.control(), schema, id)
    }

    /// Notes that a write is rolled back, unless it is closed already; where it stands then.
    pub fn roll_write_back(&self, schema: &str, id: &RunId, target: &str) -> Result<Standing> {
        let mut session = self.control();
        schema::make(&mut session, schema, &self.trusted)?;
        let name = target_of(&mut session, target)?.name.to_string();
        // Whoever is publishing it has this lock.
        let job = Write::identity(id);
        locks::lock_job(&mut session, &job)?;
        let noted = locked(&mut session, id, "", |session| {
            if standing(session, schema, id)? == Standing::Open {
                let literal = |text: &str| quote_literal(text).map_err(failed);
                let sql = format!(
                    "INSERT INTO {schema}.runs
                            (run, job, state, targets, tables, pieces, fullbore, host, pid)
                     VALUES ({}, {}, 'undone', ARRAY[{}], '[]', '[]', {}, '', 0)
                     ON CONFLICT DO NOTHING",
                    literal(&RunId::draw()?)?,
                    literal(&job)?,
                    literal(&name)?,
                    literal(env!("CARGO_PKG_VERSION"))?
                );
                session
                    .execute(&sql)
                    .map_err(|error| failed_while(error, "writing to the ledger"))?;
            }
            standing(session, schema, id)
        });
        locks::unlock_job(&mut session, &job);
        noted
    }

    /// Drops what attempts of a closed write have left, or these tables of an open one; what stays, and why.
    /// Attempts that still write are ended: nobody waits for their rows.
    pub fn drop_staged(
        &self,
        schema: &str,
        id: &RunId,
        target: &str,
        only: Option<&[String]>,
    ) -> Result<Vec<String>> {
        let mut session = self.control();
        let target = target_of(&mut session, target)?.name;
        let staged = locked(&mut session, id, "", |session| {
            if only.is_none() && standing(session, schema, id)? == Standing::Open {
                return Err(refuse(
                    format!("write {} is still open", &**id),
                    "publish it or roll it back first",
                ));
            }
            let found =
                catalog::tables_with(session, &format!("_fb_{}_", &**id)).map_err(failed)?;
            let mut staged = Vec::new();
            for name in found {
                let is_asked = only.is_none_or(|only| only.contains(&name.to_string()));
                if is_asked && is_derived(&name, &target, id).map_err(failed)? {
                    staged.push(name);
                }
            }
            Ok(staged)
        })?;
        let mut left = Vec::new();
        for name in staged {
            end_users(&mut session, &name)?;
            if let Err(error) = made::drop_table(&mut session, &name) {
                left.push(format!("{name} can't be dropped: {error}"));
            }
        }
        Ok(left)
    }
}

fn target_of(session: &mut Session, name: &str) -> Result<Relation> {
    let parsed = QualifiedName::parse(name).map_err(crate::error::refused)?;
    catalog::relation(session, &parsed).map_err(failed)?.ok_or_else(|| {
        refuse(format!("table {name} does not exist"), "create it first, or add the option create")
    })
}

/// A transaction that has the write's lock.
fn locked<T>(
    session: &mut Session,
    id: &RunId,
    shared: &str,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    let key = locks::key("write", id);
    session
        .execute(&format!(
            "BEGIN; SET LOCAL lock_timeout = {MAKING_MS}; SELECT pg_advisory_xact_lock{shared}({key})"
        ))
        .map_err(|error| locks::not_had(session, error, key, "waiting for other tasks"))?;
    let done = work(session);
    let ended = session.execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    let done = done?;
    ended.map_err(failed)?;
    Ok(done)
}

fn standing(session: &mut Session, schema: &str, id: &RunId) -> Result<Standing> {
    if !runs::exists(session, schema)? {
        return Ok(Standing::Open);
    }
    let job = quote_literal(&Write::identity(id)).map_err(failed)?;
    let sql = format!(
        "SELECT bool_or(state IN ('published', 'finished')) AS published,
                bool_or(state = 'undone') AS undone
           FROM {schema}.runs WHERE job = {job}"
    );
    let found = rows(session, &sql).map_err(failed)?;
    let is = |name: &str| found.first().is_some_and(|row| row.flag(name));
    Ok(match () {
        () if is("published") => Standing::Published,
        () if is("undone") => Standing::RolledBack,
        () => Standing::Open,
    })
}

/// Makes a table unless there is one of its name: an earlier attempt has made it.
fn make(session: &mut Session, target: &Relation, staging: &QualifiedName) -> Result<bool> {
    if catalog::relation(session, staging).map_err(failed)?.is_some() {
        return Ok(false);
    }
    session
        .execute(&statements(target, staging)?)
        .map(|_| true)
        .map_err(|error| failed_while(error, &format!("making {staging} for an attempt")))
}

/// What makes the table: like the target, with a comment that names it. Which columns are sent is not known yet.
fn statements(target: &Relation, staging: &QualifiedName) -> Result<String> {
    let options = " WITH (autovacuum_enabled = false)";
    let made = append::staging_like(target, staging, options, |column| column.is_identity)?;
    let comment = quote_literal(&format!("{STAGED_FOR}{}", target.name)).map_err(failed)?;
    Ok(format!("{made}; COMMENT ON TABLE {staging} IS {comment}"))
}

/// Ends the sessions that have a table open, as far as this role may.
fn end_users(session: &mut Session, table: &QualifiedName) -> Result<()> {
    let literal = quote_literal(&table.to_string()).map_err(failed)?;
    let ended = session.execute(&format!(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l
          WHERE l.locktype = 'relation' AND l.relation = to_regclass({literal})::oid
            AND l.pid <> pg_backend_pid()
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ));
    if let Err(error) = ended {
        tracing::warn!("tasks that still write to {table} can't be ended: {error}");
    }
    Ok(())
}

/// In the transaction that shows the rows: each task's are a piece of the run, for whoever reads the ledger.
pub fn note(session: &mut Session, ledger: &Ledger, plan: &Plan) -> Result<()> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    for (piece, staged) in plan.continuity.staged.iter().enumerate() {
        let Staged { rows, rejected, bytes, .. } = staged;
        session
            .execute(&format!(
                "INSERT INTO {}.pieces (run, piece, target, attempt, rows, rejected, bytes, source,
                                        xid_from, committed)
                 VALUES ({run}, {piece}, 0, {}, {rows}, {rejected}, {bytes}, '[]',
                         pg_current_xact_id(), clock_timestamp())",
                ledger.schema,
                ledger.attempt()
            ))
            .map_err(|error| failed_while(error, "writing to the ledger"))?;
    }
    Ok(())
}
