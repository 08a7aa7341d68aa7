//! Loads that can't go into one target side by side: a `replace` and an `append`, or two of `replace`.
//!
//! Rows appended during a `replace` would be lost with the old table. So both runs are refused early: each
//! control session holds an advisory lock of its kind on the target's name during the run. Appends share
//! theirs, as do the parts of a `replace` on several hosts. Before taking a lock, a run checks, one run at
//! a time, that nobody holds the other kind.
//!
//! The locks provide an early error, not safety: pieces check their target themselves
//! ([`super::unchanged`]), and a swap looks for rows that others wrote.

use std::time::Duration;

use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use crate::error::{failed, refuse};
use crate::ledger::locks::{self, Holder, LOCK_NOT_AVAILABLE};
use crate::ledger::{Ledger, runs};
use crate::postgres::Postgres;

/// How long the end of another run is waited for.
const JUST_ENDS: Duration = Duration::from_secs(3);

/// What a run does with its target, as far as others must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Adds rows, or partitions, to what is there.
    Append,
    Replace,
}

impl Kind {
    fn key(self, target: &QualifiedName) -> i64 {
        let kind = match self {
            Self::Append => "append to",
            Self::Replace => "replace",
        };
        locks::key(kind, &target.to_string())
    }

    fn words(self) -> &'static str {
        match self {
            Self::Append => "loaded into",
            Self::Replace => "replaced",
        }
    }
}

/// Tells other runs what this one does with its targets, or refuses since another one is at work on
/// them. Held until the session ends.
pub fn hold(postgres: &Postgres, session: &mut Session) -> Result<()> {
    if postgres.is_pooled {
        // The lock would stay with a session that somebody else has next.
        return Ok(());
    }
    let targets = postgres.targets().iter().enumerate();
    let mut targets: Vec<_> = targets.map(|(number, target)| (target.name(), number)).collect();
    // In one order for all, so that nobody waits for each other.
    targets.sort();
    for (name, number) in targets {
        let target = &postgres.targets()[number];
        let kind = match target.publish {
            Publish::Append | Publish::Partitions | Publish::Upsert => Kind::Append,
            Publish::Replace => Kind::Replace,
        };
        let ledger = postgres.ledger();
        let is_shared = kind == Kind::Append || ledger.is_some_and(|ledger| ledger.has_parts);
        take(session, name, kind, is_shared, ledger)?;
    }
    Ok(())
}

fn take(
    session: &mut Session,
    target: &QualifiedName,
    kind: Kind,
    is_shared: bool,
    ledger: Option<&Ledger>,
) -> Result<()> {
    let other = if kind == Kind::Append { Kind::Replace } else { Kind::Append };
    let (ours, theirs) = (kind.key(target), other.key(target));
    let door = locks::key("a run begins on", &target.to_string());
    let shared = if is_shared { "_shared" } else { "" };
    let taken = session.execute(&format!(
        "BEGIN; SET LOCAL lock_timeout = {};
         SELECT pg_advisory_xact_lock({door}); SELECT pg_advisory_xact_lock({theirs});
         SELECT pg_advisory_lock{shared}({ours}); COMMIT",
        JUST_ENDS.as_millis()
    ));
    let Err(error) = taken else { return Ok(()) };
    // The first error is the one to tell.
    let _ = session.execute("ROLLBACK");
    if error.sqlstate() != Some(LOCK_NOT_AVAILABLE) {
        return Err(failed(error));
    }
    for (kind, key) in [(other, theirs), (kind, ours), (kind, door)] {
        if let Some(holder) = locks::holders(session, key).map_err(failed)?.into_iter().next() {
            return Err(is_at_work(session, target, kind, &holder, ledger));
        }
    }
    Err(refuse(
        format!("another run is starting or ending on {target}: {error}"),
        "run the command again",
    ))
}

fn is_at_work(
    session: &mut Session,
    target: &QualifiedName,
    kind: Kind,
    holder: &Holder,
    ledger: Option<&Ledger>,
) -> Error {
    let run = ledger.and_then(|ledger| run_of(session, ledger, target, holder));
    let by = run.map_or_else(String::new, |run| format!(" by run {run}"));
    let Holder { pid, host, since, .. } = holder;
    refuse(
        format!(
            "{target} is being {}{by}, from {host} since {since} (server process {pid}); only one \
             run at a time can replace a table",
            kind.words()
        ),
        format!(
            "wait until it ends; if that client is dead, the server ends the session within a \
             minute, or at once with SELECT pg_terminate_backend({pid})"
        ),
    )
}

/// The run that a session works on, as far as our ledger knows it: it holds the lock of its job, too.
fn run_of(
    session: &mut Session,
    ledger: &Ledger,
    target: &QualifiedName,
    holder: &Holder,
) -> Option<String> {
    let held = locks::held_by(session, holder.pid).ok()?;
    let known = runs::find(session, &ledger.schema, &runs::Which::All).ok()?;
    let run = known.into_iter().find(|run| {
        run.state.is_unfinished()
            && run.tables.iter().any(|table| table.target == *target)
            && held.contains(&locks::key("job", &run.job))
    });
    run.map(|run| run.run_id.to_string())
}
