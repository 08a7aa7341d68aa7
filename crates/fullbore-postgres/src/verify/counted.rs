//! Quick verification on the server's side: rows are counted where they are, before they are published.
//!
//! The ledger's counts were right when they were committed. A table that was truncated since, or rows of
//! it deleted, is found only by looking. Staged and new tables hold nothing but the run's rows: all of
//! them are counted. Of a table that was appended to, the run's rows are identified by the transactions that
//! wrote them, and looked for in the blocks that the table gained since the run began; only what is not
//! there is looked for in older ones, where these are not many.
//!
//! Reading all of what was just written takes a quarter of the time that writing took. So
//! `--verify quick` counts only if the server's statistics cannot prove that no row was removed
//! ([`statistics`]), and `--verify count` always.

use std::sync::Mutex;

use fullbore_load::plan::Plan;
use fullbore_load::sink::Committed;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::{Stage, Verify};

use super::size::{Extent, Leaf, extents, leaves, pages};
use super::staged::may_change_rows;
use super::state::Counted;
use super::statistics;
use crate::catalog::XID_BITS;
use crate::error::{failed, failed_while, refuse};
use crate::ledger::read::numbers;
use crate::ledger::{locks, pieces, runs};
use crate::postgres::Postgres;
use crate::publish::target_lock;
use crate::workers::side_by_side;

/// Pages that are worth a query of their own.
const PAGES_MIN: u64 = 8192;
/// Older blocks are looked through up to so many bytes, or so many times what the table gained.
const OLD_BYTES_MAX: u64 = 256 * 1024 * 1024;
const OLD_SHARE_MAX: u64 = 4;
/// Counts what a run has loaded, where the server's statistics don't say enough, and fails where there are
/// fewer rows than were committed.
pub fn count(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<()> {
    let mut counted = Counted::default();
    // A crash takes the statistics, and between attempts it may have come.
    let may_ask = plan.verify == Verify::Quick && !postgres.is_of_several();
    let mut heaps: Vec<(QualifiedName, u64)> = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        let its = || committed.iter().filter(|piece| piece.table == table);
        let rows = its().map(|piece| piece.rows).sum();
        match target.stage() {
            _ if its().next().is_none() => {}
            Stage::Target => {
                let mut session = postgres.usable_control()?;
                match gained(postgres, &mut session, plan, table, rows, may_ask)? {
                    Gained::All => counted.rows += rows,
                    Gained::Unchanged => counted.rows_unchanged += rows,
                    Gained::NotKnown(why) => {
                        counted.not_counted.push(format!("{}: {why}", target.name()))
                    }
                }
            }
            Stage::Staging => heaps.push((target.staging(plan)?, rows)),
            Stage::Pieces => {
                for piece in its() {
                    heaps.push((target.piece(plan, piece.piece)?, piece.rows));
                }
            }
        }
    }
    if may_ask {
        let made = heaps.iter().map(|(name, rows)| statistics::Made {
            name,
            has_rows: *rows > 0,
            file: postgres.verification.file_of(name),
            deleted: postgres.verification.deleted_from(name),
        });
        let made: Vec<_> = made.collect();
        let mut session = postgres.usable_control()?;
        let is_whole = statistics::are_whole(&mut session, &made)?;
        drop(session);
        let mut is_whole = is_whole.into_iter();
        heaps.retain(|(_, rows)| {
            let is_whole = is_whole.next().unwrap_or(false);
            counted.rows_unchanged += if is_whole { *rows } else { 0 };
            !is_whole
        });
    }
    let found = count_heaps(postgres, plan.streams, &heaps)?;
    for ((name, expected), found) in heaps.iter().zip(found) {
        if found != *expected {
            return Err(Error::Destination {
                message: format!("{name} has {found} rows, but {expected} were committed to it"),
                hint: Some(
                    "another session deleted rows of it or truncated it; nothing was published: \
                     load again"
                        .into(),
                ),
                kind: DestinationFailure::Differs,
            });
        }
        counted.rows += found;
    }
    postgres.verification.set_counted(counted);
    Ok(())
}

