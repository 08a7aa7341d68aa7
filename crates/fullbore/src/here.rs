//! Local records of plain appends, in addition to the ledger: a run without a ledger row is not silently
//! started again.

use std::path::{Path, PathBuf};

use fullbore_load::plan::Plan;
use fullbore_load::plan::recorded::RecordedFile;
use fullbore_load::run_id::RunId;
use fullbore_postgres::ledger::runs::Which;
use fullbore_postgres::{PostgresTable, Server};
use fullbore_read::error::{Error, Result};
use fullbore_record::{Event, RunState, make_private, read_events, summary_of};
use fullbore_report::words::grouped;
use serde::{Deserialize, Serialize};

use crate::state::runs_dir;

/// What a run has appended, and where to.
#[derive(Debug, Serialize, Deserialize)]
struct Appended {
    database: String,
    tables: Vec<AppendedTable>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AppendedTable {
    /// Its number; 0 of one that the run has made.
    oid: u32,
    name: String,
    /// Paths without links.
    files: Vec<String>,
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("appended.json")
}

fn canonical(file: &RecordedFile) -> String {
    file.canonical.clone().unwrap_or_else(|| file.path.clone())
}

/// Notes what a run is about to append.
pub fn note(plan: &Plan, server: &Server, targets: &[PostgresTable]) -> Result<()> {
    let tables = plan.tables.iter().zip(targets);
    let tables: Vec<_> = tables
        .filter(|(table, _)| table.is_piecewise())
        .map(|(table, target)| AppendedTable {
            oid: target.relation.oid,
            name: target.name().to_string(),
            files: table
                .files
                .iter()
                .filter(|file| file.is_regular)
                .map(|file| canonical(&RecordedFile::of(file)))
                .collect(),
        })
        .collect();
    if tables.iter().all(|table| table.files.is_empty()) {
        return Ok(());
    }
    let appended = Appended { database: server.database().to_owned(), tables };
    let text = serde_json::to_vec(&appended).expect("plain data becomes JSON");
    let path = path(&plan.run_dir);
    make_private(&plan.run_dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|source| Error::Write { path, source })
}

/// Whether a run came so far that rows moved.
fn has_loaded(run_dir: &Path) -> bool {
    let events = read_events(run_dir).unwrap_or_default();
    events
        .iter()
        .any(|entry| matches!(entry.event, Event::Sample { .. } | Event::PieceCommitted { .. }))
}

/// Refuses to begin anew with `--resume` what a run of this machine has appended that the ledger does not
/// know: nothing tells then what of it is in the table.
pub fn check<'a>(
    server: &Server,
    schema: &str,
    oid: u32,
    name: &str,
    files: impl Iterator<Item = &'a RecordedFile>,
) -> Result<()> {
    let files: Vec<String> = files.map(canonical).collect();
    let Ok(entries) = std::fs::read_dir(runs_dir()?) else { return Ok(()) };
    for entry in entries.flatten() {
        let Ok(text) = std::fs::read(path(&entry.path())) else { continue };
        let Ok(appended) = serde_json::from_slice::<Appended>(&text) else { continue };
        if appended.database != server.database() {
            continue;
        }
        let is_it = |table: &&AppendedTable| match table.oid {
            0 => table.name == name,
            number => number == oid,
        };
        let shared = appended
            .tables
            .iter()
            .filter(is_it)
            .flat_map(|table| &table.files)
            .find(|file| files.contains(file));
        let Some(file) = shared else { continue };
        let Some(run) = summary_of(&entry.path()) else { continue };
        let known_id = RunId::parse(&run.run_id);
        // What a run has committed that was killed, its record need not have heard of.
        let may_have_rows =
            run.rows > 0 || run.state == RunState::Unfinished && has_loaded(&entry.path());
        if !may_have_rows || run.state == RunState::RolledBack || known_id.is_none() {
            continue;
        }
        let is_known = !server.ledger_runs(schema, &Which::Run(&run.run_id))?.is_empty();
        if is_known || server.has_no_rows(oid)? {
            continue;
        }
        return Err(Error::usage_with_hint(
            format!(
                "run {} on this machine loaded rows of {file} into {name} ({} rows by its record) \
                 but is not in the ledger: --resume would load all rows again",
                run.run_id,
                grouped(run.rows)
            ),
            "check the table; --if-loaded again loads all files anyway",
        ));
    }
    Ok(())
}
