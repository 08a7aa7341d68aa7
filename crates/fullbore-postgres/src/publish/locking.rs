//! Acquires locks that others may hold for long, in short attempts that let queued sessions pass.
//!
//! A session that waits for ACCESS EXCLUSIVE blocks every later reader. So each attempt is bounded by
//! `lock_timeout`, all locks are released between attempts, and the pauses grow. Meanwhile another session
//! finds the blocking sessions, which are reported. `--lock-timeout 0` waits in one attempt without limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fullbore_load::constants::{LOCK_TIMEOUT_DEFAULT_MS, RETRY_FOR_DEFAULT_S};
use fullbore_load::plan::Plan;
use fullbore_load::run::retry::{self, Backoff};
use fullbore_pgwire::session::path;
use fullbore_pgwire::{ConnectionError, Row, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Event;

use crate::error::failed;
use crate::postgres::{Attended, Postgres};

impl Postgres {
    pub(crate) fn report(&self, event: Event) {
        match &self.attended {
            Some(Attended { recorder, .. }) => recorder.record(event),
            None => tracing::warn!("{event:?}"),
        }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.attended.as_ref().is_some_and(|attended| attended.interrupted.load(Ordering::Relaxed))
    }

    /// Says for which processes the run waits without being in the server's queue, by their ids.
    pub(crate) fn look_at(&self, pids: &str) {
        let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = pids;
    }

    fn looked_at(&self) -> Vec<i32> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Pauses, unless a signal comes.
    pub(crate) fn pause(&self, backoff: &mut Backoff) -> Result<()> {
        uninterrupted(backoff.pause(|| self.is_interrupted()))
    }

    /// The same, for a time.
    pub(crate) fn rest(&self, pause: Duration) -> Result<()> {
        uninterrupted(retry::pause(pause, || self.is_interrupted()))
    }
}

fn uninterrupted(is_over: bool) -> Result<()> {
    is_over.then_some(()).ok_or(Error::Interrupted)
}

/// How long locks are waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWait {
    /// By one attempt; zero: without bound.
    pub timeout: Duration,
    /// By all attempts.
    pub limit: Duration,
    /// What to do once they are given up.
    pub hint: String,
}

impl LockWait {
    /// The waits of a run.
    pub fn of(plan: &Plan) -> Self {
        let continuity = &plan.continuity;
        let run = &plan.run_id;
        Self {
            timeout: continuity.lock_timeout,
            limit: continuity.patience,
            hint: match continuity.is_resumable {
                true => format!("`fullbore runs resume {run}` publishes it once the lock is free"),
                false => "nothing was published; load again once the lock is free".to_owned(),
            },
        }
    }

    /// The same before a row has moved.
    pub fn beforehand(plan: &Plan) -> Self {
        let hint = "nothing was loaded; load again once the lock is free".to_owned();
        Self { hint, ..Self::of(plan) }
    }

    /// Of commands without a job.
    pub fn of_command() -> Self {
        Self {
            timeout: Duration::from_millis(LOCK_TIMEOUT_DEFAULT_MS),
            limit: Duration::from_secs(RETRY_FOR_DEFAULT_S),
            hint: "nothing was done; give the command again once the lock is free".to_owned(),
        }
    }

    /// `SET LOCAL lock_timeout = ...`
    pub fn set_local(&self) -> String {
        format!("SET LOCAL lock_timeout = {}", self.timeout.as_millis())
    }
}

/// What an attempt is made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A transaction of its own, begun by these statements and committed in the end.
    Transaction(&'static str),
    /// A transaction of its own that is rolled back, whatever comes of it.
    Trial,
    /// A transaction of its own that is left open when all is done.
    Open,
    /// A savepoint of the transaction that is open, which is committed in the end: what it had locked
    /// before stays locked between attempts.
    Savepoint,
}

impl Frame {
    fn begin(self) -> &'static str {
        match self {
            Self::Transaction(begin) => begin,
            Self::Trial | Self::Open => "BEGIN",
            Self::Savepoint => "SAVEPOINT fullbore_attempt",
        }
    }

    fn end(self) -> &'static str {
        match self {
            Self::Transaction(_) | Self::Savepoint => path::COMMIT,
            Self::Trial => "ROLLBACK",
            Self::Open => "SET LOCAL lock_timeout = 0",
        }
    }

    fn take_back(self) -> &'static str {
        match self {
            Self::Savepoint => {
                "ROLLBACK TO SAVEPOINT fullbore_attempt; RELEASE SAVEPOINT fullbore_attempt"
            }
            _ => "ROLLBACK",
        }
    }
}

/// Works under locks that others may hold; `what` is done, in the words of an error.
pub fn insist<T>(
    postgres: &Postgres,
    session: &mut Session,
    wait: &LockWait,
    frame: Frame,
    what: &str,
    mut work: impl FnMut(&mut Session) -> Result<T>,
) -> Result<T> {
    let mut backoff = Backoff::new(wait.limit);
    let blockers = Blockers {
        postgres,
        pid: session.backend_pid(),
        wait,
        what,
        last: Mutex::default(),
        asking: Mutex::default(),
    };
    for attempt in 0.. {
        let begin = format!("{}; {}", frame.begin(), wait.set_local());
        session.execute(&begin).map_err(failed)?;
        let worked = blockers.watched(attempt == 0, || work(session));
        let error = match worked {
            Ok(value) => {
                session.execute(frame.end()).map_err(failed)?;
                return Ok(value);
            }
            Err(error) => error,
        };
        // The first error is the one to tell.
        let _ = session.execute(frame.take_back());
        if !is_locked(&error) {
            return Err(error);
        }
        if postgres.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let has_bound = !wait.timeout.is_zero();
        if has_bound && backoff.is_over() {
            // Of a single short attempt there may not have been time to see who was in its way.
            if attempt > 0 || blockers.is_known() {
                return Err(blockers.given_up(error, backoff.elapsed()));
            }
        }
        tracing::info!(attempt, pause_s = backoff.next().as_secs_f64(), "{what}: {error}");
        postgres.pause(&mut backoff)?;
    }
    unreachable!("attempts end by themselves")
}

