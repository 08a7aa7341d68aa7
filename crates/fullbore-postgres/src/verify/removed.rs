//! Subtracts rejected rows from the expected sums of their table.
//!
//! Violations of unique and foreign keys are found after a piece's sums were computed, but sums can be
//! subtracted. `violations` re-reads the files for the records of removed rows, each of which is the same as its
//! row in every column (but for the time of loading, which may differ between attempts). So what the server
//! sums of these rows stands for what the files hold, and a fault in the table still shows.

use std::collections::BTreeMap;

use fullbore_load::plan::Plan;
use fullbore_load::sums::Sums;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::Verify;

use super::sql::Detail;
use super::sql::Formula;
use super::state::PieceProof;
use super::store;
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;

/// The column that tells the heap of a row, in every table of `violations`.
const HEAP: &str = "fullbore_heap";

/// The sums of what is taken out of a table, by the number of the heap.
pub struct RemovedSums {
    formula: Formula,
    taken: BTreeMap<usize, Sums>,
}

impl RemovedSums {
    /// None where nothing is summed.
    pub fn of(
        postgres: &Postgres,
        session: &mut Session,
        plan: &Plan,
        table: usize,
        like: Option<&QualifiedName>,
    ) -> Result<Option<Self>> {
        let Some(like) = like.filter(|_| plan.verify == Verify::Full) else { return Ok(None) };
        let columns = postgres.summed_columns(plan, table)?;
        let formula = Formula::of(session, postgres.hash_kind(), &like.to_string(), &columns)?;
        Ok(Some(Self { formula, taken: BTreeMap::new() }))
    }

    /// Rows that leave the table.
    pub fn taken_out(&mut self, session: &mut Session, rows: &str) -> Result<()> {
        let found = self
            .formula
            .ask(session, rows, Some(HEAP), Detail::Everything)
            .map_err(|error| failed_while(error, "summing the rows that violate constraints"))?;
        let read = |(heap, sums): (String, Sums)| {
            let heap = heap.parse().map_err(|_| {
                failed(fullbore_pgwire::ConnectionError::protocol(
                    "a row that was taken out does not say where it was",
                ))
            })?;
            Ok((heap, sums))
        };
        self.taken = found.into_iter().map(read).collect::<Result<_>>()?;
        Ok(())
    }
}

/// Whether rows were taken out of the table of these pieces: their sums are known by heap, not by piece.
pub fn has_removed_rows(pieces: &[(usize, PieceProof)]) -> bool {
    pieces.iter().any(|(_, proof)| proof.removed.is_some())
}

impl Postgres {
    /// Keeps sums in the ledger, in the transaction that is open: by piece, of which each heap has one
    /// to stand for it.
    pub(crate) fn keep_removed(
        &self,
        session: &mut Session,
        sums: Option<RemovedSums>,
        pieces: &[usize],
    ) -> Result<BTreeMap<usize, Sums>> {
        let of_heaps = sums.map(|sums| sums.taken).unwrap_or_default();
        let of_piece = |(heap, sums): (usize, Sums)| Some((*pieces.get(heap)?, sums));
        let of_pieces: BTreeMap<usize, Sums> = of_heaps.into_iter().filter_map(of_piece).collect();
        if let Some(ledger) = self.ledger() {
            for (piece, sums) in &of_pieces {
                store::add_removed(session, ledger, *piece, sums)?;
            }
        }
        Ok(of_pieces)
    }
}
