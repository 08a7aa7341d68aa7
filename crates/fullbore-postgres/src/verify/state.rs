//! What a run has proved of its rows so far.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use fullbore_load::sink::Proven;
use fullbore_load::sums::Sums;
use fullbore_pgwire::QualifiedName;
use fullbore_record::Merged;
use serde::{Deserialize, Serialize};

use super::hash::HashKind;
use super::size::Extent;

/// What was counted.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Rows that were found where they should be.
    pub rows: u64,
    /// Rows of tables from which, as the server's statistics have it, nothing was taken.
    pub rows_unchanged: u64,
    /// What was not counted, and why.
    pub not_counted: Vec<String>,
}

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
    #[serde(default, alias = "sifted", skip_serializing_if = "Option::is_none")]
    pub removed: Option<Sums>,
}

/// What a run has proved so far.
#[derive(Debug, Default)]
pub struct State {
    /// Of pieces that this process has committed.
    proofs: Mutex<BTreeMap<usize, PieceProof>>,
    rows_kept_out: AtomicU64,
    compared: Mutex<Compared>,
    counted: Mutex<Counted>,
    /// What became of the rows of an upsert, by number of table.
    merged: Mutex<BTreeMap<usize, Merged>>,
    /// The files that hold the rows of a table that was appended to, from before they were verified.
    seen: Mutex<BTreeMap<usize, Vec<Extent>>>,
    /// The files of a table's partitions since this process truncated them.
    renewed: Mutex<BTreeMap<usize, Vec<Extent>>>,
    /// The files of tables that this process has truncated itself.
    files: Mutex<BTreeMap<QualifiedName, u32>>,
    /// How many rows this process has itself deleted from tables that it made.
    deleted: Mutex<BTreeMap<QualifiedName, u64>>,
}

/// What the last comparison covered. After rows were taken out there is another one.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    pub columns: u64,
    pub violations: u64,
    pub not_covered: Vec<String>,
}

impl State {
    pub fn add_proof(&self, piece: usize, proof: PieceProof) {
        self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(piece, proof);
    }

    pub(crate) fn proofs(&self) -> BTreeMap<usize, PieceProof> {
        self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn add_kept_out(&self, rows: u64) {
        self.rows_kept_out.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn set_merged(&self, table: usize, merged: Merged) {
        self.lock_merged().insert(table, merged);
    }

    /// Whether it is known what became of the rows of a table.
    pub(crate) fn knows_merged(&self, table: usize) -> bool {
        self.lock_merged().contains_key(&table)
    }

    fn lock_merged(&self) -> MutexGuard<'_, BTreeMap<usize, Merged>> {
        self.merged.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn set_compared(&self, compared: Compared) {
        *self.compared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = compared;
    }

    pub(crate) fn set_counted(&self, counted: Counted) {
        *self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = counted;
    }

    pub(crate) fn add_not_counted(&self, why: String) {
        let mut counted = self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !counted.not_counted.contains(&why) {
            counted.not_counted.push(why);
        }
    }

    pub(crate) fn set_seen(&self, table: usize, files: Vec<Extent>) {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(table, files);
    }

    pub(crate) fn seen(&self, table: usize) -> Option<Vec<Extent>> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&table).cloned()
    }

    pub(crate) fn set_renewed(&self, table: usize, files: Vec<Extent>) {
        self.renewed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(table, files);
    }

    pub(crate) fn renewed(&self, table: usize) -> Option<Vec<Extent>> {
        self.renewed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&table).cloned()
    }

    /// Notes the file that a table has since the run itself truncated it.
    pub fn note_file(&self, table: &QualifiedName, file: u32) {
        let mut files = self.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        files.insert(table.clone(), file);
    }

    pub(crate) fn file_of(&self, table: &QualifiedName) -> Option<u32> {
        let files = self.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        files.get(table).copied()
    }

    /// Notes rows that the run itself has deleted from a table that it made.
    pub fn add_deleted(&self, table: &QualifiedName, rows: u64) {
        let mut deleted = self.deleted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *deleted.entry(table.clone()).or_default() += rows;
    }

    pub(crate) fn deleted_from(&self, table: &QualifiedName) -> u64 {
        let deleted = self.deleted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        deleted.get(table).copied().unwrap_or(0)
    }

    /// Notes what was taken out of the table of a piece, where no ledger does.
    pub fn add_removed(&self, piece: usize, removed: &Sums) {
        let mut proofs = self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(proof) = proofs.get_mut(&piece) {
            proof.removed.get_or_insert_default().merge(removed);
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
            sums: 0,
            rows_kept_out: self.rows_kept_out.load(Ordering::Relaxed),
            violations: compared.violations,
            not_covered: compared.not_covered.clone(),
            merged: self.lock_merged().clone(),
        }
    }
}
