//! Full verification: that every value of every row is in the table as it was in the files.
//!
//! While loading, the client computes [`fullbore_load::sums`] of the parsed rows ([`summer`], [`mod@column`],
//! [`numeric`]) and stores them per piece in the ledger ([`store`]). The server computes the same sums of
//! the stored rows in plain SQL ([`sql`]). They are compared ([`comparison`], [`compare`]) before publishing
//! ([`staged`]) or on request ([`run`]), optionally with sums of files that are read again ([`recount`]).
//! A value's hash is that of its binary send form ([`hash`]).
//!
//! Quick verification counts rows in place ([`counted`]).
//!
//! Only the server can parse rows sent as text. They are loaded twice, once into a temporary table that
//! provides their sums ([`beside`]).

pub mod anew;
pub(crate) mod beside;
pub(crate) mod column;
pub mod compare;
mod comparison;
pub mod control;
pub mod counted;
mod extent;
#[cfg(target_arch = "x86_64")]
pub(crate) mod fast_crc;
pub(crate) mod hash;
pub(crate) mod kept_out;
pub(crate) mod numeric;
pub mod recount;
pub mod removed;
pub mod run;
pub mod size;
pub(crate) mod sql;
pub mod staged;
pub mod state;
pub mod statistics;
pub mod store;
mod summer;

use fullbore_load::plan::Plan;
use fullbore_load::sink::Summer;
use fullbore_pgwire::Session;
use fullbore_read::error::Result;
use fullbore_record::terms::Verify;

use crate::error::{failed, refuse};
use crate::postgres::Postgres;
use crate::server::Server;
use column::{SummedColumn, sent_columns};
use hash::HashKind;
use summer::BatchSummer;

impl Server {
    pub(crate) fn hash_kind(&self) -> HashKind {
        HashKind::of_server(self.version())
    }
}

impl Postgres {
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
                "--verify full is for loads by one host, and this is a part of a load by several",
                "omit --verify full: row counts of both sides are still compared",
            ));
        }
        if let Some(target) = self.targets().iter().find(|target| target.relation.kind == 'f') {
            return Err(refuse(
                format!(
                    "rows of the foreign table {} can't be identified by their transaction",
                    target.name()
                ),
                "omit --verify full",
            ));
        }
        if !sql::agrees(session, self.hash_kind()).map_err(failed)? {
            return Err(refuse(
                "this server computes different hashes than this machine",
                "omit --verify full: the server's CPU has the other byte order",
            ));
        }
        if let Some(ledger) = self.ledger() {
            store::make(session, &ledger.schema)?;
        }
        Ok(())
    }
}
