//! Merges neighbouring partitions into one, with its rows in order and its indexes built once.
//!
//! One session keeps writers out of the partitions that are merged; readers go on. Another copies their rows into a
//! new table and commits it. Then the first one exchanges them in one short transaction. A merge that ends before that
//! leaves a table that nobody reads, which the next one drops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_pgwire::{ConnectionOptions, QualifiedName, Session, quote_identifier};
use fullbore_read::error::Result;

use super::policy::Part;
use super::{Table, connect, insist, is_ours, shape};
use crate::error::{failed, failed_while};
use crate::ledger::locks;
use crate::ledger::read::rows;
use crate::publish::hidden;
use crate::publish::locking::is_locked;

/// How long writers of the merged partitions are waited for.
const WRITERS_MS: u64 = 2000;
/// How long the exchange is tried: as long, writers of these partitions wait.
const EXCHANGE: Duration = Duration::from_secs(60);

/// What a merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    Done(Part),
    /// Somebody else merges, or uses the table all the time.
    Busy,
}

/// Merges partitions of a table.
pub struct Merger {
    options: ConnectionOptions,
    table: Table,
    /// Columns by which rows are put in order, quoted.
    order: Vec<String>,
}

impl Merger {
    /// `order`: the names of the columns by which rows of a merged partition are put in order.
    pub fn new(options: &ConnectionOptions, table: &Table, order: &[String]) -> Result<Self> {
        let order = order.iter().map(|column| quote_identifier(column).map_err(failed));
        Ok(Self {
            options: options.clone(),
            table: table.clone(),
            order: order.collect::<Result<_>>()?,
        })
    }