/// Counts the rows of tables, over several sessions where they are large.
fn count_heaps(
    postgres: &Postgres,
    sessions: usize,
    heaps: &[(QualifiedName, u64)],
) -> Result<Vec<u64>> {
    let mut counts = vec![0; heaps.len()];
    let mut queries = Vec::new();
    let mut control = postgres.usable_control()?;
    let mut pages_all = 0;
    for (heap, (name, _)) in heaps.iter().enumerate() {
        let pages = pages(&mut control, name)?.ok_or_else(|| {
            refuse(
                format!("{name} no longer exists; it held rows of the run"),
                "another session dropped it",
            )
        })?;
        pages_all += pages;
        let each = (pages / (2 * sessions as u64).max(1) + 1).max(PAGES_MIN);
        let starts: Vec<u64> = (0..pages.max(1)).step_by(each as usize).collect();
        for (at, start) in starts.iter().enumerate() {
            // The last one has no end, and the first one no beginning: rows may be anywhere.
            let from = (*start > 0).then(|| format!("ctid >= '({start},0)'::tid"));
            let to = starts.get(at + 1).map(|end| format!("ctid < '({end},0)'::tid"));
            let ends: Vec<String> = from.into_iter().chain(to).collect();
            let condition = match ends.is_empty() {
                true => String::new(),
                false => format!(" WHERE {}", ends.join(" AND ")),
            };
            queries.push((heap, format!("SELECT count(*) AS rows FROM {name}{condition}")));
        }
    }
    let ask = |session: &mut Session, (heap, query): &(usize, String)| -> Result<(usize, u64)> {
        let what = format!("counting the rows of {}", heaps[*heap].0);
        let rows = session.query(query).map_err(|error| failed_while(error, &what))?;
        let found = rows.first().and_then(|row| row.get("rows")).and_then(|n| n.parse().ok());
        Ok((*heap, found.unwrap_or(0)))
    };
    let workers = sessions.min(queries.len());
    if pages_all < 2 * PAGES_MIN || workers < 2 {
        for query in &queries {
            let (heap, found) = ask(&mut control, query)?;
            counts[heap] += found;
        }
        return Ok(counts);
    }
    drop(control);
    let next = Mutex::new(queries.iter());
    let counts = Mutex::new(counts);
    side_by_side(workers, |_, _| {
        let mut session = postgres.session()?;
        if !postgres.is_pooled {
            locks::settle(&mut session, None).map_err(failed)?;
        }
        loop {
            let query = next.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
            let Some(query) = query else { return Ok(()) };
            let (heap, found) = ask(&mut session, query)?;
            counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[heap] += found;
        }
    })?;
    Ok(counts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// What is known of the rows that a run appended to a table.
enum Gained {
    /// All were found.
    All,
    /// Nothing was taken from the table.
    Unchanged,
    /// Why they were not counted.
    NotKnown(String),
}

/// Counts the rows that a run appended to a table, of which there must be as many as are expected, unless
/// the server's statistics may be asked and say enough.
fn gained(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    expected: u64,
    may_ask: bool,
) -> Result<Gained> {
    let target = &postgres.targets()[table];
    let name = target.name();
    let not_counted = |why: &str| Ok(Gained::NotKnown(why.to_owned()));
    let Some(ledger) = postgres.ledger() else {
        return not_counted("without a ledger its new rows can't be identified");
    };
    let found = runs::find(session, &ledger.schema, &runs::Which::Run(&ledger.run_id))?;
    let run = found.into_iter().next();
    let before = run.and_then(|run| run.tables.into_iter().nth(table)).and_then(|t| t.before);
    let Some(before) = before else {
        return not_counted("its size before the load is not known");
    };
    let leaves = leaves(session, postgres.planned(table).oid()).map_err(failed)?;
    let renewed = postgres.verification.renewed(table);
    if may_ask && is_unchanged(renewed.as_ref().unwrap_or(&before), &leaves) {
        return Ok(Gained::Unchanged);
    }
    if leaves.iter().any(|leaf| !leaf.is_plain) {
        return not_counted("its rows are stored elsewhere");
    }
    if leaves.iter().any(|leaf| !leaf.may_read) {
        return not_counted("this role lacks SELECT privilege on it");
    }
    if leaves.iter().any(|leaf| leaf.is_filtered) {
        return not_counted("row security hides rows of it from this role");
    }
    let transactions = pieces::transactions(session, &ledger.schema, &ledger.run_id, table)?;
    let mut its = Its::of(session, &transactions)?;
    let (mut gained, mut old) = (0, 0);
    let mut starts = Vec::new();
    for leaf in &leaves {
        // A table with another file was truncated, or written anew.
        let then =
            before.iter().find(|then| then.oid == leaf.now.oid && then.file == leaf.now.file);
        let start = then.map_or(0, |then| then.blocks);
        gained += leaf.now.blocks.saturating_sub(start);
        old += start.min(leaf.now.blocks);
        starts.push(start);
    }
    for (leaf, start) in
        leaves.iter().zip(&starts).filter(|(leaf, start)| leaf.now.blocks > **start)
    {
        its.look(session, leaf, &format!("ctid >= '({start},0)'::tid"))?;
    }
    if its.exact == expected {
        return Ok(Gained::All);
    }
    let block = 8192;
    if old * block > OLD_BYTES_MAX.max(gained * block * OLD_SHARE_MAX) {
        let found = its.exact;
        return not_counted(&format!(
            "{found} of {expected} rows were found in its new pages; the others are in free space \
             of its old pages"
        ));
    }
    for (leaf, start) in leaves.iter().zip(&starts).filter(|(_, start)| **start > 0) {
        its.look(session, leaf, &format!("ctid < '({start},0)'::tid"))?;
    }
    if its.exact == expected {
        return Ok(Gained::All);
    }
    // Rows that subtransactions wrote have numbers that nobody has noted.
    for leaf in &leaves {
        its.look_within(session, leaf)?;
    }
    if its.within.is_none_or(|within| within >= expected) {
        return not_counted("some rows were written by transactions whose IDs are unknown");
    }
    if may_change_rows(session, target).map_err(failed)? {
        return not_counted("its triggers or rules may have changed rows");
    }
    let run = &plan.run_id;
    Err(Error::Destination {
        message: format!(
            "{name} holds {} of the {expected} rows that this run committed to it",
            its.within.unwrap_or(its.exact)
        ),
        hint: Some(format!(
            "another session deleted or updated rows of it, or truncated it; `fullbore runs abort \
             {run}` closes the run and removes nothing"
        )),
        kind: DestinationFailure::Differs,
    })
}

/// Notes in which files the rows of tables are that were appended to, before they are verified.
pub fn note_files(postgres: &Postgres) -> Result<()> {
    for (table, target) in postgres.targets().iter().enumerate() {
        if !target.is_piecewise() {
            continue;
        }
        let mut session = postgres.usable_control()?;
        if let Some(files) = extents(&mut session, postgres.planned(table).oid())? {
            postgres.verification.set_seen(table, files);
        }
    }
    Ok(())
}

/// Holds a table that was appended to as it is until the open transaction ends, and counts its rows once
/// more where since [`note_files`] it was truncated or written anew.
pub fn hold(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    committed: &[Committed],
) -> Result<()> {
    let its = committed.iter().filter(|piece| piece.table == table);
    let rows = its.map(|piece| piece.rows).sum();
    let Some(seen) = postgres.verification.seen(table).filter(|_| rows > 0) else { return Ok(()) };
    let planned = postgres.planned(table);
    // Its name may have passed to another table.
    let name = planned.name_now(session)?;
    target_lock::lock(session, &name, target_lock::Partitions::Too)?;
    let now = leaves(session, planned.oid()).map_err(failed)?;
    let is_there = |then: &Extent| {
        now.iter().any(|leaf| (leaf.now.oid, leaf.now.file) == (then.oid, then.file))
    };
    if seen.iter().all(is_there) {
        return Ok(());
    }
    if let Gained::NotKnown(why) = gained(postgres, session, plan, table, rows, false)? {
        let why = format!("{}: it was rewritten during verification, and {why}", planned.name());
        postgres.verification.add_not_counted(why);
    }
    Ok(())
}

/// Whether nothing was taken from a table and its partitions since the run began: they are the same, in
/// the same files, and no row was deleted or updated.
fn is_unchanged(before: &[Extent], leaves: &[Leaf]) -> bool {
    let same = |leaf: &Leaf| {
        let then = before.iter().find(|then| then.oid == leaf.now.oid);
        then.is_some_and(|then| {
            then.file == leaf.now.file
                && then.changes.is_some()
                && then.changes == leaf.now.changes
                && leaf.is_plain
        })
    };
    before.len() == leaves.len() && leaves.iter().all(same)
}

/// Rows of a run, by the transactions that wrote them.
struct Its {
    transactions: String,
    /// Numbers that its subtransactions have, and those of others.
    range: (u64, u64),
    exact: u64,
    /// Rows that may be its own; not known where numbers began anew.
    within: Option<u64>,
}

impl Its {
    fn of(session: &mut Session, transactions: &[u64]) -> Result<Self> {
        let [next] = numbers(
            session,
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next",
            ["next"],
        )?;
        let first = transactions.iter().copied().min().unwrap_or(next);
        let list: Vec<String> =
            transactions.iter().map(|xid| (xid & XID_BITS).to_string()).collect();
        let range = (first & XID_BITS, next & XID_BITS);
        Ok(Self {
            transactions: list.join(","),
            range,
            exact: 0,
            within: (range.0 <= range.1 && next - first < XID_BITS / 2).then_some(0),
        })
    }

    /// Adds the rows of some blocks that its own transactions wrote.
    fn look(&mut self, session: &mut Session, leaf: &Leaf, condition: &str) -> Result<()> {
        let condition = format!("{condition} AND xmin = ANY ('{{{}}}'::xid[])", self.transactions);
        self.exact += count_where(session, leaf, &condition)?;
        Ok(())
    }

    /// Adds the rows that transactions of its time wrote.
    fn look_within(&mut self, session: &mut Session, leaf: &Leaf) -> Result<()> {
        let (from, to) = self.range;
        if let Some(within) = &mut self.within {
            let condition = format!("xmin::text::bigint BETWEEN {from} AND {to}");
            *within += count_where(session, leaf, &condition)?;
        }
        Ok(())
    }
}

fn count_where(session: &mut Session, leaf: &Leaf, condition: &str) -> Result<u64> {
    let sql = format!("SELECT count(*) AS rows FROM ONLY {} WHERE {condition}", leaf.name);
    let rows = session
        .query(&sql)
        .map_err(|error| failed_while(error, &format!("counting the rows of {}", leaf.name)))?;
    let found = rows.first().and_then(|row| row.get("rows"));
    Ok(found.and_then(|n| n.parse().ok()).unwrap_or(0))
}
