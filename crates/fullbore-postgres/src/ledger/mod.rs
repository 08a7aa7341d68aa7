//! The ledger: which pieces of which runs are committed, kept in the destination itself.
//!
//! A schema of three tables, `fullbore_ledger` unless `--ledger-schema` names another ([`schema`]; [`moved`]
//! has what earlier versions did): a row for
//! each run ([`runs`], read back as [`state`] has it) and one for each committed piece ([`pieces`]). A piece's row is inserted *first*
//! in the piece's own transaction, under a unique key. So a backend that is still committing after its
//! client died delays a repetition of the piece instead of doubling it. The transaction also holds a
//! shared lock on the run's row. A new attempt locks the row exclusively, which waits for all pieces of
//! earlier attempts, and increments the attempt number, which refuses their later commits. After that the
//! ledger is authoritative.
//!
//! Pieces of unlogged tables have their rows in an unlogged ledger table: a crash empties both or neither.
//!
//! Rows of the ledger are accepted only in the expected form ([`read`]). Nothing is read or written before
//! it is known who could run code through the ledger ([`trust`]).
//!
//! After publishing, the run's row names the published tables ([`shown`]), so that another table of the
//! same name is not mistaken for one of them. [`loaded`] finds files whose contents are already loaded.
//!
//! What an upsert has merged stands part by part in a table of its own ([`merges`]).
//!
//! Advisory locks show who works on a run ([`locks`]); they end with their sessions. A further table joins
//! the runs that are parts of one load ([`parts`]); [`writes`] has what tasks of an engine staged.

mod control;
mod delete_rows;
pub mod loaded;
pub mod locks;
pub(crate) mod meanwhile;
pub mod merges;
mod moved;
pub mod parts;
pub mod pieces;
pub mod read;
pub mod roles;
pub mod runs;
pub mod schema;
pub mod shown;
pub mod state;
pub mod take_back;
pub(crate) mod trust;
pub(crate) mod undo;
mod whole;
pub mod writes;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error};

use crate::error::refuse;
use locks::Backend;

/// The ledger's schema where nothing else is said.
pub const SCHEMA_DEFAULT: &str = "fullbore_ledger";

/// Where it was in versions 0.1 and 0.2: in the schema of the server's extension.
const SCHEMA_OLD: &str = "fullbore";

/// Whether the run's row in the ledger is ours. A run's id is no proof: another one may have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is not: nothing of the run is ours to end, to drop or to delete.
    No = 0,
    /// The connection was lost before we heard whether it was inserted.
    Unsure = 1,
    Yes = 2,
}

/// The ledger as one run uses it.
pub struct Ledger {
    /// The schema's name, quoted.
    pub(crate) schema: String,
    pub(crate) job: String,
    pub(crate) run_id: String,
    /// The run is a part of a load: other hosts may have done some of what is left.
    pub(crate) has_parts: bool,
    /// Which attempt this process makes.
    attempt: AtomicU32,
    begun: AtomicU8,
    is_published: AtomicBool,
    /// The rows are being shown, or were, and nobody has heard of it.
    may_be_published: AtomicBool,
    /// The control session's backend, which holds the job's lock.
    control: Mutex<Option<Backend>>,
}

impl Ledger {
    /// `schema` is the quoted name, `job` the job's hash.
    pub fn new(schema: &str, job: &str, run_id: &str) -> Self {
        Self {
            schema: schema.to_owned(),
            job: job.to_owned(),
            run_id: run_id.to_owned(),
            has_parts: false,
            attempt: AtomicU32::new(1),
            begun: AtomicU8::new(Begun::No as u8),
            is_published: AtomicBool::new(false),
            may_be_published: AtomicBool::new(false),
            control: Mutex::new(None),
        }
    }

    /// Whether somebody else has surely gone on with the run since our attempt, or has taken it away.
    pub(crate) fn was_taken_over(&self, session: &mut Session) -> bool {
        if self.begun() != Begun::Yes {
            return false;
        }
        let Ok(run) = quote_literal(&self.run_id) else { return false };
        let found = session.query(&format!(
            "SELECT FROM {}.runs WHERE run = {run} AND attempt = {}",
            self.schema,
            self.attempt()
        ));
        found.is_ok_and(|rows| rows.is_empty())
    }

    /// The same of a run that is a part of a load.
    #[must_use]
    pub fn of_a_part(mut self, is_one: bool) -> Self {
        self.has_parts = is_one;
        self
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(crate) fn set_attempt(&self, attempt: u32) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    pub(crate) fn begun(&self) -> Begun {
        match self.begun.load(Ordering::Relaxed) {
            0 => Begun::No,
            1 => Begun::Unsure,
            _ => Begun::Yes,
        }
    }

    pub(crate) fn set_begun(&self, begun: Begun) {
        self.begun.store(begun as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_published(&self) -> bool {
        self.is_published.load(Ordering::Relaxed)
    }

    pub(crate) fn set_published(&self, is_published: bool) {
        self.is_published.store(is_published, Ordering::Relaxed);
        self.may_be_published.store(is_published, Ordering::Relaxed);
    }

    /// Whether the rows may be shown, since the answer that they are may have been lost.
    pub(crate) fn may_be_published(&self) -> bool {
        self.may_be_published.load(Ordering::Relaxed)
    }

    pub(crate) fn set_may_be_published(&self) {
        self.may_be_published.store(true, Ordering::Relaxed);
    }

    pub(crate) fn control(&self) -> Option<Backend> {
        self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn set_control(&self, backend: Backend) {
        *self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(backend);
    }

    /// Somebody else has begun an attempt, or took the run away.
    pub(crate) fn taken_over(&self) -> Error {
        Error::Destination {
            message: format!(
                "run {} was taken over or rolled back by another process",
                self.run_id
            ),
            hint: Some("`fullbore runs list` with the same --to shows its state".into()),
            kind: DestinationFailure::TakenOver,
        }
    }

    /// The run has begun, and the ledger has it no longer as one that goes on.
    pub(crate) fn taken_back(&self) -> Error {
        Error::Destination {
            message: format!(
                "run {} was rolled back by another process, or lost in a failover to a standby: \
                 the ledger no longer has it as a run to resume",
                self.run_id
            ),
            hint: Some(
                "`fullbore runs list` with the same --to shows its state; before loading again, \
                 check whether rows committed by plain append are still in the table"
                    .into(),
            ),
            kind: DestinationFailure::TakenOver,
        }
    }

    /// The ledger has a run of this id that is not ours.
    pub(crate) fn is_anothers(&self) -> Error {
        refuse(
            format!("the ledger has another run with the id {}", self.run_id),
            "nothing was loaded; load again, which uses a new id",
        )
    }

    /// The ledger does not show what we saw committed: the server lost it in a crash.
    pub(crate) fn fell_back(&self, seen: (u64, u64), found: (u64, u64)) -> Error {
        Error::Destination {
            message: format!(
                "run {}: {} pieces with {} rows were committed, the server now knows of {} with {}",
                self.run_id, seen.0, seen.1, found.0, found.1
            ),
            hint: Some(
                "the server crashed in between, or the ledger was changed outside Fullbore".into(),
            ),
            kind: DestinationFailure::Lost,
        }
    }
}
