//! Builds indexes and constraints side by side.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Event;

use crate::catalog::IndexDefinition;
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;
use crate::publish::locking::{Frame, LockWait, insist};

/// Statements that must run one after the other, on one session.
pub struct Job {
    /// What they are for, in the words of an error.
    pub what: String,
    pub statements: Vec<String>,
    /// They lock tables that others use, to whom keys refer.
    pub locks_others: bool,
    /// Rows are shown, and what is gone by now needs nothing more.
    pub may_be_gone: bool,
}

/// The server's words for a table or a schema that is not there.
const IS_GONE: [&str; 2] = ["42P01", "3F000"];

/// Runs jobs on up to as many sessions as the plan has streams; the first error ends the rest.
pub fn build(postgres: &Postgres, plan: &Plan, jobs: Vec<Job>) -> Result<()> {
    work_off(postgres, plan, plan.streams, jobs)
}

/// The same on so many sessions.
pub fn work_off(postgres: &Postgres, plan: &Plan, sessions: usize, jobs: Vec<Job>) -> Result<()> {
    postgres.share_out(sessions, jobs, |session, job| work(postgres, plan, session, &job))
}

fn work(postgres: &Postgres, plan: &Plan, session: &mut Session, job: &Job) -> Result<()> {
    for sql in &job.statements {
        let execute = |session: &mut Session| match session.execute(sql) {
            Err(gone) if job.may_be_gone && is_gone(&gone) => {
                let notice = format!("{} was left out: {gone}", job.what);
                postgres.report(Event::Notice { notice });
                Ok(())
            }
            done => done.map(drop).map_err(|error| failed_while(error, &job.what)),
        };
        match job.locks_others {
            true => {
                let (wait, frame) = (LockWait::of(plan), Frame::Transaction("BEGIN"));
                insist(postgres, session, &wait, frame, &job.what, execute)?;
            }
            false => execute(session)?,
        }
    }
    Ok(())
}

fn is_gone(error: &ConnectionError) -> bool {
    error.sqlstate().is_some_and(|code| IS_GONE.contains(&code))
}

/// The job that builds an index, or the constraint behind it, on another table.
pub fn job(index: &IndexDefinition, table: &QualifiedName, target: &QualifiedName) -> Result<Job> {
    let what = format!("building {} of {target}", index.known());
    let mut index = index.clone();
    if let Some(constraint) = index.constraint.as_mut().filter(|found| found.attaches.is_some())
        && !index.options.is_empty()
    {
        // pg_get_constraintdef does not tell storage parameters.
        let definition = &constraint.definition;
        let definition = definition.strip_suffix(&constraint.timing).unwrap_or(definition);
        constraint.definition =
            format!("{definition} WITH ({}){}", index.options, constraint.timing);
    }
    let mut sql = statement(&index, table, None).map_err(failed)?;
    if !index.tablespace.is_empty() {
        // Nor does pg_get_indexdef tell the tablespace. Others may follow in the same transaction.
        let tablespace = quote_literal(&index.tablespace).map_err(failed)?;
        sql = format!(
            "SET LOCAL default_tablespace = {tablespace}; {sql}; SET LOCAL default_tablespace TO DEFAULT"
        );
    }
    Ok(Job { what, statements: vec![sql], locks_others: false, may_be_gone: false })
}

/// The statement that builds an index, or the constraint behind it, on another table.
pub fn statement(
    index: &IndexDefinition,
    table: &QualifiedName,
    name: Option<&str>,
) -> Result<String, ConnectionError> {
    let name = name.map(quote_identifier).transpose()?;
    Ok(match &index.constraint {
        Some(constraint) => {
            let named = name.map_or(String::new(), |name| format!("CONSTRAINT {name} "));
            format!("ALTER TABLE {table} ADD {named}{}", constraint.definition)
        }
        None => format!(
            "CREATE {}INDEX {} ON {table} {}",
            if index.is_unique { "UNIQUE " } else { "" },
            name.unwrap_or_default(),
            index.tail
        ),
    })
}

/// The statement that drops an index which was filled, but not with unique keys; building it again then names one of
/// them. An error where the rows that share them are rejected instead.
pub fn not_unique(
    plan: &Plan,
    table: &QualifiedName,
    index: &IndexDefinition,
    what: &str,
) -> Result<String> {
    if plan.rejects_violations() {
        return Err(Error::Destination {
            message: format!("{what}: several rows share a key"),
            hint: None,
            kind: DestinationFailure::Constraint,
        });
    }
    let drop = match &index.constraint {
        Some(constraint) => quote_identifier(&constraint.name)
            .map(|name| format!("ALTER TABLE {table} DROP CONSTRAINT {name}")),
        None => {
            QualifiedName::new(table.schema(), &index.name).map(|name| format!("DROP INDEX {name}"))
        }
    };
    drop.map_err(failed)
}
