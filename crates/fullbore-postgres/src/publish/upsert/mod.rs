//! `upsert`: rows wait in an unlogged table, and are merged with those of the target by a key.
//!
//! Once all pieces are committed, their rows are ranked: a second unlogged table has one row for each key, in the
//! order of the target's index. Stretches of its pages are the parts that sessions merge side by side. No two
//! parts have a key in common, so none waits for another, and each walks through the index once. A part is a
//! transaction: an UPDATE of rows that differ, an INSERT of those that are missing (a MERGE where the server says what
//! became of each row), and its row of the ledger ([`crate::ledger::merges`]). Loads into one target merge one after the other.
//!
//! With `--atomic`, or without a ledger, all parts are merged in the transaction that publishes.

pub mod key;
mod statements;

use std::cell::Cell;
use std::ops::Range;
use std::sync::PoisonError;
use std::time::Duration;

use fullbore_load::plan::Plan;
use fullbore_load::plan::lineage::ORDER_COLUMN;
use fullbore_load::sink::Committed;
use fullbore_pgwire::session::path;
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::Verify;
use fullbore_record::{Event, Merged};

use super::append;
use super::hidden;
use super::locking::{Frame, LockWait, insist, is_locked};
use super::ours::ours;
use super::replace::tools::{SORTS, in_transaction};
use super::target_lock::{Partitions, lock};
use crate::error::{failed, failed_while};
use crate::ledger::merges::{self, Done, Part, Round};
use crate::ledger::{Ledger, locks};
use crate::postgres::Postgres;
use crate::target::PostgresTable;
use crate::verify::size::pages;
use crate::verify::staged::may_change_rows;
use statements::{SETTINGS, Statements, USUAL_SETTINGS};

/// Pages of one part at most: what is done again after a failure.
const PART_PAGES_MAX: u64 = 8192;
/// Parts for each session, so that all end at about the same time.
const PARTS_PER_SESSION: u64 = 8;
/// The first version whose MERGE says what became of each row.
const SAYS_WHAT_IT_MERGED: u32 = 170_000;
/// How often it is looked whether another load has merged its rows.
const TURN: Duration = Duration::from_millis(200);
/// A transaction that others kept from being serialized.
const NOT_SERIALIZABLE: &str = "40001";
/// A row with the same key came from another session meanwhile; or it is another key that is taken, again and again.
const TAKEN: &str = "23505";
const TAKEN_TIMES: u32 = 3;

/// Makes the table that rows wait in, with their order.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    if let Some(ledger) = ledger_of_parts(postgres, target) {
        merges::make(session, &ledger.schema)?;
    }
    append::prepare(session, plan, table, target)?;
    let staging = target.staging(plan)?;
    let mut sql = format!("ALTER TABLE {staging} ADD {ORDER_COLUMN} bigint");
    for column in target.merging.iter().flat_map(|merging| &merging.key) {
        sql.push_str(&format!(", ALTER {} SET NOT NULL", column.quoted));
    }
    session.execute(&sql).map(drop).map_err(failed)
}

/// The ledger that parts are written down in, where they are merged one by one.
fn ledger_of_parts<'a>(postgres: &'a Postgres, target: &PostgresTable) -> Option<&'a Ledger> {
    postgres.ledger().filter(|_| target.merging.is_some() && !target.atomic)
}

/// Ranks the rows of all targets, and merges them part by part where they are not to be shown at once.
pub fn merge(postgres: &Postgres, plan: &Plan) -> Result<()> {
    // Those of an attempt before this one.
    end_turns(postgres);
    // All runs in one order: turns that are kept can't be waited for in a circle.
    let mut targets: Vec<_> = postgres.targets().iter().enumerate().collect();
    targets.sort_by_key(|(_, target)| target.name().to_string());
    for (table, target) in targets {
        let Some(statements) = Statements::of(plan, table, target)? else { continue };
        let work = Work { postgres, plan, table, target, statements };
        match ledger_of_parts(postgres, target) {
            Some(ledger) => work.merge_in_parts(ledger)?,
            None => in_transaction(&mut postgres.marked_session()?, |session| work.rank(session))?,
        }
    }
    Ok(())
}

