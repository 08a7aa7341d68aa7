//! Full verification during a load: after the last commit and before publishing.
//!
//! It reads the tables that contain the rows at that time: each partition's table, the replacement, the
//! staging table of `append --atomic`; for plain `append`, the rows of the target that the pieces'
//! transactions wrote.

use std::collections::BTreeMap;

use fullbore_load::plan::Plan;
use fullbore_load::sink::Committed;
use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::{Stage, Verify};

use super::column::sent_columns;
use super::compare::{Finding, compare, compare_within};
use super::comparison::{Comparison, Rows};
use super::removed::has_removed_rows;
use super::state::{Compared, PieceProof};
use super::store;
use crate::error::{failed, refuse};
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// Differences that are told one by one.
const TOLD_MAX: usize = 10;

/// Fails where what was loaded is not what was read.
pub fn verify(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<()> {
    if plan.verify != Verify::Full {
        return Ok(());
    }
    let proofs = proofs(postgres, &mut postgres.control())?;
    let mut parts = Vec::new();
    for (table, target) in postgres.targets().iter().enumerate() {
        let pieces = proven(plan, table, committed, &proofs)?;
        parts.extend(parts_of(plan, table, target, pieces)?);
    }
    let findings = compare(postgres, plan.streams, &parts)?;
    if !findings.is_empty() {
        return Err(differs(&findings));
    }
    let mut compared = Compared::default();
    let removed =
        parts.iter().flat_map(|part| &part.pieces).filter_map(|(_, its)| its.removed.as_ref());
    compared.violations = removed.map(|sums| sums.rows).sum();
    for (table, target) in postgres.targets().iter().enumerate() {
        let sent = sent_columns(plan, table);
        let left: Vec<&str> = target
            .relation
            .columns
            .iter()
            .filter(|column| !sent.contains(&column.name))
            .map(|column| column.name.as_str())
            .collect();
        compared.columns += sent.len() as u64;
        compared.not_covered.extend((!left.is_empty()).then(|| {
            format!("{}: {} did not come from the files", plan.tables[table].name, left.join(", "))
        }));
    }
    postgres.verification.set_compared(compared);
    Ok(())
}

/// Fails where rows are no longer what was read, once they are in the target: its triggers and rules
/// see them only there. Within the transaction that shows them, by `session`.
pub fn verify_shown(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    committed: &[Committed],
) -> Result<()> {
    let target = &postgres.targets()[table];
    if plan.verify != Verify::Full || !may_change_rows(session, target).map_err(failed)? {
        return Ok(());
    }
    let pieces = proven(plan, table, committed, &proofs(postgres, session)?)?;
    if pieces.is_empty() {
        return Ok(());
    }
    let rows = Rows::OfTransactions(vec![store::transaction(session).map_err(failed)?]);
    let part =
        Comparison { table, holder: target.name().clone(), rows, tells_pieces: false, pieces };
    match compare_within(session, &part)?.as_slice() {
        [] => Ok(()),
        findings => Err(differs(findings)),
    }
}

/// Whether rows that are inserted may become other rows, be left out, or be changed afterwards, by what
/// the target has of its own.
pub(crate) fn may_change_rows(
    session: &mut Session,
    target: &PostgresTable,
) -> Result<bool, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT EXISTS (
             SELECT FROM (SELECT {oid} AS oid
                          UNION SELECT relid FROM pg_partition_tree({oid})) AS tree
               JOIN pg_class c ON c.oid = tree.oid
              WHERE c.relkind = 'f'
                 OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid
                               AND NOT t.tgisinternal AND t.tgenabled <> 'D')
                 OR EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid
                               AND r.ev_type <> '1' AND r.ev_enabled <> 'D')) AS may",
        oid = format_args!("{}::regclass", quote_literal(&target.name().to_string())?)
    ))?;
    Ok(rows.first().is_some_and(|row| row.flag("may")))
}

/// The proofs of a table's committed pieces.
fn proven(
    plan: &Plan,
    table: usize,
    committed: &[Committed],
    proofs: &BTreeMap<usize, PieceProof>,
) -> Result<Vec<(usize, PieceProof)>> {
    let mut pieces = Vec::new();
    for piece in committed.iter().filter(|piece| piece.table == table) {
        match proofs.get(&piece.piece) {
            Some(proof) => pieces.push((piece.piece, proof.clone())),
            // A piece without rows has none.
            None if piece.rows == 0 => {}
            None => return Err(unproven(plan, piece.piece)),
        }
    }
    Ok(pieces)
}

/// The proofs of all committed pieces: those of the ledger, where there is one.
fn proofs(postgres: &Postgres, session: &mut Session) -> Result<BTreeMap<usize, PieceProof>> {
    match postgres.ledger() {
        Some(ledger) => store::read(session, &ledger.schema, &ledger.run_id),
        None => Ok(postgres.verification.proofs()),
    }
}

fn unproven(plan: &Plan, piece: usize) -> Error {
    let run = &plan.run_id;
    refuse(
        format!(
            "piece {piece} was committed without checksums, before --verify full was requested"
        ),
        format!(
            "resume without it (fullbore runs resume {run} --verify quick), then compare with the \
             files: fullbore runs verify {run} --against"
        ),
    )
}

fn parts_of(
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
    pieces: Vec<(usize, PieceProof)>,
) -> Result<Vec<Comparison>> {
    if pieces.is_empty() {
        return Ok(Vec::new());
    }
    let whole = |holder, rows, pieces: Vec<(usize, PieceProof)>| Comparison {
        table,
        holder,
        rows,
        tells_pieces: pieces.len() > 1 && !has_removed_rows(&pieces),
        pieces,
    };
    Ok(match target.stage() {
        Stage::Pieces => {
            let mut parts = Vec::new();
            for piece in pieces {
                let holder = target.piece(plan, piece.0)?;
                parts.push(whole(holder, Rows::All, vec![piece]));
            }
            parts
        }
        Stage::Target => {
            let xids = pieces.iter().flat_map(|(_, proof)| proof.xids.clone()).collect();
            vec![whole(target.name().clone(), Rows::OfTransactions(xids), pieces)]
        }
        Stage::Staging => {
            vec![whole(target.staging(plan)?, Rows::All, pieces)]
        }
    })
}

fn differs(findings: &[Finding]) -> Error {
    let told: Vec<String> = findings.iter().take(TOLD_MAX).map(Finding::to_string).collect();
    let more = findings.len().saturating_sub(TOLD_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Error::Destination {
        message: format!("the loaded rows differ from the rows read: {}{more}", told.join("; ")),
        hint: Some(
            "triggers of the table may have changed rows, which is not an error; otherwise check \
             the machines' memory and disks before you load again"
                .into(),
        ),
        kind: DestinationFailure::Differs,
    }
}
