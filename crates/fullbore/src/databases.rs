//! A load into a database other than PostgreSQL: where its run stands by the ledger in it, and its plan.

use std::sync::Arc;
use std::time::Duration;

use fullbore_databases::ledger::{KeptRun, KeptTable, State};
use fullbore_databases::{Database, Rows, Table};
use fullbore_load::constants::RETRY_FOR_DEFAULT_S;
use fullbore_load::job::{IfLoaded, Job};
use fullbore_load::plan::assemble::{Earlier, Folders, assemble, name_of};
use fullbore_load::plan::{Completion, Continuity, Planned};
use fullbore_pgwire::QualifiedName;
use fullbore_read::content::Same;
use fullbore_read::discover::read_once;
use fullbore_read::error::{Error, Result};

use crate::ended::RunBefore;
use crate::ledger_state::source_change;
use crate::load::LoadOptions;
use crate::loaded::{known, unsure};
use crate::state::runs_dir;
use crate::tables::File;

/// What is to be done with a job.
pub enum Decision {
    /// A run is begun, or gone on with.
    Run(Box<Decided>),
    /// It was done before, as the words say.
    Finished(RunBefore, String),
}

/// A run that is about to be planned.
pub struct Decided {
    job: Job,
    earlier: Option<KeptRun>,
    continuity: Continuity,
    notes: Vec<String>,
}

/// Decides by the database's ledger; nothing is touched.
pub fn decide(job: &Job, database: &Database, options: &LoadOptions) -> Result<Decision> {
    // A driver's options may hold a password, and a job is kept.
    let job = &Job { to: Some(database.place().told()), ..job.clone() };
    let (is_resumable, reason) = match obstacle(job, database) {
        Some(reason) => (false, reason),
        None => (true, String::new()),
    };
    if !is_resumable && options.resume {
        return Err(Error::usage_with_hint(format!("--resume: {reason}"), "omit --resume"));
    }
    if !is_resumable && matches!(job.if_loaded, Some(IfLoaded::Fail | IfLoaded::Skip)) {
        return Err(Error::usage_with_hint(
            format!("--if-loaded needs a ledger, but none can be kept: {reason}"),
            "omit --if-loaded",
        ));
    }
    let continuity = Continuity {
        is_resumable,
        reason,
        keeps: options.resume,
        patience: Duration::from_secs(job.retry_for.unwrap_or(RETRY_FOR_DEFAULT_S)),
        ..Continuity::default()
    };
    let mut decided = Decided { job: job.clone(), earlier: None, continuity, notes: Vec::new() };
    if !is_resumable {
        return Ok(Decision::Run(Box::new(decided)));
    }
    let runs = database.runs(None)?;
    let identity = job.identity()?;
    let last = runs.iter().find(|run| match &options.run {
        Some(named) => run.run_id == *named,
        None => run.job == identity,
    });
    match last {
        Some(run) if options.resume && run.state == State::Loading => {
            let recorded = run.recorded();
            if let Some(change) = source_change(job, &recorded) {
                return Err(recorded.refusal(&format!("its sources changed: {change}")));
            }
            decided.earlier = Some(run.clone());
            decided.continuity.resumes = true;
            return Ok(Decision::Run(Box::new(decided)));
        }
        // A run that is named is resumed, or it has ended.
        Some(run) if options.run.is_some() && run.state == State::Finished => {
            return Ok(Decision::Finished(before(run), finished_words(run)));
        }
        Some(run) if options.resume && source_change(job, &run.recorded()).is_none() => {
            return Ok(Decision::Finished(before(run), finished_words(run)));
        }
        None if options.run.is_some() => {
            let named = options.run.as_deref().unwrap_or_default();
            return Err(Error::usage_with_hint(
                format!("run {named} is not in the database's ledger"),
                "it was rolled back, or is in another database: load again",
            ));
        }
        Some(run) if run.state == State::Loading => heed(run, job, &mut decided.notes)?,
        _ => {}
    }
    leave_out(decided, database, &runs, options.resume)
}

/// Why no ledger is kept of a job's run.
fn obstacle(job: &Job, database: &Database) -> Option<String> {
    if job.no_ledger {
        return Some("--no-ledger disables the ledger".into());
    }
    if !database.keeps_ledger() {
        return Some("it is not known what the driver's transactions take in".into());
    }
    let mut sources = job.tables.iter().flat_map(|table| &table.sources);
    let once = sources.find_map(|source| read_once(source).ok().flatten())?;
    Some(format!("{} can be read only once", once.path.display()))
}

/// Refuses to load what an unfinished run has in the table already.
fn heed(run: &KeptRun, job: &Job, notes: &mut Vec<String>) -> Result<()> {
    let id = &run.run_id;
    let is_shown = run.tables.iter().any(|table| table.is_piecewise());
    if is_shown && run.rows > 0 && job.if_loaded != Some(IfLoaded::Again) {
        return Err(Error::usage_with_hint(
            format!(
                "run {id} ({}) has not finished, and {} rows of the same files are already in {}",
                run.started, run.rows, run.tables[0].target
            ),
            format!(
                "--resume loads the missing rows, `fullbore runs abort {id}` closes the run; \
                 --if-loaded again loads all files, and the existing rows stay"
            ),
        ));
    }
    notes.push(format!(
        "run {id} of this job has not finished; this is a new run (--resume resumes {id}, `fullbore \
         runs abort {id}` closes it)"
    ));
    Ok(())
}