/// Lets other loads merge their rows, once those of all targets are shown.
pub fn end_turns(postgres: &Postgres) {
    postgres.turns.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Ends the merge of a target, in the transaction that publishes; `committed` are the pieces of it. `taken` counts how
/// often a key was taken by another row, over all attempts.
pub fn show(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    committed: &[&Committed],
    taken: &Cell<u32>,
) -> Result<()> {
    let target = &postgres.targets()[table];
    let Some(statements) = Statements::of(plan, table, target)? else { return Ok(()) };
    let work = Work { postgres, plan, table, target, statements };
    postgres.planned(table).check(session)?;
    let merged = match ledger_of_parts(postgres, target) {
        Some(ledger) => match merges::totals(session, ledger, table)? {
            (merged, 0) => merged,
            (_, left) => return Err(work.not_merged(left)),
        },
        None => {
            let pages = 0..work.pages(session)?;
            let merged = work.merge_pages(session, &pages, taken)?;
            session.execute(&LockWait::of(plan).set_local()).map_err(failed)?;
            merged
        }
    };
    let deleted = match work.statements_delete(merged.rows, committed)? {
        Some(sql) => {
            session.execute(USUAL_SETTINGS).map_err(failed)?;
            // A crash of the server has emptied it, and every row would be missing in it.
            let counted = session.query(&work.statements.count_all()).map_err(failed)?;
            if counted.first().and_then(|row| row.number("rows")) != Some(merged.rows) {
                return Err(work.not_merged(1));
            }
            session
                .execute(&sql)
                .map_err(|error| failed_while(error, &format!("deleting from {}", target.name())))?
        }
        None => 0,
    };
    let staged: u64 = committed.iter().map(|piece| piece.rows).sum();
    let staging = target.staging(plan)?;
    for name in [&staging, &work.statements.ranked] {
        if ours(session, name, &target.relation)?.is_some() {
            session.execute(&format!("DROP TABLE {name}")).map_err(failed)?;
        }
    }
    if let Some(ledger) = ledger_of_parts(postgres, target).filter(|_| deleted > 0) {
        merges::note_deleted(session, ledger, table, deleted)?;
    }
    postgres.verification.set_merged(table, told(Done { deleted, ..merged }, staged));
    Ok(())
}

/// What became of `staged` rows, in the words of a record.
fn told(done: Done, staged: u64) -> Merged {
    let Done { rows, inserted, updated, deleted } = done;
    Merged {
        inserted,
        updated,
        deleted,
        unchanged: rows.saturating_sub(inserted + updated),
        duplicates: staged.saturating_sub(rows),
    }
}

/// Finds what became of rows that another process, or a transaction of which nobody heard, has published.
pub fn remember(postgres: &Postgres, committed: &[Committed]) -> Result<()> {
    for (table, target) in postgres.targets().iter().enumerate() {
        let Some(ledger) = ledger_of_parts(postgres, target) else { continue };
        if postgres.verification.knows_merged(table) {
            continue;
        }
        let (done, _) = merges::totals(&mut postgres.control(), ledger, table)?;
        let its = committed.iter().filter(|piece| piece.table == table);
        postgres.verification.set_merged(table, told(done, its.map(|piece| piece.rows).sum()));
    }
    Ok(())
}

struct Work<'a> {
    postgres: &'a Postgres,
    plan: &'a Plan,
    table: usize,
    target: &'a PostgresTable,
    statements: Statements<'a>,
}

