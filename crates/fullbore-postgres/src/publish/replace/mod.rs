//! `replace`: fills and indexes a new table, then swaps it with the old one.
//!
//! One module per step: [`obstacles`] refuses tables with objects that cannot be moved, before a row is
//! sent; `company` are the tables that one run replaces together; [`writers`] records who writes to the old table when the run begins; [`staging`] creates the new
//! table; `rebuild` builds its indexes and foreign keys; [`locks`] keeps others out during the swap and
//! finds rows they wrote; [`show`] swaps the tables in one transaction, with the properties that `carry`
//! and `grants` move. Nothing is dropped by CASCADE: an overlooked object makes the swap fail, and the old
//! table stays unchanged.
//!
//! With `--keep-old` the old table is not dropped but moved into a schema of its own, with all that
//! belongs to it under its own name, so that [`undo`] can put it back as it was.
//!
//! Comes along: columns with defaults, generated and identity columns, storage, compression,
//! statistics targets and options; constraints, indexes, outgoing foreign keys; owner, grants,
//! comments, storage parameters, persistence, access method, tablespace; owned and identity
//! sequences with where they stand; extended statistics, CLUSTER ON, replica identity.
//! A CHECK that was NOT VALID comes back valid, since every new row has passed it.

pub(crate) mod carry;
mod company;
mod definition;
pub(crate) mod grants;
pub mod kept;
pub mod locks;
pub(crate) mod obstacles;
mod rebuild;
pub mod staging;
pub(crate) mod tools;
pub mod undo;
mod writers;

use std::cmp::Reverse;

use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use super::indexes::{self, Job};
use super::ours::ours;
use crate::catalog::{self, Relation};
use crate::direct::check;
use crate::error::{failed, failed_while, refused};
use crate::ledger::runs;
use crate::postgres::Postgres;
use crate::server::Server;
use crate::target::PostgresTable;
use company::Company;
use kept::Baseline;
pub use obstacles::check;
pub use rebuild::index_statements;
use tools::{changed, in_transaction, quote, unchanged};

impl Server {
    /// What tells later whether others have written to a table since; none where there is no such table.
    pub fn known_now(&self, table: &str) -> Result<Option<String>> {
        let name = QualifiedName::parse(table).map_err(refused)?;
        let mut session = self.control();
        let Some(relation) = catalog::relation(&mut session, &name).map_err(refused)? else {
            return Ok(None);
        };
        let baseline = Baseline::take(&mut session, &relation.name, relation.oid)?;
        Ok(Some(serde_json::to_string(&baseline).expect("plain data becomes JSON")))
    }
}

