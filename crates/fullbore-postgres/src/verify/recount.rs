//! A sink that keeps nothing: files are parsed as they were for a load, typed rows are summed
//! here, and rows that go as text by the server, in temporary tables that are gone with their
//! transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use fullbore_load::plan::{Plan, PlannedPiece};
use fullbore_load::sink::{
    Committed, Encoder, Judging, Portion, Proven, Receipt, Refusal, Sink, Summer, TextRows,
    Verifying, Writer,
};
use fullbore_parse::Lane;
use fullbore_pgwire::Session;
use fullbore_read::error::Result;
use fullbore_record::Phase;

use super::beside::Beside;
use super::column::sent_columns;
use super::state::PieceProof;
use crate::encode_copy::TextEncoder;
use crate::error::failed;
use crate::ledger::locks;
use crate::postgres::Postgres;

/// Sums the rows of files, to be compared with a run's.
pub struct Recount<'a> {
    postgres: &'a Postgres,
    /// By piece: its table, and its sums.
    proofs: Mutex<BTreeMap<usize, (usize, PieceProof)>>,
}

impl<'a> Recount<'a> {
    pub fn new(postgres: &'a Postgres) -> Self {
        Self { postgres, proofs: Mutex::default() }
    }

    pub fn into_proofs(self) -> BTreeMap<usize, (usize, PieceProof)> {
        self.proofs.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Writes nothing: typed rows are summed, and that is all.
struct Nothing;

impl Encoder for Nothing {
    fn encode(&mut self, _: &RecordBatch, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

impl Sink for Recount<'_> {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let mut session = self.postgres.usable_control()?;
        self.postgres.check_verifiable(&mut session, plan)
    }

    fn encoder(&self, _: &Plan, _: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        Ok(match lane {
            Lane::Text => Box::new(TextEncoder::default()),
            Lane::Binary => Box::new(Nothing),
        })
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        let mut session = self.postgres.session()?;
        locks::settle(&mut session, None).map_err(failed)?;
        Ok(Box::new(Counter { recount: self, plan: plan.clone(), session, work: None }))
    }

    fn publish(&self, _: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        Ok(Vec::new())
    }

    fn abort(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }

    fn verifying(&self) -> Option<&dyn Verifying> {
        Some(self)
    }
}

impl Verifying for Recount<'_> {
    fn summer(&self, plan: &Plan, table: usize) -> Result<Option<Box<dyn Summer>>> {
        self.postgres.batch_summer(plan, table)
    }

    /// The sums themselves are what is wanted of it.
    fn verified(&self) -> Proven {
        Proven::default()
    }
}

struct Counter<'a> {
    recount: &'a Recount<'a>,
    plan: Arc<Plan>,
    session: Session,
    work: Option<(PlannedPiece, Option<Beside>)>,
}

impl Writer for Counter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        self.session.execute("BEGIN").map_err(failed)?;
        self.work = Some((piece.clone(), None));
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn judging(&mut self) -> Option<&mut dyn Judging> {
        Some(self)
    }

    fn commit(&mut self, portion: &Portion) -> Result<Receipt> {
        self.session.execute("ROLLBACK").map_err(failed)?;
        let (piece, beside) = self.work.take().expect("a piece was begun");
        let mut sums = portion.sums.clone().unwrap_or_default();
        if let Some(beside) = &beside {
            sums.merge(beside.sums());
        }
        let proof = PieceProof {
            hash: self.recount.postgres.hash_kind(),
            columns: sent_columns(&self.plan, piece.table),
            xids: Vec::new(),
            sums,
            removed: None,
        };
        let mut proofs = self.recount.proofs.lock().unwrap_or_else(|p| p.into_inner());
        proofs.insert(piece.number, (piece.table, proof));
        Ok(Receipt { rows: portion.rows_sent, bytes_sent: 0 })
    }

    fn rollback(&mut self) -> Result<()> {
        self.work = None;
        self.session.execute("ROLLBACK").map_err(failed)?;
        Ok(())
    }
}

impl Judging for Counter<'_> {
    /// Every row is judged by itself anyway.
    fn begin_row_by_row(&mut self, piece: &PlannedPiece, _: &str) -> Result<()> {
        self.begin(piece)
    }

    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        let postgres = self.recount.postgres;
        let (piece, beside) = self.work.as_mut().expect("a piece was begun");
        let target = &postgres.targets()[piece.table];
        let columns = target.column_list(&self.plan, piece.table)?;
        let beside = match beside {
            Some(beside) => beside,
            None => {
                let like = target.name().to_string();
                let session = &mut self.session;
                beside.insert(Beside::make(
                    postgres,
                    session,
                    &self.plan,
                    piece.table,
                    &like,
                    &columns,
                )?)
            }
        };
        beside.judge(&mut self.session, &self.plan, piece.table, &columns, rows).map_err(failed)
    }
}