impl Work<'_> {
    fn not_merged(&self, parts: u64) -> Error {
        Error::Destination {
            message: format!("{parts} parts of {} are not merged", self.target.name()),
            hint: None,
            kind: DestinationFailure::Lost,
        }
    }

    fn deletes_missing(&self) -> bool {
        self.target.merging.as_ref().is_some_and(|merging| merging.asked.delete_missing)
    }

    fn statements_delete(&self, rows: u64, committed: &[&Committed]) -> Result<Option<String>> {
        if !self.deletes_missing() {
            return Ok(None);
        }
        let rejected = committed.iter().map(|piece| piece.portion.rejected).sum();
        self.statements.check_delete(rows, rejected)?;
        Ok(Some(self.statements.delete_missing()))
    }

    /// Ranks the rows, in the transaction that is open.
    fn rank(&self, session: &mut Session) -> Result<()> {
        let ranked = &self.statements.ranked;
        ours(session, &self.target.staging(self.plan)?, &self.target.relation)?;
        if ours(session, ranked, &self.target.relation)?.is_some() {
            session.execute(&format!("DROP TABLE {ranked}")).map_err(failed)?;
        }
        let hidden = hidden::hide(&ranked.to_string()).map_err(failed)?;
        session
            .execute(&format!("{SORTS}; {}; {hidden}", self.statements.rank()?))
            .map(drop)
            .map_err(|error| {
                failed_while(error, &format!("sorting rows of {}", self.target.name()))
            })
    }

    /// Pages of the ranked rows.
    fn pages(&self, session: &mut Session) -> Result<u64> {
        Ok(pages(session, &self.statements.ranked)?.unwrap_or_default())
    }

    fn merge_in_parts(&self, ledger: &Ledger) -> Result<()> {
        let mut session = self.postgres.marked_session()?;
        self.take_turn(&mut session)?;
        let mut round = merges::last_round(&mut session, ledger, self.table)?;
        let end = round.parts.last().map_or(0, |part| part.end);
        // What others have merged since an earlier attempt would be deleted, or kept, by the chance of its key.
        let may_be_overtaken =
            self.deletes_missing() && round.parts.iter().any(|part| part.is_done);
        // A crash of the server empties the table.
        if round.parts.is_empty() || may_be_overtaken || self.pages(&mut session)? != end {
            round = self.begin_round(&mut session, ledger, round.number + 1)?;
        }
        let open: Vec<Part> = round.parts.iter().filter(|part| !part.is_done).copied().collect();
        let open = far_apart(&open, self.plan.streams);
        let merged = self.postgres.share_out(self.plan.streams, open, |session, part| {
            self.merge_part(session, ledger, round.number, part)
        });
        merged.map_err(with_what_stays)?;
        // The turn ends with its session: not before rows are deleted that are in no source.
        if self.deletes_missing() {
            let mut turns = self.postgres.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.push(session);
        }
        Ok(())
    }

    /// Waits until no other load merges rows into the target: it would do so in another order.
    fn take_turn(&self, session: &mut Session) -> Result<()> {
        if self.postgres.is_pooled {
            return Ok(());
        }
        let key = locks::key("merge into", &self.target.name().to_string());
        let mut has_told = false;
        loop {
            if locks::try_lock(session, key)? {
                return Ok(());
            }
            if !std::mem::replace(&mut has_told, true) {
                let name = self.target.name();
                let notice = format!("waits for another load that merges rows into {name}");
                self.postgres.report(Event::Notice { notice });
            }
            self.postgres.rest(TURN)?;
        }
    }

    fn begin_round(&self, session: &mut Session, ledger: &Ledger, number: u32) -> Result<Round> {
        in_transaction(session, |session| {
            self.rank(session)?;
            let pages = self.pages(session)?;
            let sessions = self.plan.streams as u64;
            let each = pages.div_ceil(PARTS_PER_SESSION * sessions).clamp(1, PART_PAGES_MAX);
            // Without rows there is one part, which does nothing: a round has parts.
            let starts = (0..pages.max(1)).step_by(each as usize).zip(0..);
            let parts = starts.map(|(first, number)| {
                let end = (first + each).min(pages);
                Part { number, first, end, is_done: false }
            });
            let round = Round { number, parts: parts.collect() };
            merges::begin_round(session, ledger, self.table, &round)?;
            Ok(round)
        })
    }

    /// Merges a part in a transaction of its own, again where others are in the way.
    fn merge_part(
        &self,
        session: &mut Session,
        ledger: &Ledger,
        round: u32,
        part: Part,
    ) -> Result<()> {
        const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
        let taken = Cell::new(0);
        let work = |session: &mut Session| {
            if !merges::claim(session, ledger, self.table, round, part.number)? {
                return Ok(());
            }
            let done = self.merge_pages(session, &(part.first..part.end), &taken)?;
            merges::complete(session, ledger, self.table, (round, part.number), done)
        };
        let wait = LockWait::of(self.plan);
        session.execute(&format!("{BEGIN}; {}", wait.set_local())).map_err(failed)?;
        let merged =
            work(session).and_then(|()| session.execute(path::COMMIT).map(drop).map_err(failed));
        let Err(error) = merged else { return Ok(()) };
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
        if !is_locked(&error) {
            return Err(error);
        }
        // Who is in the way is asked only where somebody is.
        let what = format!("merging rows into {}", self.target.name());
        insist(self.postgres, session, &wait, Frame::Transaction(BEGIN), &what, work)
    }

    /// Merges a stretch of pages in the transaction that is open.
    fn merge_pages(
        &self,
        session: &mut Session,
        pages: &Range<u64>,
        taken: &Cell<u32>,
    ) -> Result<Done> {
        let planned = self.postgres.planned(self.table);
        lock(session, self.target.name(), Partitions::Not)?;
        planned.check(session)?;
        session.execute(SETTINGS).map_err(failed)?;
        let (updated, inserted) = match self.merging(session, pages)? {
            Some(sql) => {
                let merged = session.query(&sql).map_err(|error| self.stopped(error, taken))?;
                let number = |what: &str| merged.first().and_then(|row| row.number(what));
                let of = |what: &str| number(what).unwrap_or_default();
                (of("updated"), of("inserted"))
            }
            None => {
                let mut execute =
                    |sql: &str| session.execute(sql).map_err(|error| self.stopped(error, taken));
                let updated = self.statements.update(pages)?;
                let updated = updated.map_or(Ok(0), |sql| execute(&sql))?;
                (updated, execute(&self.statements.insert(pages))?)
            }
        };
        let rows = self.check(session, pages)?;
        // Once more: from here on the locks of the statements keep the table what it is.
        planned.check(session)?;
        Ok(Done { rows, inserted, updated, deleted: 0 })
    }

    /// The one statement that both updates and inserts, where the server has it for the table.
    fn merging(&self, session: &mut Session, pages: &Range<u64>) -> Result<Option<String>> {
        if session.server_version_num() < SAYS_WHAT_IT_MERGED {
            return Ok(None);
        }
        let oid = self.postgres.planned(self.table).oid();
        let rows = session.query(&format!(
            "SELECT EXISTS (SELECT FROM pg_class c
                             WHERE (c.oid = {oid} OR c.oid IN (SELECT relid FROM pg_partition_tree({oid})))
                               AND (c.relhasrules OR c.relkind = 'f')) AS cannot"
        ));
        let rows = rows.map_err(failed)?;
        let cannot = rows.first().is_some_and(|row| row.flag("cannot"));
        if cannot { Ok(None) } else { self.statements.merge(pages) }
    }

    /// What stopped a statement; what is over once it is tried again is a lock that was not had.
    fn stopped(&self, error: ConnectionError, taken: &Cell<u32>) -> Error {
        let is_over = match error.sqlstate() {
            Some(TAKEN) => {
                taken.set(taken.get() + 1);
                taken.get() < TAKEN_TIMES
            }
            code => code == Some(NOT_SERIALIZABLE),
        };
        match failed_while(error, &format!("merging rows into {}", self.target.name())) {
            Error::Destination { message, hint, .. } if is_over => {
                Error::Destination { message, hint, kind: DestinationFailure::Locked }
            }
            other => other,
        }
    }

    /// How many rows there were; refuses where some of them are not in the target as they should be, if that can be
    /// known: its triggers may change rows or keep them out.
    fn check(&self, session: &mut Session, pages: &Range<u64>) -> Result<u64> {
        let name = self.target.name();
        let compare = self.plan.verify == Verify::Full
            && !may_change_rows(session, self.target).map_err(failed)?;
        let found = session.query(&self.statements.count(pages, compare)?).map_err(failed)?;
        let number = |column: &str| -> u64 {
            found.first().and_then(|row| row.number(column)).unwrap_or_default()
        };
        match (number("missing"), number("differing")) {
            (0, 0) => Ok(number("rows")),
            (missing, differing) => Err(Error::Destination {
                message: format!(
                    "{missing} of the merged rows are not in {name}, and {differing} differ"
                ),
                hint: Some("another session changed them; load again".into()),
                kind: DestinationFailure::Differs,
            }),
        }
    }
}

