//! Merges neighbouring partitions into one, with its rows in order and its indexes built once.
//!
//! Partitions are chosen under a lock, so that several merges at a time have nothing in common: small ones do not wait
//! until a large one is done. One session keeps writers out of the partitions that are merged; readers go on. Their rows
//! are [carried](carry) into a new table, which another session commits. Then the first one exchanges them in one short
//! transaction; the old ones still have to be dropped ([`detached`]). A merge that ends before that leaves a table that
//! nobody reads, which the next one drops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_load::sorted::SortKey;
use fullbore_pgwire::{
    CancelHandle, ConnectionOptions, QualifiedName, Session, quote_identifier, quote_literal,
};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::batches::partitions;
use super::carry::{self, Way};
use super::detached;
use super::policy::{Part, Policy};
use super::{COLUMN, Table, connect, insist, is_taken, shape};
use crate::catalog::{self, Relation};
use crate::error::{failed, failed_while, refuse};
use crate::ledger::locks;
use crate::publish::hidden;
use crate::publish::locking::is_locked;
use crate::publish::replace::tools::in_transaction;

/// How long writers of the merged partitions are waited for.
const WRITERS_MS: u64 = 2000;
/// How long the exchange is tried, unless a writer waits for the partitions.
const EXCHANGE: Duration = Duration::from_secs(60);
/// How often a merge in progress looks whether it has to stop.
const LOOK: Duration = Duration::from_millis(200);

/// What a merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// So many became one, which has so many bytes with its indexes.
    Done { parts: usize, rows: u64, bytes: u64 },
    /// Somebody uses the table all the time, or it was told to stop.
    Busy,
    /// None is due.
    Nothing,
}

/// Merges partitions of a table.
pub struct Merger {
    options: ConnectionOptions,
    table: Table,
    /// What rows are put in order by, as SQL.
    order: Vec<String>,
    may_be_direct: bool,
}

impl Merger {
    /// `order`: what rows of a merged partition are put in order by; `may_be_direct`: by the server's extension, where it
    /// is there.
    pub fn new(
        session: &mut Session,
        options: &ConnectionOptions,
        table: &Table,
        order: &[SortKey],
        may_be_direct: bool,
    ) -> Result<Self> {
        let relation = catalog::relation(session, &table.name).map_err(failed)?;
        let order =
            relation.map_or_else(|| Ok(Vec::new()), |relation| in_order(&relation, order))?;
        Ok(Self { options: options.clone(), table: table.clone(), order, may_be_direct })
    }

    /// Merges the neighbours that are due, by a session of [`connect`], unless it is told to stop before they are exchanged.
    pub fn merge(
        &self,
        session: &mut Session,
        policy: &Policy,
        stop: &AtomicBool,
    ) -> Result<Merged> {
        let Some(olds) = self.choose(session, policy)? else { return Ok(Merged::Nothing) };
        let (first, last) = ends(&olds);
        let merged = self.carry_out(session, &olds, stop);
        let done = match &merged {
            Ok(Merged::Done { .. }) => Ok(()),
            _ => {
                // A transaction that failed is still open.
                let _ = session.execute("ROLLBACK");
                in_transaction(session, |session| {
                    detached::lock(session, &self.table)?;
                    self.drop_made(session, first, last)
                })
            }
        };
        let unlock = format!("SELECT pg_advisory_unlock({})", self.key(first, last));
        let done = done.and_then(|_| session.execute(&unlock).map_err(failed));
        // The first error is the one to tell.
        let merged = merged?;
        done.map(|_| merged)
    }

    /// The partitions that are due, which nobody else chooses from then on.
    fn choose(&self, session: &mut Session, policy: &Policy) -> Result<Option<Vec<Part>>> {
        let Table { oid, ledger, .. } = &self.table;
        in_transaction(session, |session| {
            detached::lock(session, &self.table)?;
            self.drop_left(session)?;
            let mut of = partitions(session, &self.table)?;
            let Some(group) = policy.next(&of) else { return Ok(None) };
            let olds: Vec<Part> = of.shown.drain(group).collect();
            let (first, last) = ends(&olds);
            let batches: u64 = olds.iter().map(|part| part.batches).sum();
            session
                .execute(&format!(
                    "INSERT INTO {ledger}.batches (target, first, last, batches, state)
                     VALUES ({oid}, {first}, {last}, {batches}, 'merging');
                     SELECT pg_advisory_lock({})",
                    self.key(first, last)
                ))
                .map_err(failed)?;
            Ok(Some(olds))
        })
    }

