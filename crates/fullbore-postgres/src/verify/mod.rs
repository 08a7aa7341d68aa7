//! Full verification: that every value of every row is in the table as it was in the files.
//!
//! The client makes [`fullbore_load::sums`] of what it parsed ([`summer`], [`column`], [`numeric`]),
//! while it loads; each piece's are kept in the ledger with it ([`store`]). The server makes the same
//! sums of what it holds, by plain SQL ([`sql`]), and the two are compared ([`parts`], [`compare`]):
//! before the rows are shown ([`staged`]), or whenever somebody asks ([`run`]), who may have the files
//! read once more ([`recount`]). Both take the hash of a
//! value from the bytes that its type is sent as ([`hash`]).
//!
//! Quick verification counts rows where they are ([`counted`]).
//!
//! What goes as text only the server understands. It is loaded twice then, once into a temporary
//! table, whose sums are those of these rows ([`beside`]).

mod anew;
mod beside;
mod column;
pub mod compare;
pub mod counted;
mod counts;
mod extent;
#[cfg(target_arch = "x86_64")]
mod fast_crc;
mod hash;
mod numeric;
mod parts;
pub mod recount;
pub mod run;
pub mod sifted;
mod sql;
pub mod staged;
mod statistics;
pub mod store;
mod summer;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fullbore_load::destination::{Proven, Summer};
use fullbore_load::plan::Plan;
use fullbore_load::sums::Sums;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::Verify;
use serde::{Deserialize, Serialize};

use crate::destination::Postgres;
use crate::error::{failed, refuse};
pub use anew::Anew;
pub use beside::{Beside, accepted, changed_its_mind};
use column::SummedColumn;
pub use counts::{check_count, may_keep_rows_out};
pub use hash::HashKind;
pub use sql::Formula;
use summer::BatchSummer;

/// What is known of a committed piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceProof {
    pub hash: HashKind,
    /// The columns that were sent, in their order.
    pub columns: Vec<String>,
    /// The transactions that wrote its rows, as rows tell them: of 32 bits.
    pub xids: Vec<u32>,
    pub sums: Sums,
    /// Of rows of this piece, or of others in the same table, that broke a key and were taken out when
    /// all rows were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sifted: Option<Sums>,
}

/// What a run has proved so far.
#[derive(Debug, Default)]
pub struct State {
    /// Of pieces that this process has committed.
    proofs: Mutex<BTreeMap<usize, PieceProof>>,
    rows_kept_out: AtomicU64,
    compared: Mutex<Compared>,
    counted: Mutex<counted::Counted>,
    /// The files that hold the rows of a table that was appended to, from before they were verified.
    seen: Mutex<BTreeMap<usize, Vec<counted::Extent>>>,
    /// The files of tables that this process has truncated itself.
    files: Mutex<BTreeMap<QualifiedName, u32>>,
}

/// What the last comparison covered. After a sifting there is another one.
#[derive(Debug, Clone, Default)]
struct Compared {
    columns: u64,
    rows_sifted: u64,
    not_covered: Vec<String>,
}

impl State {
    pub fn add_proof(&self, piece: usize, proof: PieceProof) {
        self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(piece, proof);
    }

    fn proofs(&self) -> BTreeMap<usize, PieceProof> {
        self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn add_kept_out(&self, rows: u64) {
        self.rows_kept_out.fetch_add(rows, Ordering::Relaxed);
    }

    fn set_compared(&self, compared: Compared) {
        *self.compared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = compared;
    }

    pub(super) fn set_counted(&self, counted: counted::Counted) {
        *self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = counted;
    }

    fn add_not_counted(&self, why: String) {
        let mut counted = self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !counted.not_counted.contains(&why) {
            counted.not_counted.push(why);
        }
    }

    fn set_seen(&self, table: usize, files: Vec<counted::Extent>) {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(table, files);
    }

    fn seen(&self, table: usize) -> Option<Vec<counted::Extent>> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&table).cloned()
    }

    /// Notes the file that a table has since the run itself truncated it.
    pub fn note_file(&self, table: &QualifiedName, file: u32) {
        let mut files = self.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        files.insert(table.clone(), file);
    }

    fn file_of(&self, table: &QualifiedName) -> Option<u32> {
        let files = self.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        files.get(table).copied()
    }

    /// Notes what was taken out of the table of a piece, where no ledger does.
    pub fn add_sifted(&self, piece: usize, sifted: &Sums) {
        let mut proofs = self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(proof) = proofs.get_mut(&piece) {
            proof.sifted.get_or_insert_default().merge(sifted);
        }
    }

    pub fn proven(&self) -> Proven {
        let compared = self.compared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let counted = self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Proven {
            rows_counted: counted.rows,
            rows_unchanged: counted.rows_unchanged,
            not_counted: counted.not_counted.clone(),
            columns: compared.columns,
            rows_kept_out: self.rows_kept_out.load(Ordering::Relaxed),
            rows_sifted: compared.rows_sifted,
            not_covered: compared.not_covered.clone(),
        }
    }
}

/// The columns of a table that are sent, by name.
fn sent_columns(plan: &Plan, table: usize) -> Vec<String> {
    plan.tables[table].shape.columns.iter().map(|column| column.name.clone()).collect()
}

impl Postgres {
    pub(crate) fn hash_kind(&self) -> HashKind {
        HashKind::of_server(self.server_version())
    }

    /// The columns of a table of the plan as they are summed.
    pub(crate) fn summed_columns(&self, plan: &Plan, table: usize) -> Result<Vec<SummedColumn>> {
        sql::summed_columns(&self.targets()[table].relation, &sent_columns(plan, table))
    }

    /// What makes the sums of a table's batches, where they are asked for.
    pub(crate) fn batch_summer(
        &self,
        plan: &Plan,
        table: usize,
    ) -> Result<Option<Box<dyn Summer>>> {
        if plan.verify != Verify::Full {
            return Ok(None);
        }
        let mut columns = self.summed_columns(plan, table)?;
        for (column, parsed) in columns.iter_mut().zip(&plan.tables[table].shape.columns) {
            column.field_type = parsed.field_type.clone();
        }
        Ok(Some(Box::new(BatchSummer::new(self.hash_kind(), columns))))
    }

    /// Refuses, before a row moves, where full verification was asked for and can't be done.
    pub(crate) fn check_verifiable(&self, session: &mut Session, plan: &Plan) -> Result<()> {
        if plan.verify != Verify::Full {
            return Ok(());
        }
        if plan.continuity.part.is_some() {
            return Err(refuse(
                "--verify full is for loads of one host, and this is a part of one of several",
                "leave --verify full away: rows are counted on both sides all the same",
            ));
        }
        if let Some(target) = self.targets().iter().find(|target| target.relation.kind == 'f') {
            return Err(refuse(
                format!(
                    "rows of the foreign table {} can't be identified by their transaction",
                    target.name()
                ),
                "leave --verify full away",
            ));
        }
        if !sql::agrees(session, self.hash_kind()).map_err(failed)? {
            return Err(refuse(
                "this server makes other hashes than this machine does",
                "leave --verify full away: its processor orders bytes the other way round",
            ));
        }
        if let Some(ledger) = self.ledger() {
            store::make(session, &ledger.schema)?;
        }
        Ok(())
    }
}