/// Makes the new table, empty and committed, for all sessions to fill.
pub fn prepare(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<()> {
    let tablespace = postgres.tablespace(table)?;
    in_transaction(session, |session| {
        let old = unchanged(postgres, session, table)?;
        let since = target.since.as_deref().map(serde_json::from_str);
        let baseline = match since.transpose() {
            Ok(Some(since)) => since,
            Ok(None) => Baseline::take(session, &old.name, old.oid)?,
            Err(error) => return Err(Error::usage(format!("since: {error}"))),
        };
        postgres.baselines().insert(table, baseline);
        if let Some(ledger) = postgres.ledger() {
            runs::noted(session, ledger, plan, postgres)?;
        }
        let company = Company::of(postgres, session, plan)?.oids();
        staging::make(session, &old, &target.staging(plan)?, &tablespace, &company)
    })
}

/// The old table's indexes on the new one.
pub fn index_jobs(postgres: &Postgres, plan: &Plan, table: usize) -> Result<Vec<Job>> {
    index_jobs_by(postgres, &mut postgres.control(), plan, table)
}

/// The same by a session that the caller has.
pub fn index_jobs_by(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
) -> Result<Vec<Job>> {
    let staging = postgres.targets()[table].staging(plan)?;
    in_transaction(session, |session| {
        let old = unchanged(postgres, session, table)?;
        let jobs = rebuild::index_jobs(session, plan, &old, &staging)?;
        match postgres.is_later_attempt() || postgres.targets()[table].direct.is_some() {
            true => rebuild::left_to_do(session, plan, &staging, jobs),
            false => Ok(jobs),
        }
    })
}

/// What makes the foreign keys of all tables to others on the new ones: jobs for each table.
pub struct KeyJobs {
    adding: Vec<Job>,
    /// The largest table comes first.
    checking: Vec<Job>,
}

impl KeyJobs {
    /// Adds all before the first is checked: it would wait until no row of either table is checked.
    pub fn work(self, postgres: &Postgres, plan: &Plan) -> Result<()> {
        indexes::work_off(postgres, plan, 1, self.adding)?;
        indexes::build(postgres, plan, self.checking)
    }
}

/// What is left to do for the foreign keys.
pub fn key_jobs(postgres: &Postgres, session: &mut Session, plan: &Plan) -> Result<KeyJobs> {
    in_transaction(session, |session| {
        let company = Company::of(postgres, session, plan)?;
        let (mut adding, mut checking) = (Vec::new(), Vec::new());
        let is_direct = replaced(postgres).any(|(_, target)| target.direct.is_some());
        let validate = match is_direct {
            true => check::function(session, check::VALIDATE).map_err(failed)?,
            false => None,
        };
        let mut tables: Vec<_> = replaced(postgres).collect();
        tables.sort_by_key(|(table, _)| Reverse(plan.tables[*table].bytes));
        for (table, target) in tables {
            let old = unchanged(postgres, session, table)?;
            let staging = target.staging(plan)?;
            let [add, check] =
                rebuild::key_jobs(session, &company, &old, &staging, validate.as_deref())?;
            adding.extend((!add.statements.is_empty()).then_some(add));
            checking.extend((!check.statements.is_empty()).then_some(check));
        }
        Ok(KeyJobs { adding, checking })
    })
}

/// The targets that are replaced, with their numbers.
fn replaced(postgres: &Postgres) -> impl Iterator<Item = (usize, &PostgresTable)> {
    let targets = postgres.targets().iter().enumerate();
    targets.filter(|(_, target)| target.publish == Publish::Replace)
}

/// Puts the new tables in the old ones' places, in the transaction that is open and has locked them.
pub fn show(postgres: &Postgres, session: &mut Session, plan: &Plan) -> Result<()> {
    let company = Company::of(postgres, session, plan)?;
    // All is told from the old tables while they are what they were.
    let mut statements = company.part(session)?;
    for (table, target) in replaced(postgres) {
        let old = unchanged(postgres, session, table)?;
        obstacles::none(session, &old, &company.oids())?;
        let kept = target.kept(&plan.run_id)?;
        let swaps = swap(session, &company, &old, &target.staging(plan)?, kept.as_ref())?;
        statements.extend(swaps.into_iter().map(|statement| (target.name().clone(), statement)));
    }
    for (name, statement) in statements {
        session
            .execute(&statement)
            .map_err(|error| failed_while(error, &format!("replacing {name} by `{statement}`")))?;
    }
    Ok(())
}

/// The statements that swap the tables, if they are still alike. What is done after the rename
/// is told from the old table, in names that are the new one's by then.
fn swap(
    session: &mut Session,
    company: &Company,
    old: &Relation,
    staging: &QualifiedName,
    kept: Option<&QualifiedName>,
) -> Result<Vec<String>> {
    let new =
        ours(session, staging, old)?.ok_or_else(|| changed(staging, "it no longer exists"))?;
    let name = &old.name;
    definition::equal(session, old, new.oid, definition::With::ForeignKeys(company))?;
    let renamed_indexes = rebuild::renames(session, old, new.oid)?;
    let (moved_sequences, renamed_sequences) = carry::sequences(session, old.oid, &new)?;
    let mut carried = grants::of_table(session, old, new.oid)?;
    carried.extend(carry::everything_else(session, old, new.oid)?);

    let mut statements = moved_sequences;
    match kept {
        Some(kept) => statements.extend(undo::put_away(session, old, kept)?),
        None => statements.push(format!("DROP TABLE {name} RESTRICT")),
    }
    statements.push(format!("ALTER TABLE {staging} RENAME TO {}", quote(name.name())?));
    statements.extend(renamed_indexes);
    statements.extend(renamed_sequences);
    statements.extend(carried);
    Ok(statements)
}