/// Leaves files out that finished runs have appended to the same tables, or refuses.
fn leave_out(
    mut decided: Decided,
    database: &Database,
    runs: &[KeptRun],
    resume: bool,
) -> Result<Decision> {
    let default = if resume { IfLoaded::Skip } else { IfLoaded::Fail };
    let policy = decided.job.if_loaded.unwrap_or(default);
    let is_given = decided.job.if_loaded.is_some();
    let mut last = None;
    for table in &mut decided.job.tables {
        if policy == IfLoaded::Again || !table.publish.joins_rows() {
            continue;
        }
        let Some(files) = File::all(table, &decided.job.store) else { continue };
        let name = match (&table.name, files.first()) {
            (Some(name), _) => name.clone(),
            (None, Some(file)) => name_of(&file.source.path)?,
            (None, None) => continue,
        };
        let Ok(target) = QualifiedName::parse(&name) else { continue };
        // One that was dropped and made again has another's name, and nothing of what was loaded.
        if !database.has_rows(&target)? {
            continue;
        }
        let target = target.to_string();
        let is_into = |kept: &&KeptTable| kept.target == target && kept.publish.joins_rows();
        let mut left = Vec::new();
        let count = files.len();
        for mut file in files {
            // The oldest one tells; they come the other way round.
            let finished = runs.iter().rev().filter(|run| run.state == State::Finished);
            let loaded = finished.flat_map(|run| {
                let tables = run.tables.iter().filter(is_into);
                tables.flat_map(KeptTable::files).map(move |then| (run, then))
            });
            let known = known(loaded, |then| match file.is_untouched(then) {
                true => Ok(Same::Surely),
                false => file.compare(then),
            })?;
            let Some((run, is_sure)) = known else {
                left.push(file.path()?);
                continue;
            };
            let (path, id) = (file.source.told(), &run.run_id);
            if !is_sure && !is_given && policy == IfLoaded::Skip {
                return Err(unsure(&path, id, &run.started.to_string(), &target));
            }
            if policy == IfLoaded::Fail {
                return Err(Error::usage_with_hint(
                    format!(
                        "run {id} ({}) already loaded the contents of {path} into {target}",
                        run.started
                    ),
                    "--if-loaded skip skips such files, --if-loaded again loads them again",
                ));
            }
            decided.notes.push(format!(
                "{path} is skipped: run {id} ({}) already loaded its contents into {target}",
                run.started
            ));
            last = Some(run);
        }
        if left.len() < count {
            table.sources = left;
            table.name = Some(name);
        }
    }
    decided.job.tables.retain(|table| !table.sources.is_empty());
    match last.filter(|_| decided.job.tables.is_empty()) {
        Some(run) => {
            let notes = decided.notes.join("\n");
            let words = format!("{notes}\nall files are already loaded: there is nothing to do");
            Ok(Decision::Finished(before(run), words))
        }
        None => Ok(Decision::Run(Box::new(decided))),
    }
}

fn before(run: &KeptRun) -> RunBefore {
    RunBefore {
        run_id: run.run_id.clone(),
        rows: run.rows,
        rejected: run.rejected,
        bytes: run.bytes,
        pieces: run.pieces_committed,
    }
}

fn finished_words(run: &KeptRun) -> String {
    format!(
        "run {} already loaded the same files ({} rows, started {}): there is nothing to do; omit \
         --resume to load them again",
        run.run_id, run.rows, run.started
    )
}

/// The plan of what was decided, and the job that it is of.
pub fn planned(
    decided: Decided,
    database: &Database,
    options: &LoadOptions,
) -> Result<(Planned<Table>, Job)> {
    let Decided { job, earlier, mut continuity, notes } = decided;
    let target_change =
        |number: usize, table: &Table| earlier.as_ref()?.target_change(number, table);
    let folders = Folders { runs: runs_dir()?, rejects: options.reject_dir.clone() };
    let recorded = earlier.as_ref().map(|run| Earlier {
        recorded: run.recorded(),
        atomic: run.tables.iter().map(|table| table.atomic).collect(),
        target_change: &target_change,
    });
    let draft = assemble(&job, Some(database), folders, recorded)?;
    if let Some((_, reason)) = draft.not_resumable() {
        continuity.is_resumable = false;
        reason.clone_into(&mut continuity.reason);
    }
    let planned = draft.finish(Completion {
        continuity,
        ceilings: None,
        destination: database.place().told(),
        notes,
    });
    Ok((planned, job))
}

/// What a planned run loads into.
pub fn sink(database: Arc<Database>, planned: &Planned<Table>, job: &Job) -> Result<Rows> {
    let is_kept = planned.plan.continuity.is_resumable;
    let identity = is_kept.then(|| job.identity()).transpose()?;
    Ok(Rows::new(database, planned.targets.clone(), identity))
}
