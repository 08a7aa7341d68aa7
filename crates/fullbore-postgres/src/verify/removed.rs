//! Subtracts rejected rows from the expected sums of their table.
//!
//! Violations of unique and foreign keys are found after a piece's sums were computed, but sums can be
//! subtracted. `violations` re-reads the files for the records of removed rows, each of which is the same as its
//! row in every column (but for the time of loading, which may differ between attempts). So what the server
//! sums of these rows stands for what the files hold, and a fault in the table still shows.

use std::collections::BTreeMap;

use fullbore_load::plan::Plan;
use fullbore_load::sums::Sums;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session};
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

/// Whether rows were taken out of the table of these pieces: their sums are known by heap, not by piece.
pub fn has_removed_rows(pieces: &[(usize, PieceProof)]) -> bool {
    pieces.iter().any(|(_, proof)| proof.removed.is_some())
}

impl Postgres {
    /// Keeps the sums of rows that leave a table, in the transaction that is open: by piece, of which each heap has
    /// one to stand for it. Nothing where nothing is summed. `like`: a table of the same columns.
    pub(crate) fn keep_removed(
        &self,
        session: &mut Session,
        plan: &Plan,
        table: usize,
        like: &QualifiedName,
        rows: &str,
        pieces: &[usize],
    ) -> Result<BTreeMap<usize, Sums>> {
        let mut of_pieces = BTreeMap::new();
        if plan.verify != Verify::Full {
            return Ok(of_pieces);
        }
        let columns = self.summed_columns(plan, table)?;
        let formula = Formula::of(session, self.hash_kind(), &like.to_string(), &columns)?;
        let found = formula
            .ask(session, rows, Some(HEAP), Detail::Everything)
            .map_err(|error| failed_while(error, "summing the rows that violate constraints"))?;
        for (heap, sums) in found {
            let heap: usize = heap.parse().map_err(|_| {
                failed(ConnectionError::protocol(
                    "a row that was taken out does not say where it was",
                ))
            })?;
            let Some(piece) = pieces.get(heap) else { continue };
            if let Some(ledger) = self.ledger() {
                store::add_removed(session, ledger, *piece, &sums)?;
            }
            of_pieces.insert(*piece, sums);
        }
        Ok(of_pieces)
    }
}
