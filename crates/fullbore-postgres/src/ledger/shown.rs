//! The tables with a run's published rows, and whether the job's table names still refer to them.

use std::collections::BTreeMap;

use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::read::numbers;
use super::roles::acting_as;
use super::runs::{self, LedgerRun, LedgerTable, Which};
use super::state::Shown;
use crate::catalog::{self, Relation};
use crate::error::{failed, failed_while};
use crate::server::Server;

/// What has become of a table since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    Same,
    Gone(String),
    /// Another one has its name.
    Anew(String),
    /// The job's name for it stands for another one, such as in another schema of the search path.
    Other,
}

/// The oldest transaction of this database that is still at work. Another one may have begun before the
/// rows were shown and write afterwards: its number alone then tells nothing.
const ENDED_BEFORE: &str = "
    SELECT pg_stat_clear_snapshot();
    SELECT pg_current_xact_id()::text::bigint - greatest(0, max(age(xid))) AS ended_before
      FROM (SELECT backend_xid AS xid FROM pg_stat_activity a JOIN pg_database d ON d.oid = a.datid
             WHERE d.datname = current_database() AND a.pid <> pg_backend_pid()
            UNION ALL
            SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()) AS others";

/// In the transaction that has shown the rows: notes in which tables.
pub fn note(session: &mut Session, schema: &str, run_id: &str) -> Result<()> {
    // Our own number is the later bound: it must be there before others are looked at.
    session.query("SELECT pg_current_xact_id()").map_err(failed)?;
    let [ended_before] = numbers(session, ENDED_BEFORE, ["ended_before"])?;
    let found = runs::find(session, schema, &Which::Run(run_id))?;
    let Some(mut run) = found.into_iter().next() else { return Ok(()) };
    for table in &mut run.tables {
        let relation = catalog::relation(session, &table.target).map_err(failed)?;
        table.shown = relation.map(|relation| Shown { oid: relation.oid, ended_before });
    }
    session
        .execute(&format!(
            "UPDATE {schema}.runs SET tables = {} WHERE run = {}",
            quote_literal(&runs::ascii_json(&run.tables)).map_err(failed)?,
            quote_literal(run_id).map_err(failed)?,
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    Ok(())
}

/// What the names of a job stand for, asked once each.
#[derive(Default)]
struct Names(BTreeMap<String, Option<Relation>>);

impl Names {
    fn find(&mut self, session: &mut Session, name: &str) -> Result<Option<&Relation>> {
        if !self.0.contains_key(name) {
            let parsed = QualifiedName::parse(name).map_err(failed)?;
            let relation = catalog::relation(session, &parsed).map_err(failed)?;
            self.0.insert(name.to_owned(), relation);
        }
        Ok(self.0[name].as_ref())
    }

    fn now(&mut self, session: &mut Session, table: &LedgerTable) -> Result<Now> {
        let target = table.target.to_string();
        let Some(found) = self.find(session, &table.plan.name)? else {
            let is_there = self.find(session, &target)?.is_some();
            return Ok(if is_there { Now::Other } else { Now::Gone(target) });
        };
        if found.name.to_string() != target {
            return Ok(Now::Other);
        }
        // Runs of older versions don't say which table came in place of one that was replaced.
        let before = (table.publish != Publish::Replace).then_some(table.oid);
        let expected = table.shown.map(|shown| shown.oid).or(before);
        Ok(match expected {
            Some(oid) if oid != found.oid => Now::Anew(target),
            _ => Now::Same,
        })
    }
}

impl Server {
    /// Of runs of one job, the newest first, the first one into the tables that the job's names stand
    /// for in this session. What went elsewhere is no earlier load of these.
    pub fn last_into(&self, runs: Vec<LedgerRun>) -> Result<Option<LedgerRun>> {
        let mut session = self.control();
        let mut names = Names::default();
        for run in runs {
            let mut is_elsewhere = false;
            for table in &run.tables {
                is_elsewhere |= names.now(&mut session, table)? == Now::Other;
            }
            if !is_elsewhere {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// What has become of the tables that a run has shown its rows in: the first that is not the same.
    pub fn became_of(&self, run: &LedgerRun) -> Result<Now> {
        let mut session = self.control();
        let mut names = Names::default();
        for table in &run.tables {
            match names.now(&mut session, table)? {
                Now::Same => {}
                other => return Ok(other),
            }
        }
        Ok(Now::Same)
    }

    /// Ends a run that has shown its rows, without anything that was left to do.
    pub fn end_published(&self, schema: &str, run: &LedgerRun) -> Result<()> {
        let run_id = quote_literal(&run.run_id).map_err(failed)?;
        acting_as(&mut self.control(), run, |session| {
            let ended = session.execute(&format!(
                "UPDATE {schema}.runs SET state = 'finished', changed = clock_timestamp()
                  WHERE run = {run_id} AND state = 'published'"
            ));
            ended.map(drop).map_err(|error| failed_while(error, "writing to the ledger"))
        })
    }
}