    fn carry_out(&self, session: &mut Session, olds: &[Part], stop: &AtomicBool) -> Result<Merged> {
        let Table { oid, ledger, name, .. } = &self.table;
        let (first, last) = ends(olds);
        let mut keeper = connect(&self.options)?;
        keeper.execute("BEGIN").map_err(failed)?;
        let leaf = shape::leaf(name, first, last)?;
        let leaves = olds.iter().map(|part| shape::leaf(name, part.first, part.last));
        let leaves = leaves.collect::<Result<Vec<QualifiedName>>>()?;
        if !keep_writers_out(&mut keeper, &leaves)? {
            return Ok(Merged::Busy);
        }
        let sessions = [session.cancel_handle(), keeper.cancel_handle()];
        let filled = unless(stop, &sessions, || {
            self.fill(session, &mut keeper, &leaf, &leaves, first, last)
        });
        let rows = match filled {
            // Its statement was stopped, whatever it says.
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(Merged::Busy),
            filled => filled?,
        };
        let bytes = size(session, &leaf)?;
        // Batches are not attached in the order of their numbers.
        let oldest = olds.iter().map(|part| part.oldest_s).min().unwrap_or_default();
        let newest = olds.iter().map(|part| part.newest_s).max().unwrap_or_default();
        let settle = format!(
            "UPDATE {ledger}.batches SET state = 'attached', rows = {rows}, bytes = {bytes},
                    oldest = to_timestamp({oldest}), newest = to_timestamp({newest})
              WHERE target = {oid} AND first = {first} AND last = {last}"
        );
        let pid = keeper.backend_pid();
        let mut gives_up = || stop.load(Ordering::Relaxed) || is_waited_for(session, pid);
        if self.exchange(&mut keeper, &leaf, olds, &leaves, &settle, &mut gives_up)? {
            return Ok(Merged::Done { parts: olds.len(), rows, bytes });
        }
        // Writers that wait for the partitions go on.
        keeper.execute("ROLLBACK").map_err(failed)?;
        Ok(Merged::Busy)
    }

    /// The lock of who merges into a partition.
    fn key(&self, first: u64, last: u64) -> i64 {
        locks::key("merging", &format!("{} {first} {last}", self.table.oid))
    }

    /// Drops what merges left whose sessions have ended, in a transaction of who chooses.
    fn drop_left(&self, session: &mut Session) -> Result<()> {
        for (first, last) in partitions(session, &self.table)?.merging {
            let lock = format!("pg_try_advisory_xact_lock({})", self.key(first, last));
            if is_taken(session, &lock)? {
                self.drop_made(session, first, last)?;
            }
        }
        Ok(())
    }

    /// Drops a partition that is being made, unless it is in use.
    fn drop_made(&self, session: &mut Session, first: u64, last: u64) -> Result<()> {
        let leaf = shape::leaf(&self.table.name, first, last)?;
        if let Some(error) =
            detached::drop_one(session, &self.table, &leaf, (first, last), "merging")?
        {
            tracing::warn!(%error, "{leaf} stays for now");
        }
        Ok(())
    }

    /// Makes the new table with the rows of the old ones; how many there are. They are read by the session that keeps them.
    fn fill(
        &self,
        session: &mut Session,
        keeper: &mut Session,
        leaf: &QualifiedName,
        olds: &[QualifiedName],
        first: u64,
        last: u64,
    ) -> Result<u64> {
        let columns = shape::columns(session, &self.table)?;
        let all: Vec<String> =
            olds.iter().map(|old| format!("SELECT {columns} FROM {old}")).collect();
        let all = all.join(" UNION ALL ");
        let rows = match &self.table.key {
            Some(key) => key.newest(&columns, olds)?,
            None if self.order.is_empty() => all,
            None => format!("{all} ORDER BY {}", self.order.join(", ")),
        };
        let create = shape::create(session, &self.table, leaf)?;
        let hide = hidden::hide(&leaf.to_string()).map_err(failed)?;
        let indexes = shape::indexes(session, &self.table, leaf)?;
        let late = shape::late_indexes(session, &self.table, leaf)?;
        let way = Way::of(session, self.table.oid, &olds[0], self.may_be_direct)?;
        let what = format!("merging partitions into {leaf}");
        let failed = |error| failed_while(error, &what);
        session.execute(&format!("BEGIN; {create}; {hide}")).map_err(failed)?;
        let direct = match way {
            Way::Direct { fills } => carry::direct(session, leaf, &columns, fills)?,
            _ => None,
        };
        // Those that are filled with the rows are there before them.
        let (before, mut statements) = match way {
            Way::Direct { fills: true } if direct.is_some() => (indexes, Vec::new()),
            _ => (Vec::new(), indexes),
        };
        for index in before {
            session.execute(&index).map_err(failed)?;
        }
        let carried = match way {
            Way::Within => carry::within(session, leaf, &columns, &rows)?,
            _ => carry::through_here(session, leaf, &columns, direct.as_ref(), keeper, &rows)?,
        };
        let finished = direct.as_ref().map(|direct| direct.finish(session)).transpose();
        if let Some(indexes) = finished.map_err(failed)?.flatten() {
            return Err(Error::Destination {
                message: format!("{what}: rows share their keys in {indexes}"),
                hint: None,
                kind: DestinationFailure::Constraint,
            });
        }
        statements.push(shape::bound(leaf, first, last)?);
        statements.extend(late);
        statements.push(format!("ANALYZE {leaf}"));
        statements.push("COMMIT".into());
        for statement in statements {
            session.execute(&statement).map_err(failed)?;
        }
        Ok(carried)
    }

