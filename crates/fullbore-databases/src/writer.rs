//! One stream's connection: each piece is a transaction that has its rows and its row of the ledger.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use fullbore_load::plan::{Plan, PlannedPiece};
use fullbore_load::sink::{Portion, Receipt, Writer};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::error::{differs, of_piece};
use crate::ledger;
use crate::link::{Ingest, Link};
use crate::sink::Rows;

/// The right to write, where a database gives it to one connection at a time.
#[derive(Default)]
pub struct Turn {
    is_taken: Mutex<bool>,
    given: Condvar,
}

impl Turn {
    fn take(&self) {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.given.wait_while(is_taken, |is_taken| *is_taken);
        *taken.unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn give(&self) {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.given.notify_one();
    }
}

pub struct RowWriter<'a> {
    rows: &'a Rows,
    plan: Arc<Plan>,
    link: Box<dyn Link>,
    /// The piece whose transaction is open.
    piece: Option<PlannedPiece>,
    ingest: Option<Box<dyn Ingest>>,
    bytes: u64,
    has_turn: bool,
}

impl<'a> RowWriter<'a> {
    pub fn new(rows: &'a Rows, plan: &Arc<Plan>) -> Result<Self> {
        Ok(Self {
            rows,
            plan: plan.clone(),
            link: rows.database().link()?,
            piece: None,
            ingest: None,
            bytes: 0,
            has_turn: false,
        })
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.has_turn) {
            self.rows.turn().give();
        }
    }

    fn commit_piece(&mut self, piece: &PlannedPiece, portion: &Portion) -> Result<Receipt> {
        let taken = match self.ingest.take() {
            Some(mut ingest) => ingest.end()?,
            None => Some(0),
        };
        let rows = portion.rows_sent;
        if let Some(taken) = taken.filter(|taken| *taken != rows) {
            return Err(differs(
                format!("the driver took {taken} of {rows} rows of piece {}", piece.number),
                "nothing of the piece is committed; report this with the driver's version",
            ));
        }
        let noted = match self.rows.keeps_ledger() {
            true => ledger::note(self.link.as_mut(), &self.plan.run_id, piece, rows, portion),
            false => Ok(()),
        };
        let committed = noted.and_then(|()| self.link.commit());
        committed.map_err(|error| self.told(piece, error))?;
        Ok(Receipt { rows, bytes_sent: self.bytes })
    }

    /// What is behind a commit that failed: DuckDB's driver takes rows that it refuses without a word, and only ends
    /// the transaction.
    fn told(&self, piece: &PlannedPiece, error: Error) -> Error {
        let is_ended = error.to_string().contains("transaction is aborted");
        if !is_ended || self.rows.is_staged(piece.table) {
            return error;
        }
        let table = self.rows.name(piece.table);
        Error::Destination {
            message: format!(
                "{} refused rows of piece {} of {table}, and its driver does not tell why; usually they \
                 violate a constraint",
                self.rows.database().name(),
                piece.number
            ),
            hint: Some(
                "load with --atomic: staged rows are inserted by a statement that tells".into(),
            ),
            kind: DestinationFailure::Other,
        }
    }
}

impl Writer for RowWriter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        if self.rows.writes_in_turn() {
            self.rows.turn().take();
            self.has_turn = true;
        }
        // What an idle transaction sees is old.
        self.link.rollback()?;
        self.bytes = 0;
        self.piece = Some(piece.clone());
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        let Some(piece) = &self.piece else { return Ok(()) };
        if self.ingest.is_none() {
            let (table, form) = self.rows.way(&self.plan, piece.table)?;
            self.ingest = Some(self.link.ingest(&table, &form)?);
        }
        let Some(ingest) = &mut self.ingest else { return Ok(()) };
        self.bytes += encoded.len() as u64;
        ingest.send(encoded).map_err(of_piece)
    }

    fn commit(&mut self, portion: &Portion) -> Result<Receipt> {
        let Some(piece) = self.piece.clone() else { return Ok(Receipt::default()) };
        let receipt = self.commit_piece(&piece, portion).map_err(of_piece)?;
        self.piece = None;
        self.end_turn();
        Ok(receipt)
    }

    fn rollback(&mut self) -> Result<()> {
        self.ingest = None;
        self.piece = None;
        let rolled_back = self.link.rollback();
        self.end_turn();
        rolled_back
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        if self.piece.is_some() {
            // Nothing hears of it any more.
            let _ = self.rollback();
        }
    }
}
