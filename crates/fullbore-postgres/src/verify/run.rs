//! Compares a finished run with its checksums again, or with new checksums of its files.

use std::collections::BTreeMap;

use fullbore_pgwire::{QualifiedName, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::{Publish, Stage};
use serde::Serialize;

use super::anew::{Anew, LedgerPiece, with_transactions, without_removed_rows};
use super::compare::{Finding, compare};
use super::comparison::{Comparison, Rows};
use super::removed::has_removed_rows;
use super::state::PieceProof;
use super::store;
use crate::catalog::XID_BITS;
use crate::error::{failed, refuse};
use crate::ledger::read::{LedgerRow, rows};
use crate::ledger::runs::{LedgerRun, LedgerTable};
use crate::ledger::undo;
use crate::postgres::Postgres;

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub run_id: String,
    pub rows: u64,
    pub pieces: u64,
    pub columns: u64,
    pub findings: Vec<Finding>,
    pub not_covered: Vec<String>,
}

/// What the ledger tells of a run's rows.
struct Told {
    kept: BTreeMap<usize, LedgerPiece>,
    /// Of pieces that were loaded with checksums.
    proofs: BTreeMap<usize, PieceProof>,
    /// The pieces that are compared are not those of the run.
    is_cut_anew: bool,
}

/// Before this version each refused row costs a savepoint, which is a transaction of its own.
const SKIPS_BAD_ROWS: u32 = 170_000;

impl Postgres {
    /// Compares a run's rows, as they are in its tables now.
    pub fn verify_run(
        &self,
        schema: &str,
        run: &LedgerRun,
        anew: Option<Anew>,
        sessions: usize,
    ) -> Result<Report> {
        if !run.state.is_shown() {
            return Err(refuse(
                format!(
                    "run {} is {}: its rows are not all published",
                    run.run_id,
                    run.state.name()
                ),
                "only finished runs can be compared",
            ));
        }
        self.check_alone(schema, run)?;
        let told = Told {
            kept: self.kept_pieces(schema, run)?,
            proofs: store::read(&mut self.control(), schema, &run.run_id)?,
            is_cut_anew: anew.as_ref().is_some_and(|anew| anew.is_cut_anew),
        };
        let (kept, known) = (&told.kept, &told.proofs);
        let mut parts = Vec::new();
        let mut not_covered = Vec::new();
        let proofs = match &anew {
            None => {
                let lacking =
                    kept.iter().find(|(piece, kept)| kept.rows > 0 && !known.contains_key(piece));
                if let Some((piece, _)) = lacking {
                    return Err(refuse(
                        format!(
                            "run {} was loaded without checksums (piece {piece} has none)",
                            run.run_id
                        ),
                        "compare with its files: --against; load with --verify full to keep checksums",
                    ));
                }
                known.clone()
            }
            Some(anew) => {
                let mut proofs = with_transactions(anew, known, kept);
                for number in 0..run.tables.len() {
                    not_covered.extend(without_removed_rows(
                        run,
                        number,
                        &mut proofs,
                        anew,
                        known,
                        kept,
                    )?);
                }
                proofs
            }
        };
        for number in 0..run.tables.len() {
            let of_table = |piece: &usize| match &anew {
                Some(anew) => anew.tables.get(piece) == Some(&number),
                None => kept.get(piece).is_some_and(|kept| kept.table == number),
            };
            let pieces: Vec<(usize, PieceProof)> = proofs
                .iter()
                .filter(|(piece, _)| of_table(piece))
                .map(|(piece, proof)| (*piece, proof.clone()))
                .collect();
            let rows: u64 = kept.values().filter(|k| k.table == number).map(|k| k.rows).sum();
            if anew.is_some() && pieces.is_empty() && rows > 0 {
                let target = &run.tables[number].target;
                return Err(refuse(
                    format!(
                        "the files have no rows for {target}, but run {} loaded {rows} rows into \
                         it",
                        run.run_id
                    ),
                    "specify the files that were loaded: --against FILES",
                ));
            }
            parts.extend(self.parts_shown(schema, run, number, pieces, &told)?);
        }
        let is_other = anew.as_ref().is_some_and(|anew| anew.is_of_other_files);
        let mut findings = Vec::new();
        // Files that are named may have been mended: whether the rows taken out are in them is not known.
        let mended = parts.iter().map(Comparison::with_removed).collect::<Vec<_>>();
        if !is_other || mended == parts || !compare(self, sessions, &mended)?.is_empty() {
            findings = compare(self, sessions, &parts)?;
        } else {
            parts = mended;
        }
        let mut report = Report {
            run_id: run.run_id.to_string(),
            rows: parts.iter().map(|part| part.expected().rows).sum(),
            pieces: parts.iter().map(|part| part.pieces.len() as u64).sum(),
            columns: 0,
            findings,
            not_covered,
        };
        for (number, table) in run.tables.iter().enumerate() {
            let its = parts.iter().find(|part| part.table == number);
            let Some((_, proof)) = its.and_then(|part| part.pieces.first()) else { continue };
            report.columns += proof.columns.len() as u64;
            report.not_covered.extend(self.left_out(&table.target, &proof.columns)?);
        }
        Ok(report)
    }

