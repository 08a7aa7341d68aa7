//! The planned ranges of partitions, tried before a row moves.

use fullbore_load::plan::{KeyBounds, Plan, PlannedPiece};
use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use super::bounds::{bounds, end_sql};
use super::existing;
use super::locking::{Frame, LockWait, insist, is_locked};
use crate::error::{failed, failed_while};
use crate::naming::derived;
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// Lets the server judge the planned ranges before a row moves: each is attached, empty, in a
/// transaction that is rolled back.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
) -> Result<()> {
    try_ranges(postgres, session, &[plan], table)
}

/// The same for the plans of all parts of a load together.
pub fn try_ranges(
    postgres: &Postgres,
    session: &mut Session,
    plans: &[&Plan],
    table: usize,
) -> Result<()> {
    let target = &postgres.targets()[table];
    let wait = LockWait::beforehand(plans[0]);
    let what = format!("trying the new partitions of {}", target.name());
    insist(postgres, session, &wait, Frame::Trial, &what, |session| {
        try_each(session, plans, table, target)
    })
}

fn try_each(
    session: &mut Session,
    plans: &[&Plan],
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    lock_if_replaced(session, plans, table, target)?;
    let ranges: Vec<Range<'_>> = plans
        .iter()
        .flat_map(|plan| plan.pieces.iter().map(move |piece| (*plan, piece)))
        .filter(|(_, piece)| piece.table == table)
        .map(|(plan, piece)| Range { plan, first: piece, last: piece })
        .collect();
    let joined = joined(&ranges);
    if joined.len() < ranges.len() {
        session.execute("SAVEPOINT joined").map_err(failed)?;
        match joined.iter().try_for_each(|range| try_range(session, target, range)) {
            Err(error) if !error.is_lost() && !is_locked(&error) => {
                // Which of them it is, one by one.
                session.execute("ROLLBACK TO SAVEPOINT joined").map_err(failed)?;
            }
            tried => return tried,
        }
    }
    ranges.iter().try_for_each(|range| try_range(session, target, range))
}

/// Pieces of a plan whose ranges follow each other.
#[derive(Clone, Copy)]
struct Range<'a> {
    plan: &'a Plan,
    first: &'a PlannedPiece,
    last: &'a PlannedPiece,
}

/// Ranges that follow each other without a gap as one: it overlaps with another where one of them does, and
/// hundreds of partitions take seconds to try.
fn joined<'a>(ranges: &[Range<'a>]) -> Vec<Range<'a>> {
    let mut joined: Vec<Range<'_>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(before) if follows(before.last, range.first) => before.last = range.last,
            _ => joined.push(*range),
        }
    }
    joined
}

/// Whether a range begins where another one ends. Keys are numbers here, so that their order is the server's.
fn follows(one: &PlannedPiece, next: &PlannedPiece) -> bool {
    let (one, next) = (bounds(one), bounds(next));
    let is_plain = |bounds: &KeyBounds| {
        let keys = (bounds.keys.lower, bounds.keys.upper);
        bounds.replaces.is_none() && matches!(keys, (Some(lower), Some(upper)) if lower < upper)
    };
    is_plain(one) && is_plain(next) && one.upper == next.lower
}

/// Locks a target whose partitions are to give their place, before the first attach takes less of it:
/// whoever reads meanwhile would wait for us, and we for them.
pub fn lock_if_replaced(
    session: &mut Session,
    plans: &[&Plan],
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    let mut pieces = plans.iter().flat_map(|plan| &plan.pieces);
    match pieces.any(|piece| piece.table == table && bounds(piece).replaces.is_some()) {
        true => existing::lock_parent(session, target),
        false => Ok(()),
    }
}

fn try_range(session: &mut Session, target: &PostgresTable, range: &Range<'_>) -> Result<()> {
    let Range { plan, first: piece, last } = range;
    let relation = &target.relation;
    let lower = end_sql(relation, &bounds(piece).lower)?;
    let upper = end_sql(relation, &bounds(last).upper)?;
    if let Some(partition) = existing::replaced(session, relation, piece)? {
        existing::vacate(session, target, partition)?;
    }
    // Not the piece's own name: that of another part of the load may be there already.
    let name = derived(target.name(), &plan.run_id, &format!("range{:05}", piece.number));
    let name = name.map_err(failed)?;
    session
        .execute(&format!(
            "CREATE TABLE {name} PARTITION OF {} FOR VALUES FROM ({lower}) TO ({upper})",
            target.name()
        ))
        .map_err(|error| failed_while(error, "the new rows' key range can't be attached"))?;
    Ok(())
}