    /// Puts the new partition in the place of the old ones, whose tables are `leaves`; false where no moment was found for it.
    fn exchange(
        &self,
        session: &mut Session,
        leaf: &QualifiedName,
        olds: &[Part],
        leaves: &[QualifiedName],
        settle: &str,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let name = &self.table.name;
        let numbers: Vec<(u64, u64)> = olds.iter().map(|part| (part.first, part.last)).collect();
        let (first, last) = ends(olds);
        let statements = [
            detached::UNHURRIED.to_owned(),
            detached::detach(&self.table, &numbers)?,
            shape::attach(&self.table, leaf, first, last),
            hidden::reveal(&leaf.to_string()).map_err(failed)?,
            settle.to_owned(),
            "COMMIT".into(),
        ];
        let statements = statements.join("; ");
        let locked: Vec<String> = leaves.iter().map(ToString::to_string).collect();
        // Readers of the partitions have the table's lock, too.
        let lock =
            format!("LOCK TABLE ONLY {name}, {} IN ACCESS EXCLUSIVE MODE", locked.join(", "));
        let until = Instant::now() + EXCHANGE;
        let gives_up = || Instant::now() > until || gives_up();
        let what = format!("putting {leaf} in the place of {} partitions", olds.len());
        let done = insist(session, gives_up, |session| {
            session.execute(&lock).map_err(failed)?;
            session.execute(&statements).map(drop).map_err(|error| failed_while(error, &what))
        })?;
        Ok(done.is_some())
    }
}

/// What rows are put in order by, as SQL; refused where rows of the table do not have such columns as they are merged.
pub fn in_order(relation: &Relation, order: &[SortKey]) -> Result<Vec<String>> {
    let mut sql = Vec::new();
    for SortKey { column, descends } in order {
        let is_it = |known: &catalog::Column| {
            known.name == *column && !known.is_generated && *column != COLUMN
        };
        if !relation.columns.iter().any(is_it) {
            return Err(refuse(
                format!(
                    "--order-by: {} has no column {column:?} with values of its own",
                    relation.name
                ),
                "name columns of the table: --order-by COLUMN, or --order-by \"COLUMN desc\"",
            ));
        }
        let way = if *descends { " DESC" } else { "" };
        sql.push(format!("{}{way}", quote_identifier(column).map_err(failed)?));
    }
    Ok(sql)
}

/// The first and the last number of neighbours.
fn ends(parts: &[Part]) -> (u64, u64) {
    (parts[0].first, parts[parts.len() - 1].last)
}

/// Does something with sessions whose statements are cancelled when it is told to stop.
fn unless<T>(
    stop: &AtomicBool,
    sessions: &[CancelHandle],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    for session in sessions {
                        // A server that is gone has stopped, too.
                        let _ = session.cancel();
                    }
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        done
    })
}

/// Whether a writer waits for a session that keeps writers out: it has the lock of the partitions' table, so that
/// they can't be exchanged before it has gone on.
fn is_waited_for(session: &mut Session, pid: i32) -> bool {
    let waiting = format!(
        "SELECT FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'
            AND {pid} = ANY (pg_blocking_pids(pid)) LIMIT 1"
    );
    // Of a session that is lost, other statements tell.
    session.query(&waiting).is_ok_and(|found| !found.is_empty())
}

/// Locks out writers of the partitions until the transaction ends; false where they do not end.
fn keep_writers_out(session: &mut Session, olds: &[QualifiedName]) -> Result<bool> {
    let names: Vec<String> = olds.iter().map(ToString::to_string).collect();
    let locked = session.execute(&format!(
        "SET LOCAL lock_timeout = {WRITERS_MS}; LOCK TABLE {} IN SHARE MODE",
        names.join(", ")
    ));
    match locked.map_err(failed) {
        Err(error) if is_locked(&error) => Ok(false),
        done => done.map(|_| true),
    }
}

/// The bytes of a table with its indexes.
fn size(session: &mut Session, leaf: &QualifiedName) -> Result<u64> {
    let name = quote_literal(&leaf.to_string()).map_err(failed)?;
    let found = session
        .query(&format!("SELECT pg_total_relation_size({name}::regclass) AS bytes"))
        .map_err(failed)?;
    Ok(found.first().and_then(|row| row.number("bytes")).unwrap_or_default())
}
