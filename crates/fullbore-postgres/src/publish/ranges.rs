//! The planned ranges of partitions, tried before a row moves.

use fullbore_load::plan::{KeyBounds, Plan, PlannedPiece};
use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use super::bounds::{bounds, end_sql};
use super::existing;
use super::locking::{Frame, LockWait, insist};
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
    for plan in plans {
        for piece in plan.pieces.iter().filter(|piece| piece.table == table) {
            try_range(session, plan, target, piece)?;
        }
    }
    Ok(())
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

fn try_range(
    session: &mut Session,
    plan: &Plan,
    target: &PostgresTable,
    piece: &PlannedPiece,
) -> Result<()> {
    let relation = &target.relation;
    let KeyBounds { lower, upper, .. } = bounds(piece);
    let (lower, upper) = (end_sql(relation, lower)?, end_sql(relation, upper)?);
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
