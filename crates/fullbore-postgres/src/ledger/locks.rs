//! Who works on what: advisory locks, which go with the sessions that hold them.
//!
//! A job is locked by the control session of the run that loads it; a second run of the same job is
//! refused. The sessions of streams, and those that build indexes, share a lock of their run, by which
//! those are found, and ended, whose client is gone.

use std::time::Duration;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::{Error, Result};
use sha2::{Digest, Sha256};

use super::read::{LedgerRow, rows};
use crate::error::{failed, failed_while, refuse};

/// How long the end of a run that was killed just now is waited for.
const JUST_ENDED: Duration = Duration::from_secs(3);

/// How long the end of a session is waited for: it comes once its statement looks for a signal.
const SESSION_ENDS: Duration = Duration::from_secs(20);

/// How long a lock is waited for that nobody holds for long, unless to keep others out: any role that may
/// log in can take it.
const OTHERS_END: Duration = Duration::from_secs(20);

/// The server's word for a lock that was not had in time.
pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";

/// A session's process, told from a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    pub pid: i32,
    /// In microseconds since 1970.
    pub started_us: i64,
}

/// Settings of a run's sessions: nothing but the run decides when its statements, pauses and locks take
/// too long.
const SETTINGS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
    SET idle_session_timeout = 0; SET lock_timeout = 0; ";

/// Pages of new tables are written once, not logged as well, unless they are few: by default up to 2 MB where
/// `wal_level` is minimal, which batches and their indexes seldom exceed. A server that is no PostgreSQL may not know it.
const LOGS_LITTLE: &str = "SELECT pg_catalog.set_config('wal_skip_threshold', '64kB', false)
    WHERE pg_catalog.current_setting('wal_skip_threshold', true) IS NOT NULL; ";

/// The first version that ends long transactions where it is told to.
const TRANSACTION_TIMEOUT: u32 = 170_000;

/// When a backend was started, as a number.
const STARTED_US: &str = "(extract(epoch FROM backend_start) * 1000000)::bigint";

/// Gives a session these settings. Not for one behind a pooler, which another client may have next.
pub fn unhurry(session: &mut Session) -> Result<(), ConnectionError> {
    session.execute(&settings(session)).map(drop)
}

fn settings(session: &Session) -> String {
    let last = match session.server_version_num() >= TRANSACTION_TIMEOUT {
        true => "SET transaction_timeout = 0; ",
        false => "",
    };
    format!("{SETTINGS}{LOGS_LITTLE}{last}")
}