/// Whether a lock was not had in time, or a deadlock was ended.
pub fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Destination { kind: DestinationFailure::Locked, .. })
}

/// How long an attempt goes on before it is asked who is in its way.
const UNNOTICED: Duration = Duration::from_millis(300);

/// How often that is asked at most; several times in an attempt that is shorter.
const LOOK: Duration = Duration::from_millis(200);

/// Who is in the way of a session.
struct Blockers<'a> {
    postgres: &'a Postgres,
    pid: i32,
    wait: &'a LockWait,
    what: &'a str,
    /// In words, as they were seen last.
    last: Mutex<String>,
    /// Asks who they are: one for all attempts, which may be shorter than it takes to open one.
    asking: Mutex<Option<Session>>,
}

impl Blockers<'_> {
    fn is_known(&self) -> bool {
        !self.last.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Does something while another thread asks who is in its way.
    fn watched<T>(&self, is_first: bool, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| self.watch(is_first, &done));
            let worked = work();
            done.store(true, Ordering::Relaxed);
            watch.thread().unpark();
            worked
        })
    }

    fn watch(&self, is_first: bool, done: &AtomicBool) {
        let began = Instant::now();
        while is_first && began.elapsed() < UNNOTICED {
            if done.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(UNNOTICED);
        }
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.is_none() {
            *asking = self.postgres.session_now().ok();
        }
        // Without it nobody is named.
        let Some(session) = asking.as_mut() else { return };
        let look = match self.wait.timeout.is_zero() {
            true => LOOK,
            false => LOOK.min(self.wait.timeout / 4),
        };
        while !done.load(Ordering::Relaxed) {
            match blocking(session, self.pid, &self.postgres.looked_at()) {
                Ok(found) if !found.is_empty() => self.report(found),
                Ok(_) => {}
                Err(_) => {
                    *asking = None;
                    return;
                }
            }
            std::thread::park_timeout(look);
        }
    }

    /// Reports who is in the way, once for the same ones.
    fn report(&self, found: Vec<Blocker>) {
        let who = |words: fn(&Blocker) -> String| {
            found.iter().map(words).collect::<Vec<_>>().join(" and ")
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = found.iter().any(|blocker| !last.contains(&blocker.name));
        *last = who(Blocker::words);
        if !is_new {
            return;
        }
        let bound = match self.wait.timeout.is_zero() {
            true => "without limit (--lock-timeout 0)".to_owned(),
            false => format!(
                "at most {:?} an attempt and {:?} in all (--lock-timeout, --retry-for)",
                self.wait.timeout, self.wait.limit
            ),
        };
        let notice = format!("{} waits for a lock held by {last}: {bound}", self.what);
        self.postgres.report(Event::Notice { notice });
    }

    fn given_up(&self, error: Error, after: Duration) -> Error {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match last.is_empty() {
            true => format!("{}: no lock within {:.0} s ({error})", self.what, after.as_secs_f64()),
            false => format!(
                "{}: no lock within {:.0} s: it is held by {last}",
                self.what,
                after.as_secs_f64()
            ),
        };
        let hint = Some(self.wait.hint.clone());
        Error::Destination { message, hint, kind: DestinationFailure::Locked }
    }
}

/// A session that is in the way.
struct Blocker {
    name: String,
    doing: String,
}

impl Blocker {
    fn of(row: &Row) -> Self {
        let text = |name: &str| row.get(name).unwrap_or("?").to_owned();
        if row.get("pid") == Some("0") {
            return Self { name: "a prepared transaction".into(), doing: String::new() };
        }
        let application = match row.get("application") {
            Some(name) if !name.is_empty() => format!(", application {name}"),
            _ => String::new(),
        };
        let doing = match row.get("state") {
            Some("active") => format!(", query running for {} s", text("query_s")),
            Some(state) if state.starts_with("idle in transaction") => {
                format!(", {state} for {} s", text("transaction_s"))
            }
            _ => String::new(),
        };
        Self {
            name: format!("process {} (user {}{application}", text("pid"), text("user")),
            doing: format!("{doing})"),
        }
    }

    fn words(&self) -> String {
        format!("{}{}", self.name, self.doing)
    }
}

/// The sessions that a session waits for, and those that it only looks at until they have ended.
fn blocking(
    session: &mut Session,
    pid: i32,
    looked_at: &[i32],
) -> Result<Vec<Blocker>, ConnectionError> {
    let looked_at = looked_at.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let rows = session.query(&format!(
        "SELECT b.pid, a.usename AS user, a.application_name AS application, a.state,
                extract(epoch FROM clock_timestamp() - a.query_start)::bigint AS query_s,
                extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS transaction_s
           FROM (SELECT unnest(pg_blocking_pids({pid}) || ARRAY[{looked_at}]::integer[])
                 EXCEPT VALUES ({pid})) AS b(pid)
           LEFT JOIN pg_stat_activity a ON a.pid = b.pid ORDER BY b.pid"
    ))?;
    Ok(rows.iter().map(Blocker::of).collect())
}