    /// Refuses a part of a load of several hosts, where its rows can't be told from the others'.
    fn check_alone(&self, schema: &str, run: &LedgerRun) -> Result<()> {
        let is_shared = |table: &LedgerTable| table.stage() == Stage::Staging;
        let Some(table) = run.tables.iter().find(|table| is_shared(table)) else { return Ok(()) };
        match self.part_of(schema, &run.run_id)? {
            None => Ok(()),
            Some(part) => Err(refuse(
                format!(
                    "{} holds the rows of all parts of a load, and those of {} can't be \
                     identified",
                    table.target,
                    part.words()
                ),
                "only parts loaded with --publish partitions can be compared",
            )),
        }
    }

    fn kept_pieces(&self, schema: &str, run: &LedgerRun) -> Result<BTreeMap<usize, LedgerPiece>> {
        let sql = format!(
            "SELECT run, piece, target, rows, rejected, xid_from FROM {schema}.pieces WHERE run = {}",
            quote_literal(&run.run_id).map_err(failed)?
        );
        let read = |row: &LedgerRow| {
            let kept = LedgerPiece {
                table: row.number("target")?,
                rows: row.number("rows")?,
                rejected: row.number("rejected")?,
                xid: (row.number::<u64>("xid_from")? & XID_BITS) as u32,
            };
            Ok((row.number("piece")?, kept))
        };
        rows(&mut self.control(), &sql).map_err(failed)?.iter().map(read).collect()
    }

    /// Where the rows of a table of the run are now.
    fn parts_shown(
        &self,
        schema: &str,
        run: &LedgerRun,
        number: usize,
        pieces: Vec<(usize, PieceProof)>,
        told: &Told,
    ) -> Result<Vec<Comparison>> {
        let table = &run.tables[number];
        let target = table.target.clone();
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        let whole = |rows, tells: bool| Comparison {
            table: number,
            holder: target.clone(),
            rows,
            tells_pieces: tells
                && !told.is_cut_anew
                && pieces.len() > 1
                && !has_removed_rows(&pieces),
            pieces: pieces.clone(),
        };
        Ok(match table.publish {
            Publish::Partitions if told.is_cut_anew => {
                return Err(refuse(
                    format!(
                        "{target} was loaded as partitions, and the files are split differently now"
                    ),
                    "compare with the files that were loaded: --against without file names",
                ));
            }
            Publish::Partitions => {
                let shown = undo::shown_names(&mut self.control(), schema, run, number)?;
                let mut parts = Vec::new();
                for (piece, proof) in pieces {
                    let Some(holder) = shown.get(&piece) else { continue };
                    parts.push(Comparison {
                        table: number,
                        holder: holder.clone(),
                        rows: Rows::All,
                        tells_pieces: false,
                        pieces: vec![(piece, proof)],
                    });
                }
                parts
            }
            Publish::Replace => vec![whole(Rows::All, true)],
            Publish::Upsert => {
                return Err(refuse(
                    format!(
                        "rows were merged with others of {target}, which may have changed since"
                    ),
                    "load with --verify full, which compares rows as they are merged",
                ));
            }
            Publish::Append if table.atomic => {
                let xid = self.xid_published(schema, run)?;
                vec![whole(Rows::OfTransactions(vec![xid]), false)]
            }
            Publish::Append => {
                let its = || told.kept.iter().filter(|(_, k)| k.table == number && k.rows > 0);
                // Of a piece without checksums only the first transaction is known, not those of its
                // savepoints.
                let is_lacking = |(piece, kept): (&usize, &LedgerPiece)| {
                    let has_savepoints = self.version() < SKIPS_BAD_ROWS || kept.rejected > 0;
                    has_savepoints && !told.proofs.contains_key(piece)
                };
                if its().any(is_lacking) {
                    return Err(refuse(
                        format!("the rows that were appended to {target} can't be identified"),
                        "load with --verify full, which records all transactions that write rows",
                    ));
                }
                let xids = its()
                    .flat_map(|(piece, kept)| match told.proofs.get(piece) {
                        Some(known) => known.xids.clone(),
                        None => vec![kept.xid],
                    })
                    .collect();
                vec![whole(Rows::OfTransactions(xids), true)]
            }
        })
    }

    /// The transaction that showed the run's rows.
    fn xid_published(&self, schema: &str, run: &LedgerRun) -> Result<u32> {
        let sql = format!(
            "SELECT run, xid_published FROM {schema}.runs WHERE run = {}",
            quote_literal(&run.run_id).map_err(failed)?
        );
        let rows = rows(&mut self.control(), &sql).map_err(failed)?;
        let xid =
            rows.first().map(|row| row.number::<u64>("xid_published")).ok_or_else(|| {
                refuse(
                    format!("the ledger does not record how run {} was published", run.run_id),
                    "the ledger was changed outside Fullbore",
                )
            })??;
        Ok((xid & XID_BITS) as u32)
    }

    /// Columns of a table that did not come from files.
    fn left_out(&self, target: &QualifiedName, sent: &[String]) -> Result<Option<String>> {
        let found = crate::catalog::relation(&mut self.control(), target).map_err(failed)?;
        let Some(relation) = found else { return Ok(None) };
        let columns = relation.columns.iter().map(|column| &column.name);
        let left: Vec<&str> =
            columns.filter(|name| !sent.contains(name)).map(String::as_str).collect();
        let words = || format!("{target}: {} did not come from the files", left.join(", "));
        Ok((!left.is_empty()).then(words))
    }
}
