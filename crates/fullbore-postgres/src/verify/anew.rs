//! Sums of files that were read again, which replace a run's own.

use std::collections::BTreeMap;

use fullbore_read::error::Result;

use super::state::PieceProof;
use crate::error::refuse;
use crate::ledger::runs::LedgerRun;

/// Sums to compare with, beside those of the ledger.
#[derive(Debug, Clone, Default)]
pub struct Anew {
    pub proofs: BTreeMap<usize, PieceProof>,
    /// Pieces that are not those of the run: only whole tables can be compared.
    pub is_cut_anew: bool,
    /// The table of each piece.
    pub tables: BTreeMap<usize, usize>,
    /// Rows that were rejected this time, by table.
    pub rejected: Vec<u64>,
    /// The files were named, and may be others than those that were loaded.
    pub is_of_other_files: bool,
}

/// What the ledger knows of a committed piece.
pub struct LedgerPiece {
    pub table: usize,
    pub rows: u64,
    pub rejected: u64,
    pub xid: u32,
}

/// Sums that were made of the files anew, with the transactions that the ledger knows.
pub fn with_transactions(
    anew: &Anew,
    known: &BTreeMap<usize, PieceProof>,
    kept: &BTreeMap<usize, LedgerPiece>,
) -> BTreeMap<usize, PieceProof> {
    let mut proofs = BTreeMap::new();
    for (piece, proof) in &anew.proofs {
        let mut proof = proof.clone();
        if !anew.is_cut_anew {
            proof.xids = match known.get(piece) {
                Some(known) => known.xids.clone(),
                None => kept.get(piece).map(|kept| kept.xid).into_iter().collect(),
            };
        }
        proofs.insert(*piece, proof);
    }
    if anew.is_cut_anew {
        return proofs;
    }
    // What the ledger has rows of and the files have not must be compared, too.
    for (piece, kept) in kept.iter().filter(|(_, kept)| kept.rows > 0) {
        let is_its = |other: &&usize| anew.tables.get(other) == Some(&kept.table);
        let like = anew.proofs.iter().find(|(other, _)| is_its(other)).map(|(_, proof)| proof);
        if let Some(like) = like.or_else(|| known.get(piece))
            && !proofs.contains_key(piece)
        {
            let sums = fullbore_load::sums::Sums::of_columns(like.columns.len());
            let xids = vec![kept.xid];
            proofs.insert(*piece, PieceProof { sums, xids, ..like.clone() });
        }
    }
    proofs
}

/// Takes the rows that violated constraints out of sums that were made of the files anew; what there is to say of
/// it. Rows that broke other constraints are rows like any other to the files.
pub fn without_removed_rows(
    run: &LedgerRun,
    number: usize,
    proofs: &mut BTreeMap<usize, PieceProof>,
    anew: &Anew,
    known: &BTreeMap<usize, PieceProof>,
    kept: &BTreeMap<usize, LedgerPiece>,
) -> Result<Option<String>> {
    let is_its = |piece: &usize| kept.get(piece).is_some_and(|kept| kept.table == number);
    let then: u64 = kept.values().filter(|k| k.table == number).map(|kept| kept.rejected).sum();
    let mut rejected = anew.rejected.get(number).copied().unwrap_or(0);
    let mut rows = 0;
    for (piece, proof) in known.iter().filter(|(piece, _)| is_its(piece)) {
        let Some(removed) = &proof.removed else { continue };
        let first = || proofs.keys().find(|piece| anew.tables.get(piece) == Some(&number)).copied();
        let to = if anew.is_cut_anew { first() } else { Some(*piece) };
        let Some(made) = to.and_then(|piece| proofs.get_mut(&piece)) else { continue };
        if (made.hash, &made.columns) == (proof.hash, &proof.columns) {
            made.removed.get_or_insert_default().merge(removed);
            rows += removed.rows;
        }
    }
    rejected += rows;
    let target = &run.tables[number].target;
    if then > rejected && !anew.is_of_other_files {
        let broken = then - rejected;
        return Err(refuse(
            format!(
                "{broken} of the {then} rows that run {} rejected for {target} violated \
                 constraints, and its files do not identify them",
                run.run_id
            ),
            "omit --against to compare with the checksums of a load with --verify full, or use \
             files without these rows: --against FILES",
        ));
    }
    let is_unclear = anew.is_of_other_files && then + rows > rejected;
    Ok(is_unclear.then(|| {
        let broken = then + rows - rejected;
        format!(
            "{target}: {broken} of the rows that run {} rejected violated constraints; if the \
             given files still have them, they may be reported as missing",
            run.run_id
        )
    }))
}