/// Parts in an order in which sessions that take one after another work far from each other. A page of the target's
/// visibility map is of 32,000 pages that follow each other: it is locked while a change of one of them is logged.
fn far_apart(parts: &[Part], sessions: usize) -> Vec<Part> {
    let stretch = parts.len().div_ceil(sessions.max(1));
    let at = |first: usize| parts.iter().skip(first).step_by(stretch.max(1)).copied();
    (0..stretch).flat_map(at).collect()
}

/// An error that ends a merge of which parts are done: the run is kept, whatever it was.
fn with_what_stays(error: Error) -> Error {
    use DestinationFailure::{Constraint, Data};
    match error {
        Error::Destination { message, kind: Constraint | Data, .. } => Error::Destination {
            message: format!("{message}; rows that were merged before stay"),
            hint: Some(
                "mend the row or the table, then resume the run; --atomic merges all rows or none"
                    .into(),
            ),
            kind: DestinationFailure::Other,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_begin_far_from_each_other() {
        let part = |number| Part { number, first: 0, end: 0, is_done: false };
        for (parts, sessions, expected) in [
            (0, 2, vec![]),
            (1, 4, vec![0]),
            (6, 2, vec![0, 3, 1, 4, 2, 5]),
            (7, 3, vec![0, 3, 6, 1, 4, 2, 5]),
            (3, 0, vec![0, 1, 2]),
        ] {
            let parts: Vec<Part> = (0..parts).map(part).collect();
            let numbers: Vec<_> =
                far_apart(&parts, sessions).iter().map(|part| part.number).collect();
            assert_eq!(numbers, expected);
        }
    }
}
