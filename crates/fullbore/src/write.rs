//! A write by tasks of an engine: its steps, each by a session of its own, in whichever process the engine runs
//! them. The steps between are ordinary loads: of a task's rows into the table that [`stage`] makes, and of what
//! the engine names into the target (`Job::write`).

use fullbore_load::job::{Job, Write};
use fullbore_load::run_id::RunId;
use fullbore_pgwire::quote_identifier;
use fullbore_postgres::ledger::writes::Standing;
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::{Publish, Verify};
use serde::Serialize;

use crate::check::refuse_given;
use crate::destinations::Destinations;

/// What became of a step.
#[derive(Debug, Serialize)]
pub struct Step {
    /// `open`, `published` or `rolled back`.
    pub standing: &'static str,
    /// The table that was made.
    pub table: Option<String>,
    /// Tables that could not be dropped, and why.
    pub left_behind: Vec<String>,
}

impl Step {
    fn of(standing: Standing) -> Self {
        let standing = match standing {
            Standing::Open => "open",
            Standing::Published => "published",
            Standing::RolledBack => "rolled back",
        };
        Self { standing, table: None, left_behind: Vec::new() }
    }
}

/// The id of a new write, or of a batch of a stream.
pub fn id(job: &Job, batch: Option<(&str, u64)>) -> Result<RunId> {
    match batch {
        None => RunId::draw(),
        Some((query, batch)) => Ok(Write::id_of_batch(query, batch, name_of(job)?)),
    }
}

/// Refuses what can't be written by tasks.
pub fn check(job: &Job) -> Result<()> {
    name_of(job)?;
    let partitions = job.tables.iter().any(|table| table.publish == Publish::Partitions);
    let given = [
        (job.part.is_some(), "part"),
        (job.on.is_some(), "on"),
        (job.no_ledger, "no_ledger"),
        (job.verify != Verify::Quick, "verify"),
        (job.if_loaded.is_some(), "if_loaded"),
        (partitions, "publish=\"partitions\""),
        (job.tables.iter().any(|table| !table.order_by.is_empty()), "order_by"),
        (job.tables.iter().any(|table| !table.control.is_empty()), "control"),
    ];
    refuse_given(&given, "can't be used by a sink of an engine", "")
}

fn name_of(job: &Job) -> Result<&str> {
    match job.tables.as_slice() {
        [table] => table.name.as_deref().ok_or_else(|| {
            Error::usage_with_hint("no table is named", "name the table with the option table")
        }),
        _ => Err(Error::usage("a sink writes to one table")),
    }
}

/// Makes the table in which another attempt of a task stages its rows, while the write is open.
pub fn stage(job: &Job, id: &RunId, task: u32) -> Result<Step> {
    with_server(job, |server, schema| {
        Ok(match server.stage(schema, id, name_of(job)?, task)? {
            Ok(table) => Step { table: Some(table.to_string()), ..Step::of(Standing::Open) },
            Err(closed) => Step::of(closed),
        })
    })
}

/// Drops what a closed write has left; `rolls_back`: closes it first, unless it is.
pub fn close(job: &Job, id: &RunId, rolls_back: bool) -> Result<Step> {
    with_server(job, |server, schema| {
        let name = name_of(job)?;
        let standing = match rolls_back {
            true => server.roll_write_back(schema, id, name)?,
            false => server.write_standing(schema, id)?,
        };
        let left_behind = server.drop_staged(schema, id, name, None)?;
        Ok(Step { left_behind, ..Step::of(standing) })
    })
}

/// Drops tables that tasks have staged for a write that stays open.
pub fn unstage(job: &Job, id: &RunId, tables: &[String]) -> Result<Step> {
    with_server(job, |server, schema| {
        let left_behind = server.drop_staged(schema, id, name_of(job)?, Some(tables))?;
        Ok(Step { left_behind, ..Step::of(Standing::Open) })
    })
}

fn with_server(
    job: &Job,
    work: impl FnOnce(&fullbore_postgres::Server, &str) -> Result<Step>,
) -> Result<Step> {
    let to = Destinations::open(job, &|_| ())?;
    let Some(server) = to.server() else {
        return Err(Error::usage_with_hint(
            "only a PostgreSQL server can be written to by tasks",
            "set one with the option to",
        ));
    };
    let schema = server.ledger_schema(job.ledger_schema.as_deref())?;
    let schema = quote_identifier(&schema).map_err(|error| Error::usage(error.to_string()))?;
    work(server, &schema)
}
