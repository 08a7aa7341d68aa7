//! Deletes the rows that a run appended to a table, found by the transactions that wrote them: exactly
//! those, or none.
//!
//! The ledger records each piece's transaction and number of rows. Under a lock that excludes writers, the
//! number of rows with these transaction ids, and the number of deleted rows, must equal the recorded
//! number. Updated rows have another id, and rows written under a savepoint may have; then nothing is
//! deleted. Ids in rows have 32 bits: after a wraparound an old row can have the same id, so then only
//! rows in blocks added since are deleted.

use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use super::pieces::{self, transactions};
use super::read::numbers;
use super::runs::{LedgerRun, LedgerTable};
use crate::catalog::XID_BITS;
use crate::error::{failed, failed_while, refuse};
use crate::verify::size::extents;
use crate::verify::store;

/// Whether a table's rows are its own ones among others.
pub(super) fn is_appended(table: &LedgerTable) -> bool {
    table.publish == Publish::Append
}

/// Deletes a run's rows from the table of a number, in the transaction that is open; how many.
pub(super) fn delete(
    session: &mut Session,
    schema: &str,
    run: &LedgerRun,
    number: usize,
) -> Result<u64> {
    let table = &run.tables[number];
    let target = &table.target;
    let id = quote_literal(&run.run_id).map_err(failed)?;
    let [expected] = numbers(
        session,
        &format!(
            "SELECT coalesce(sum(rows), 0) AS rows FROM {schema}.pieces
              WHERE run = {id} AND target = {number}"
        ),
        ["rows"],
    )?;
    if expected == 0 {
        return Ok(0);
    }
    let known = super::loaded::number_of(session, target)?;
    let oid = table.shown.map_or(table.oid, |shown| shown.oid);
    if known != Some(oid) {
        return Err(not_exact(run, &format!("{target} is not the table that was loaded")));
    }
    session
        .execute(&format!("LOCK TABLE {target} IN SHARE ROW EXCLUSIVE MODE"))
        .map_err(|error| failed_while(error, &format!("locking {target}")))?;
    let mut xids = match table.atomic {
        true => {
            let sql = format!("SELECT xid_published AS xid FROM {schema}.runs WHERE run = {id}");
            numbers(session, &sql, ["xid"])?.to_vec()
        }
        false => transactions(session, schema, &run.run_id, number)?,
    };
    let [next] = numbers(
        session,
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next",
        ["next"],
    )?;
    let first = xids.iter().copied().min().unwrap_or(next);
    if next.saturating_sub(first) > XID_BITS / 2 {
        return Err(not_exact(run, "too many transactions have run since the load"));
    }
    let mut conditions = Vec::new();
    if next > XID_BITS {
        let before = table.before.as_ref().and_then(|before| before.first());
        let now = extents(session, oid)?.unwrap_or_default();
        match (before, now.as_slice()) {
            (Some(before), [now]) if (before.oid, before.file) == (now.oid, now.file) => {
                conditions.push(format!("ctid >= '({},0)'::tid", before.blocks));
            }
            _ => {
                return Err(not_exact(run, "transaction IDs have wrapped around since the load"));
            }
        }
    }
    if !table.atomic {
        let committed = pieces::committed(session, schema, &run.run_id)?;
        for (piece, proof) in store::read(session, schema, &run.run_id)? {
            // Some have numbers that were not planned.
            let is_its = committed.iter().any(|its| its.piece == piece && its.table == number);
            xids.extend(proof.xids.iter().filter(|_| is_its).map(|xid| u64::from(*xid)));
        }
    }
    let list: Vec<String> = xids.iter().map(|xid| (xid & XID_BITS).to_string()).collect();
    conditions.push(format!("xmin = ANY ('{{{}}}'::xid[])", list.join(",")));
    let condition = conditions.join(" AND ");
    let counting = format!("SELECT count(*) AS rows FROM {target} WHERE {condition}");
    let [found] = numbers(session, &counting, ["rows"])?;
    if found != expected {
        return Err(not_exact(
            run,
            &format!(
                "{expected} rows were committed to {target}, and {found} can be identified now"
            ),
        ));
    }
    let deleted = session
        .execute(&format!("DELETE FROM {target} WHERE {condition}"))
        .map_err(|error| failed_while(error, &format!("deleting from {target}")))?;
    if deleted != expected {
        return Err(not_exact(
            run,
            &format!(
                "only {deleted} of {expected} rows of {target} were deleted (triggers, rules or \
                 policies)"
            ),
        ));
    }
    Ok(deleted)
}

fn not_exact(run: &LedgerRun, why: &str) -> Error {
    refuse(
        format!("the rows of run {} can't be deleted exactly: {why}", run.run_id),
        "nothing was deleted; delete the rows manually by a condition that identifies them",
    )
}
