//! A table of small partitions that are merged into larger ones: what `fullbore ingest` loads into.
//!
//! The table is partitioned by RANGE over [`COLUMN`], the number of a row's batch, which says when it arrived. Each batch
//! is loaded into a table of its own with its indexes, which is attached as a partition ([`batches`]). Neighbours are
//! merged ([`merge`]) as [`policy`] decides, so that their number stays small; what they were is dropped after it
//! ([`detached`]). A column that was added after its rows costs no byte of them: a partition gets [`COLUMN`] as it is
//! attached, with its first number as default.
//!
//! The ledger's table `batches` has a row for each partition, `taken` one for each file, by which a file is loaded once,
//! whatever process sees it. A batch's row is there before its table, under a lock that ends with the session that
//! loads it: what that leaves is found, and finished by another ([`batches::Batches::left`]).

pub mod adopt;
pub mod batches;
mod carry;
pub mod detached;
pub mod expire;
pub mod keyed;
pub mod merge;
pub mod policy;
mod shape;

use std::time::Duration;

use fullbore_pgwire::{ConnectionOptions, QualifiedName, Session};
use fullbore_read::error::Result;

use crate::catalog::{self, Relation};
use crate::error::{failed, refuse, refused};
use crate::ledger::locks;
use crate::ledger::read::rows;
use crate::ledger::schema::{self, Availability};
use crate::ledger::trust::Trusted;
use crate::publish::locking::is_locked;
use crate::publish::passed_by;
use crate::timeouts;
use keyed::Key;

/// The column that the table is partitioned by.
pub const COLUMN: &str = "fullbore_batch";

/// The name of the CHECK that lets ATTACH skip its scan.
const CHECK: &str = "fullbore_batch_range";

/// How long readers may wait behind one attempt to lock the table.
const LOCK_MS: u64 = 50;
/// Between two attempts, at first and at most.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A commit is on the server's disk before its files are put away, whatever role or database say.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'local', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// A table of levels.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: QualifiedName,
    pub oid: u32,
    /// The ledger's schema, quoted.
    pub ledger: String,
    /// Where rows replace older ones.
    pub key: Option<Key>,
}

impl Table {
    /// What users read.
    pub fn shown(&self) -> &QualifiedName {
        self.key.as_ref().map_or(&self.name, |key| &key.view)
    }
}

/// What a name stands for.
pub enum Found {
    /// A table of levels.
    Levels(Table),
    /// A table of somebody's own.
    Other(Box<Relation>),
    Nothing,
}

/// A session for levels, which sees the server's own objects alone.
pub fn connect(options: &ConnectionOptions) -> Result<Session> {
    let mut options = options.clone();
    timeouts::limit(&mut options);
    let mut session = timeouts::connect(&options).map_err(failed)?;
    if locks::is_pooled(&mut session).map_err(failed)? {
        return Err(refuse(
            "the connection goes through a pooler, which does not preserve locks",
            "connect to the server itself",
        ));
    }
    locks::unhurry(&mut session).map_err(failed)?;
    session.execute(DURABLE).map_err(failed)?;
    Ok(session)
}

/// Looks up what a table is; the ledger, by its bare name, is made where it is missing. `key`: the columns by which rows
/// replace older ones, if they do.
pub fn find(
    session: &mut Session,
    name: &QualifiedName,
    key: &[String],
    ledger: &str,
) -> Result<Found> {
    let quoted = fullbore_pgwire::quote_identifier(ledger).map_err(refused)?;
    let trusted = Trusted::default();
    match schema::availability(session, ledger, &trusted).map_err(refused)? {
        Availability::Refused { reason, hint } => return Err(refuse(reason, hint)),
        Availability::Present | Availability::Absent => {
            schema::make(session, &quoted, &trusted)?;
        }
    }
    batches::make(session, &quoted)?;
    let Some(relation) = catalog::relation(session, name).map_err(refused)? else {
        return Ok(Found::Nothing);
    };
    let key = Key::new(&relation.name, key)?;
    let behind = match relation.kind {
        'v' => {
            let behind = keyed::behind(&relation.name)?;
            catalog::relation(session, &behind).map_err(refused)?
        }
        _ => None,
    };
    match (key, behind.filter(is_ours)) {
        (Some(key), Some(table)) => {
            key.check(session, table.oid)?;
            ours(session, table, quoted, Some(key))
        }
        (None, Some(_)) => Err(refuse(
            format!("rows of {} replace older ones of their key", relation.name),
            "name its columns with --key",
        )),
        (Some(_), None) if is_ours(&relation) => Err(refuse(
            format!("{} was made without a key", relation.name),
            "omit --key, or ingest into another table",
        )),
        (None, None) if is_ours(&relation) => ours(session, relation, quoted, None),
        (_, None) => Ok(Found::Other(Box::new(relation))),
    }
}

/// A table of levels; refused where something was added to it that happens to rows which are inserted alone.
fn ours(
    session: &mut Session,
    relation: Relation,
    ledger: String,
    key: Option<Key>,
) -> Result<Found> {
    if let Some([message, _]) = passed_by::found(session, &relation, false)? {
        return Err(refuse(message, "drop that first, or use fullbore load --publish append"));
    }
    let Relation { name, oid, .. } = relation;
    Ok(Found::Levels(Table { name, oid, ledger, key }))
}

/// Whether a table is partitioned by batch.
fn is_ours(relation: &Relation) -> bool {
    let key = relation.partition_key.as_ref();
    key.is_some_and(|(strategy, columns)| *strategy == 'r' && columns == &[COLUMN])
}

/// Does something in a transaction under locks that readers do not wait for long: each attempt waits for
/// [`LOCK_MS`] only, and others wait behind it no longer. `None` once `gives_up` says so.
fn insist<T>(
    session: &mut Session,
    mut gives_up: impl FnMut() -> bool,
    mut work: impl FnMut(&mut Session) -> Result<T>,
) -> Result<Option<T>> {
    let mut pause = PAUSE;
    loop {
        session
            .execute(&format!("SAVEPOINT before_lock; SET LOCAL lock_timeout = {LOCK_MS}"))
            .map_err(failed)?;
        match work(session) {
            Err(error) if is_locked(&error) => {
                session.execute("ROLLBACK TO SAVEPOINT before_lock").map_err(failed)?;
                if gives_up() {
                    return Ok(None);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            done => return done.map(Some),
        }
    }
}

/// Whether a function that tries to take an advisory lock took it.
fn is_taken(session: &mut Session, tries: &str) -> Result<bool> {
    let taken = rows(session, &format!("SELECT {tries} AS is_taken")).map_err(failed)?;
    Ok(taken.iter().any(|row| row.flag("is_taken")))
}
