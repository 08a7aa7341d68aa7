//! `fullbore runs abort` rolls back a run that stopped, `fullbore runs undo` one that has finished.

use fullbore::destinations::{Destinations, is_database, reopened};
use fullbore::state::{id_of, runs_dir};
use fullbore::{Ended, saved};
use fullbore_databases::Database;
use fullbore_databases::ledger::{State as KeptState, take_back};
use fullbore_load::job::Job;
use fullbore_load::run_id::RunId;
use fullbore_pgwire::quote_identifier;
use fullbore_postgres::Postgres;
use fullbore_postgres::ledger::runs::{LedgerRun, LedgerTable, State, Which};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;
use fullbore_record::{Event, Recorder};

use super::args::LedgerArgs;
use crate::words::{complain, grouped, warn};

/// A database and the schema of its ledger.
pub struct Opened {
    pub postgres: Postgres,
    /// Quoted.
    pub schema: String,
}

impl Opened {
    /// Connects to the ledger that is named, else to that of a run of this machine.
    pub fn at(ledger: &LedgerArgs, run: Option<&str>) -> Result<Self> {
        let saved = match run {
            Some(run) => saved::read(&runs_dir()?.join(run)).ok(),
            None => None,
        };
        let mut job = saved.map_or_else(Job::default, |saved| saved.job);
        job.to = ledger.to.clone().or(job.to.map(|to| reopened(&to)));
        let schema = ledger.ledger_schema.clone().or(job.ledger_schema.clone());
        match Destinations::open(&job, &warn)? {
            Destinations::Postgres(server) => {
                let schema = server.ledger_schema(schema.as_deref())?;
                let schema = quote_identifier(&schema)
                    .map_err(|error| Error::usage(format!("--ledger-schema: {error}")))?;
                Ok(Self { postgres: Postgres::of_past_runs(server), schema })
            }
            _ => Err(Error::usage("this command knows the ledgers of PostgreSQL servers alone")),
        }
    }

    /// The run of this id; of a load in parts, its first.
    pub fn run(&self, id: &str) -> Result<LedgerRun> {
        Ok(self.runs(id)?.swap_remove(0))
    }

