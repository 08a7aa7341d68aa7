//! The table that is ingested into: found, taken over, or made.

use std::sync::atomic::{AtomicBool, Ordering};

use fullbore_load::job::Job;
use fullbore_pgwire::{ConnectionOptions, QualifiedName, Session};
use fullbore_postgres::ledger::SCHEMA_DEFAULT;
use fullbore_postgres::levels::expire::check_rows;
use fullbore_postgres::levels::merge::in_order;
use fullbore_postgres::levels::{Found, Table, adopt, connect, find};
use fullbore_read::error::{Error, Result};

use super::watch::Watch;
use super::{Ingest, wait};
use crate::load::{Audience, LoadOptions, creation};
use crate::ordered::sort_keys;

/// Finds the table. Where it is to be made, a first file is waited for, whose columns it gets; `None` where none comes.
pub fn open(
    asked: &Ingest,
    options: &LoadOptions,
    audience: &dyn Audience,
    connection: &ConnectionOptions,
    watch: &mut Watch,
    over: &AtomicBool,
) -> Result<Option<Table>> {
    let job = &asked.job;
    let name = name_of(job)?;
    let ledger = job.ledger_schema.as_deref().unwrap_or(SCHEMA_DEFAULT);
    let mut session = connect(connection)?;
    let mut found = find(&mut session, &name, &asked.key, ledger)?;
    let is_made = matches!(found, Found::Nothing) && job.tables[0].create;
    if is_made {
        let Some(sample) = first(asked, options, watch, over)? else { return Ok(None) };
        make(&mut session, asked, options, audience, &sample)?;
        found = find(&mut session, &name, &asked.key, ledger)?;
    }
    match found {
        Found::Levels(table) => Ok(Some(table)),
        Found::Other(relation) if asked.adopt || is_made => {
            // Before it is another table.
            in_order(&relation, &sort_keys(&asked.order_by)?)?;
            if asked.keep.is_some() && !asked.key.is_empty() {
                check_rows(&mut session, &relation.name)?;
            }
            adopt::adopt(&mut session, &relation, &asked.key, ledger).map(Some)
        }
        Found::Other(relation) => Err(Error::usage_with_hint(
            format!("{} is a table of its own: its rows are in no partition", relation.name),
            "take it over with --adopt: it becomes the first partition of a table of its name, and gets \
             a column fullbore_batch",
        )),
        Found::Nothing => {
            Err(Error::usage_with_hint(format!("{name} does not exist"), "create it with --create"))
        }
    }
}

fn name_of(job: &Job) -> Result<QualifiedName> {
    let name = job.tables.first().and_then(|table| table.name.as_deref()).ok_or_else(|| {
        Error::usage_with_hint("no table is named", "name the table with --table")
    })?;
    QualifiedName::parse(name).map_err(|error| Error::usage(error.to_string()))
}

/// The first file, once there is one.
fn first(
    asked: &Ingest,
    options: &LoadOptions,
    watch: &mut Watch,
    over: &AtomicBool,
) -> Result<Option<String>> {
    loop {
        let is_last = asked.once && over.load(Ordering::Relaxed);
        watch.look()?;
        if let Some(source) = watch.sources().into_iter().next() {
            return Ok(Some(source.name));
        }
        if is_last || options.interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        wait(asked.every.min(super::LOOK_MAX), &options.interrupted);
    }
}

/// Makes a plain table as a load of a file would.
fn make(
    session: &mut Session,
    asked: &Ingest,
    options: &LoadOptions,
    audience: &dyn Audience,
    sample: &str,
) -> Result<()> {
    let mut job = asked.job.clone();
    job.tables[0].sources = vec![sample.to_owned()];
    let Some(statement) = creation(&job, options, audience)? else { return Ok(()) };
    let path = fullbore_pgwire::session::path::OF_ROLE;
    session.execute(&format!("{path}{statement}")).map(drop).map_err(|error| {
        Error::usage_with_hint(error.to_string(), error.hint().unwrap_or_default())
    })
}