/// Settings for a session of a run, and a mark where it is one of its streams; which backend it is.
pub fn settle(session: &mut Session, stream_of: Option<&str>) -> Result<Backend, ConnectionError> {
    let mut sql = settings(session);
    if let Some(run_id) = stream_of {
        sql.push_str(&format!(
            "SET LOCAL lock_timeout = {}; SELECT pg_advisory_lock_shared({}); ",
            OTHERS_END.as_millis(),
            key("run", run_id)
        ));
    }
    sql.push_str(&format!(
        "SELECT {STARTED_US} AS started FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    ));
    let rows = rows(session, &sql)?;
    let started_us = rows.first().and_then(|row| row.number("started").ok()).unwrap_or_default();
    Ok(Backend { pid: session.backend_pid(), started_us })
}

/// A lock's key out of what it stands for.
pub(crate) fn key(kind: &str, name: &str) -> i64 {
    let hash = Sha256::digest(format!("fullbore {kind} {name}"));
    i64::from_be_bytes(*hash.first_chunk().expect("a hash is longer"))
}

/// The condition for rows of pg_locks that are about a key.
fn is_about(key: i64) -> String {
    format!(
        "l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.classid = {} AND l.objid = {}",
        (key as u64 >> 32) as u32,
        key as u32
    )
}

/// Locks a job for this session, or refuses.
pub fn lock_job(session: &mut Session, job: &str) -> Result<()> {
    let key = key("job", job);
    let locked = session.execute(&format!(
        "SET LOCAL lock_timeout = {}; SELECT pg_advisory_lock({key})",
        JUST_ENDED.as_millis()
    ));
    match locked {
        Ok(_) => Ok(()),
        Err(error) if error.sqlstate() == Some(LOCK_NOT_AVAILABLE) => {
            Err(is_loaded_already(session, key))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The same without waiting; whether it was had.
pub fn try_lock_job(session: &mut Session, job: &str) -> Result<bool> {
    try_lock(session, key("job", job))
}

/// Takes a lock, if nobody has it; whether it was had.
pub fn try_lock(session: &mut Session, key: i64) -> Result<bool> {
    let sql = format!("SELECT pg_try_advisory_lock({key}) AS taken");
    Ok(rows(session, &sql).map_err(failed)?.first().is_some_and(|row| row.flag("taken")))
}

/// Gives a job's lock back before the session ends.
pub fn unlock_job(session: &mut Session, job: &str) {
    // With a session that was lost the lock went too.
    let _ = session.execute(&format!("SELECT pg_advisory_unlock({})", key("job", job)));
}

/// Ends who works on a job, and waits for that: its host is taken for dead. What a role may not end it
/// leaves, and the lock is not had.
pub fn end_holders(session: &mut Session, job: &str) -> Result<()> {
    let sql = format!(
        "SELECT pg_terminate_backend(l.pid, {}) FROM pg_locks l
          WHERE {} AND l.pid <> pg_backend_pid()",
        SESSION_ENDS.as_millis(),
        is_about(key("job", job))
    );
    session.execute(&sql).map(drop).map_err(|error| {
        failed_while(error, "ending the session of a host that was working on this part")
    })
}

/// Takes a lock until the transaction that is open ends; `what` is done under it, in the words of an error.
pub fn take_for_transaction(session: &mut Session, key: i64, what: &str) -> Result<()> {
    let taken = session.execute(&format!(
        "SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock({key}); SET LOCAL lock_timeout = 0",
        OTHERS_END.as_millis()
    ));
    taken.map(drop).map_err(|error| not_had(session, error, key, what))
}

/// A stream of a run was not marked as one of its.
pub fn not_marked(session: &mut Session, error: ConnectionError, run_id: &str) -> Error {
    not_had(session, error, key("run", run_id), &format!("marking a session of run {run_id}"))
}

/// The error of a lock that was waited for, with who holds it.
pub fn not_had(session: &mut Session, error: ConnectionError, key: i64, what: &str) -> Error {
    if error.sqlstate() != Some(LOCK_NOT_AVAILABLE) {
        return failed_while(error, what);
    }
    let _ = session.execute("ROLLBACK");
    let holder = holders(session, key).ok().and_then(|holders| holders.into_iter().next());
    let Some(Holder { pid, host, role, since }) = holder else {
        return failed_while(error, what);
    };
    refuse(
        format!(
            "{what}: the advisory lock for it is held by server process {pid} of role {role}, from \
             {host} since {since}"
        ),
        format!(
            "wait until it ends and load again; a superuser can end it with SELECT \
             pg_terminate_backend({pid})"
        ),
    )
}

/// A session that holds a lock, whose it is, and from where.
pub struct Holder {
    pub pid: i32,
    pub role: String,
    pub host: String,
    pub since: String,
}

/// The sessions that hold a lock, our own left out.
pub fn holders(session: &mut Session, key: i64) -> Result<Vec<Holder>, ConnectionError> {
    let sql = format!(
        "SELECT a.pid, a.backend_start, a.usename,
                CASE WHEN a.backend_start IS NOT NULL
                     THEN coalesce(host(a.client_addr), 'this machine') END AS host
           FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
          WHERE {} AND a.pid <> pg_backend_pid()",
        is_about(key)
    );
    let holder = |row: &LedgerRow| {
        let text = |name: &str| match row.told(name).for_people() {
            "" => "?".to_owned(),
            known => known.to_owned(),
        };
        let pid = row.number("pid").unwrap_or(0);
        Holder { pid, role: text("usename"), host: text("host"), since: text("backend_start") }
    };
    Ok(rows(session, &sql)?.iter().map(holder).collect())
}

/// The keys of all locks that a session of this database holds.
pub fn held_by(session: &mut Session, pid: i32) -> Result<Vec<i64>, ConnectionError> {
    let sql = format!(
        "SELECT (l.classid::bigint << 32) | l.objid::bigint AS key FROM pg_locks l
          WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = {pid}
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    Ok(rows(session, &sql)?.iter().filter_map(|row| row.number("key").ok()).collect())
}

/// Whether somebody stands between us and the server: the process that it says we talk to is none of
/// the server's then, or was another one's when it told us.
pub fn is_pooled(session: &mut Session) -> Result<bool, ConnectionError> {
    let rows = rows(session, "SELECT pg_backend_pid() AS pid")?;
    let pid = rows.first().and_then(|row| row.number("pid").ok());
    Ok(pid != Some(session.backend_pid()))
}

fn is_loaded_already(session: &mut Session, key: i64) -> Error {
    let holder = holders(session, key).ok().and_then(|holders| holders.into_iter().next());
    let unknown = Holder { pid: 0, role: "?".into(), host: "?".into(), since: "?".into() };
    let Holder { pid, host, since, .. } = holder.unwrap_or(unknown);
    refuse(
        format!(
            "this job is already being loaded, from {host} since {since} (server process {pid})"
        ),
        format!(
            "wait until it ends; if that client is dead, the server ends the session within a \
             minute, or at once with SELECT pg_terminate_backend({pid})"
        ),
    )
}

/// Whether somebody works on a job.
pub fn is_locked(session: &mut Session, job: &str) -> Result<bool, ConnectionError> {
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_locks l WHERE {} AND l.pid <> pg_backend_pid()) AS held",
        is_about(key("job", job))
    );
    Ok(rows(session, &sql)?.first().is_some_and(|row| row.flag("held")))
}

/// Ends what is left of a run's sessions, and waits for that: one that still builds an index would
/// have it ready just after somebody looked for it. Where the role may not, the attempt has to wait for
/// the pieces of streams.
pub fn end_sessions(session: &mut Session, run_id: &str) {
    let ended = session.execute(&format!(
        "SELECT pg_terminate_backend(l.pid, {}) FROM pg_locks l
          WHERE {} AND l.pid <> pg_backend_pid()",
        SESSION_ENDS.as_millis(),
        is_about(key("run", run_id))
    ));
    if let Err(error) = ended {
        tracing::warn!("sessions of an earlier attempt can't be ended: {error}");
    }
}

/// Ends our own earlier session, if it still lives without us.
pub fn end_backend(session: &mut Session, backend: &Backend) -> Result<(), ConnectionError> {
    session.execute(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE pid = {} AND {STARTED_US} = {}",
        backend.pid, backend.started_us
    ))?;
    Ok(())
}