    /// The run of this id, or those of all parts of the load of this id.
    pub fn runs(&self, id: &str) -> Result<Vec<LedgerRun>> {
        let mut found = self.postgres.ledger_runs(&self.schema, &Which::Run(id))?;
        if found.is_empty() {
            for part in self.postgres.parts_of(&self.schema, id)? {
                found.extend(self.postgres.ledger_runs(&self.schema, &Which::Run(&part.run_id))?);
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        Err({
            Error::usage_with_hint(
                format!("run {id} is not in the ledger in schema {}", self.schema),
                "set its database with --to, and the schema with --ledger-schema; see `fullbore \
                 runs list --to URL`",
            )
        })
    }
}

pub fn abort(run: &str, delete_rows: bool, ledger: &LedgerArgs) -> Result<Ended> {
    let id = id_of(run)?;
    if let Some(database) = other_database(ledger, &id)? {
        return abort_in(&database, &id, delete_rows);
    }
    let opened = Opened::at(ledger, Some(&id))?;
    if let Some(ended) = abort_write(&opened, &id)? {
        return Ok(ended);
    }
    let run = opened.run(&id)?;
    let deleted = match delete_rows {
        true if !run.tables.iter().any(LedgerTable::is_piecewise) => {
            return Err(Error::usage_with_hint(
                format!("--delete-rows is for rows of plain append, and run {id} has none"),
                "omit --delete-rows: the run's staged rows are dropped",
            ));
        }
        true if opened.postgres.part_of(&opened.schema, &run.run_id)?.is_some() => {
            return Err(Error::usage_with_hint(
                format!(
                    "--delete-rows is for loads by one host, and run {id} is a part of a load by \
                     several"
                ),
                "omit --delete-rows, and delete the rows manually by a condition that identifies \
                 them",
            ));
        }
        true => opened.postgres.delete_appended(&opened.schema, &run)?,
        false => 0,
    };
    let taken = opened.postgres.take_back_all(&opened.schema, &run)?;
    for why in &taken.left_behind {
        complain(
            why,
            Some("end the session that blocks it, or drop it manually; then abort again"),
        );
    }
    if !taken.left_behind.is_empty() {
        return Ok(Ended::Failed);
    }
    tell_record(&id, taken.rows_kept);
    if taken.rows_kept > 0 {
        let instead = match run.tables.iter().any(LedgerTable::is_piecewise) {
            true => "--delete-rows would have deleted them; see --atomic, too",
            false => "--atomic merges all rows or none",
        };
        tell!(
            "run {id} is closed; it had committed {} rows to the table, and nothing was removed \
             ({instead})",
            grouped(taken.rows_kept)
        );
        return Ok(Ended::Stopped);
    }
    match deleted {
        0 => tell!("run {id} is rolled back"),
        rows => tell!("run {id} is rolled back: {} rows were deleted", grouped(rows)),
    }
    Ok(Ended::Loaded)
}

/// The database of a run, where that is no PostgreSQL.
fn other_database(ledger: &LedgerArgs, run: &str) -> Result<Option<Database>> {
    let saved = || saved::read(&runs_dir().ok()?.join(run)).ok()?.job.to;
    let to = ledger.to.clone().or_else(saved).filter(|to| is_database(Some(to)));
    to.map(|to| Database::open(&to, false)).transpose()
}

fn abort_in(database: &Database, id: &str, delete_rows: bool) -> Result<Ended> {
    if delete_rows {
        return Err(Error::usage_with_hint(
            format!("--delete-rows is not possible in {}", database.name()),
            "omit it, and delete the rows manually by a condition that identifies them",
        ));
    }
    let run = database.runs(None)?.into_iter().find(|run| run.run_id == id);
    let run = run.filter(|run| run.state == KeptState::Loading).ok_or_else(|| {
        Error::usage_with_hint(
            format!("{} knows no unfinished run {id}", database.place().told()),
            "set its database with --to",
        )
    })?;
    let rows_kept = take_back(database, &run)?;
    tell_record(id, rows_kept);
    match rows_kept {
        0 => tell!("run {id} is rolled back"),
        rows => tell!(
            "run {id} is closed; it had committed {} rows to the table, and nothing was removed \
             (--atomic merges all rows or none)",
            grouped(rows)
        ),
    }
    Ok(if rows_kept > 0 { Ended::Stopped } else { Ended::Loaded })
}

/// Rolls back a write of an engine whose driver has gone; `None` if the id is none of such a write.
fn abort_write(opened: &Opened, id: &str) -> Result<Option<Ended>> {
    let Some(write) = RunId::parse(id) else { return Ok(None) };
    let Some(target) = opened.postgres.write_target(&write)? else { return Ok(None) };
    if !opened.postgres.ledger_runs(&opened.schema, &Which::Run(id))?.is_empty() {
        return Ok(None);
    }
    opened.postgres.roll_write_back(&opened.schema, &write, &target)?;
    let left = opened.postgres.drop_staged(&opened.schema, &write, &target, None)?;
    for why in &left {
        complain(why, Some("end the session that blocks it, then abort again"));
    }
    if !left.is_empty() {
        return Ok(Some(Ended::Failed));
    }
    tell!("write {id} into {target} is rolled back");
    Ok(Some(Ended::Loaded))
}

pub fn undo(run: &str, delete_rows: bool, ledger: &LedgerArgs) -> Result<Ended> {
    let id = id_of(run)?;
    let opened = Opened::at(ledger, Some(&id))?;
    let runs = opened.runs(&id)?;
    if let Some(part) = opened.postgres.part_of(&opened.schema, &id)? {
        return Err(Error::usage_with_hint(
            format!("run {id} is {}, and one part of a load can't be undone", part.words()),
            format!("`fullbore runs undo {}` undoes all parts of the load", part.whole),
        ));
    }
    let is_append = |table: &LedgerTable| table.publish == Publish::Append;
    if delete_rows && !runs.iter().flat_map(|run| &run.tables).any(is_append) {
        return Err(Error::usage_with_hint(
            format!("--delete-rows is for rows that were appended, and run {id} has none"),
            "omit --delete-rows",
        ));
    }
    let mut rows = 0;
    // One that was undone before the command was interrupted is passed over.
    for run in runs.iter().filter(|run| runs.len() == 1 || run.state != State::Undone) {
        rows += opened.postgres.undo(&opened.schema, run, delete_rows)?;
    }
    tell_record(&id, 0);
    let is_back = runs.iter().flat_map(|run| &run.tables).any(|table| table.kept.is_some());
    let back = if is_back { ", and the replaced table is restored" } else { "" };
    tell!("run {id} is undone: {} rows were removed{back}", grouped(rows));
    Ok(Ended::Loaded)
}

/// Notes it in the record of the run, if it is on this machine.
fn tell_record(id: &str, rows_kept: u64) {
    let Ok(folder) = runs_dir().map(|runs| runs.join(id)) else { return };
    if folder.is_dir()
        && let Ok(recorder) = Recorder::append(&folder, None)
    {
        recorder.record(Event::RunTakenBack { rows_kept });
    }
}