    /// Merges neighbours, unless it is told to stop before they are exchanged.
    pub fn merge(&self, parts: &[Part], stop: &AtomicBool) -> Result<Merged> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Ok(Merged::Busy);
        };
        let mut keeper = connect(&self.options)?;
        keeper.execute("BEGIN").map_err(failed)?;
        if !self.is_alone(&mut keeper)? {
            return Ok(Merged::Busy);
        }
        let mut worker = connect(&self.options)?;
        self.drop_left(&mut worker)?;
        let count: u64 = parts.iter().map(|part| part.batches).sum();
        let leaf = shape::leaf(&self.table.name, first.first, last.last)?;
        let olds = parts.iter().map(|part| shape::leaf(&self.table.name, part.first, part.last));
        let olds = olds.collect::<Result<Vec<QualifiedName>>>()?;
        if !keep_writers_out(&mut keeper, &olds)? {
            return Ok(Merged::Busy);
        }
        let Table { oid, ledger, .. } = &self.table;
        let its = format!("target = {oid} AND first = {} AND last = {}", first.first, last.last);
        worker
            .execute(&format!(
                "INSERT INTO {ledger}.batches (target, first, last, batches, state)
                 VALUES ({oid}, {}, {}, {count}, 'merging')",
                first.first, last.last
            ))
            .map_err(failed)?;
        let filled = self.fill(&mut worker, &leaf, &olds, first.first, last.last);
        let mut merged = match filled {
            Ok(rows) => Part {
                first: first.first,
                last: last.last,
                batches: count,
                rows,
                bytes: 0,
                oldest_s: first.oldest_s,
                newest_s: last.newest_s,
            },
            Err(error) => {
                // The first error is the one to tell.
                let _ = worker.execute("ROLLBACK");
                let _ = self.drop_left(&mut worker);
                return Err(error);
            }
        };
        merged.bytes = size(&mut worker, &leaf)?;
        let numbers: Vec<String> =
            parts.iter().map(|part| format!("({}, {})", part.first, part.last)).collect();
        let settle = format!(
            "DELETE FROM {ledger}.batches WHERE target = {oid} AND (first, last) IN ({}) AND state = 'attached';
             UPDATE {ledger}.batches SET state = 'attached', rows = {}, bytes = {},
                    oldest = to_timestamp({}), newest = to_timestamp({}) WHERE {its}",
            numbers.join(", "),
            merged.rows,
            merged.bytes,
            merged.oldest_s,
            merged.newest_s
        );
        let exchanged =
            self.exchange(&mut keeper, &leaf, &olds, (first.first, last.last), &settle, stop)?;
        if exchanged {
            return Ok(Merged::Done(merged));
        }
        // Writers that wait for the partitions go on.
        keeper.execute("ROLLBACK").map_err(failed)?;
        self.drop_left(&mut worker)?;
        Ok(Merged::Busy)
    }

    /// Whether nobody else merges partitions of the table, until the session's transaction ends.
    fn is_alone(&self, session: &mut Session) -> Result<bool> {
        let key = locks::key("merge", &self.table.oid.to_string());
        is_ours(session, &format!("pg_try_advisory_xact_lock({key})"))
    }

    /// Drops what merges left that ended early. Only for who is alone.
    fn drop_left(&self, session: &mut Session) -> Result<()> {
        let Table { oid, ledger, name } = &self.table;
        let left = rows(
            session,
            &format!("SELECT first, last FROM {ledger}.batches WHERE target = {oid} AND state = 'merging'"),
        )
        .map_err(failed)?;
        for row in left {
            let (first, last): (u64, u64) = (row.number("first")?, row.number("last")?);
            let leaf = shape::leaf(name, first, last)?;
            session
                .execute(&format!(
                    "BEGIN; DROP TABLE IF EXISTS {leaf};
                     DELETE FROM {ledger}.batches WHERE target = {oid} AND first = {first} AND last = {last}
                        AND state = 'merging'; COMMIT"
                ))
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the new table with the rows of the old ones; how many there are.
    fn fill(
        &self,
        session: &mut Session,
        leaf: &QualifiedName,
        olds: &[QualifiedName],
        first: u64,
        last: u64,
    ) -> Result<u64> {
        let columns = shape::columns(session, &self.table)?;
        let rows: Vec<String> =
            olds.iter().map(|old| format!("SELECT {columns} FROM {old}")).collect();
        let order = match self.order.is_empty() {
            true => String::new(),
            false => format!(" ORDER BY {}", self.order.join(", ")),
        };
        let create = shape::create(session, &self.table, leaf)?;
        let hide = hidden::hide(&leaf.to_string()).map_err(failed)?;
        // A sort may have what an index build has.
        session
            .execute(&format!(
                "BEGIN; SELECT set_config('work_mem', current_setting('maintenance_work_mem'), true); {create}; {hide}"
            ))
            .map_err(|error| failed_while(error, &format!("making {leaf}")))?;
        let what = format!("merging partitions into {leaf}");
        let copied = session
            .execute(&format!("INSERT INTO {leaf} ({columns}) {}{order}", rows.join(" UNION ALL ")))
            .map_err(|error| failed_while(error, &what))?;
        let mut statements =
            shape::index_statements(session, self.table.oid, &self.table.name, leaf)?;
        statements.push(shape::bound(leaf, first, last)?);
        statements.push(format!("ANALYZE {leaf}"));
        statements.push("COMMIT".into());
        for statement in statements {
            session.execute(&statement).map_err(|error| failed_while(error, &what))?;
        }
        Ok(copied)
    }

    /// Puts the new partition in the place of the old ones; false where no moment was found for it.
    fn exchange(
        &self,
        session: &mut Session,
        leaf: &QualifiedName,
        olds: &[QualifiedName],
        (first, last): (u64, u64),
        settle: &str,
        stop: &AtomicBool,
    ) -> Result<bool> {
        let name = &self.table.name;
        let mut statements: Vec<String> =
            olds.iter().map(|old| format!("ALTER TABLE {name} DETACH PARTITION {old}")).collect();
        statements.extend(olds.iter().map(|old| format!("DROP TABLE {old}")));
        statements.push(shape::attach(&self.table, leaf, first, last));
        statements.push(hidden::reveal(&leaf.to_string()).map_err(failed)?);
        statements.push(settle.to_owned());
        let statements = statements.join("; ");
        let locked: Vec<String> = olds.iter().map(ToString::to_string).collect();
        // Readers of the partitions have the table's lock, too.
        let lock =
            format!("LOCK TABLE ONLY {name}, {} IN ACCESS EXCLUSIVE MODE", locked.join(", "));
        let until = Instant::now() + EXCHANGE;
        let gives_up = || Instant::now() > until || stop.load(Ordering::Relaxed);
        let what = format!("putting {leaf} in the place of {} partitions", olds.len());
        let done = insist(session, &lock, gives_up, |session| {
            session
                .execute(&format!("{statements}; COMMIT"))
                .map(drop)
                .map_err(|error| failed_while(error, &what))
        })?;
        Ok(done.is_some())
    }
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
    let name = fullbore_pgwire::quote_literal(&leaf.to_string()).map_err(failed)?;
    let found = session
        .query(&format!("SELECT pg_total_relation_size({name}::regclass) AS bytes"))
        .map_err(failed)?;
    Ok(found.first().and_then(|row| row.number("bytes")).unwrap_or_default())
}
