//! `fullbore sweep`: the same load with other options, over and over, and what came of it.
//!
//! Loads go to copies of the job's tables in a scratch schema, each load as a command of its own. What is
//! measured is in a journal at once, so that the same command continues an experiment.

mod args;
mod experiment;
mod measure;
mod said;

use std::fs;
use std::path::{Path, PathBuf};

use fullbore::check::{refuse_databases, refuse_given};
use fullbore::destinations::{self, Destinations};
use fullbore::{Ended, assemble};
use fullbore_load::job::{Count, Job, varied};
use fullbore_load::plan::streams::automatic_streams;
use fullbore_pgwire::Session;
use fullbore_postgres::PostgresTable;
use fullbore_read::discover::absolute;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_sweep::{Design, Journal, JournalError};
use serde::Serialize;

use crate::load::LoadArgs;
use crate::load::job::job_of;
use crate::load::signals::listen_for_signals;
use crate::scratch::{self, Scratch};
use crate::words::{Screen, complain, print_json, warn};
pub use args::SweepArgs;
use experiment::Experiment;
use measure::Bench;

pub fn run(args: &SweepArgs) -> Ended {
    match sweep(args) {
        Ok(ended) => ended,
        Err(error) => {
            complain(&error.to_string(), error.hint());
            match error {
                Error::Interrupted => Ended::Stopped,
                Error::Usage { .. } => Ended::Usage,
                _ => Ended::Failed,
            }
        }
    }
}

/// What an experiment is of: the first line of its journal.
#[derive(Serialize)]
struct About<'a> {
    job: &'a Job,
    design: &'a Design,
    stepwise: bool,
    cold: bool,
    destination: &'a str,
}

fn sweep(args: &SweepArgs) -> Result<Ended> {
    check_load(&args.load)?;
    let mut job =
        Job { sample: args.sample.map(|sample| sample.drawn_by(args.seed)), ..job_of(&args.load)? };
    // A number that each load finds by itself would differ from one to the next.
    if job.streams == Count::Auto && args.vary.iter().all(|factor| factor.name != "streams") {
        job.streams = Count::Fixed(automatic_streams());
    }
    if job.on.is_some() {
        return Err(Error::usage_with_hint(
            "the loads of an experiment run on this machine",
            "omit --on: sweep the part of one host",
        ));
    }
    if job.to.as_deref().is_some_and(|to| to.starts_with("parquet:")) {
        return Err(Error::usage_with_hint(
            "the loads of an experiment would write the same files",
            "use --to null: to measure what does not depend on the destination",
        ));
    }
    refuse_databases(&job)?;
    if let Some(fixed) = args.vary.iter().find(|factor| FIXED.contains(&factor.name.as_str())) {
        return Err(Error::usage_with_hint(
            format!(
                "--vary {} would change nothing: an experiment decides it by itself",
                fixed.name
            ),
            "run one experiment for each",
        ));
    }
    let design = Design::new(args.vary.clone(), &args.baseline, args.seed)
        .map_err(|wrong| Error::usage_with_hint(wrong, "write --vary streams=1,2,4"))?;
    // What can't be varied is refused before anything is measured.
    for cell in design.cells() {
        cell_of(&job, &design, &cell)?;
    }
    let to = Destinations::open(&job, &|words| warn(words))?.for_measuring()?;
    let destination = destinations::words(&job, to.server());
    // How the server is reached is no part of an experiment, and may have a password in it.
    let mut kept = Job { to: None, ..job.clone() };
    let sources = kept.tables.iter_mut().flat_map(|table| &mut table.sources);
    for url in sources.filter(|source| source.contains("://")) {
        // So may a signed URL.
        *url = absolute(Path::new(url))
            .map_or_else(|_| String::new(), |path| path.display().to_string());
    }
    let about = About {
        job: &kept,
        design: &design,
        stepwise: args.stepwise,
        cold: args.cold,
        destination: &destination,
    };
    let out = args.out.clone().unwrap_or_else(|| default_out(&about));
    fs::create_dir_all(&out).map_err(|source| Error::Read { path: out.clone(), source })?;
    let path = out.join("journal.jsonl");
    let journal = Journal::open(&path, &about).map_err(|error| of_journal(&path, error))?;
    if !journal.measured.is_empty() {
        tell!("{}: {} loads were measured before", path.display(), journal.measured.len());
    }
    listen_for_signals();
    let url = match destinations::is_server(job.to.as_deref()) {
        true => destinations::url(job.to.as_deref())?,
        false => job.to.clone(),
    };
    let scratch = to.server().map(|server| {
        let draft = assemble(&job, Some(server), out.clone(), None)?;
        let targets: Vec<PostgresTable> = draft.targets().to_vec();
        let session = Session::connect(server.options()).map(Session::pinned);
        let scratch =
            session.map_err(scratch::failed).and_then(Scratch::make).map_err(of_scratch)?;
        scratch.notes.iter().for_each(|note| tell!("note: {note}"));
        Ok::<_, Error>((scratch, targets))
    });
    let bench = Bench::new(&out, url, scratch.transpose()?, args.cold)?;
    let mut experiment = Experiment {
        job: &job,
        design: &design,
        repeat: args.repeat as usize,
        precision: args.precision,
        journal,
        journal_path: &path,
        bench,
    };
    let found = match args.stepwise {
        true => experiment.stepwise()?,
        false => experiment.factorial()?,
    };
    let page = out.join("index.html");
    let html = fullbore_report::sweep::render(&found, &destination);
    fs::write(&page, html).map_err(|source| Error::Read { path: page.clone(), source })?;
    let json = serde_json::to_string(&found).expect("plain data becomes JSON");
    let result = out.join("result.json");
    fs::write(&result, &json).map_err(|source| Error::Read { path: result.clone(), source })?;
    match args.load.answer.json {
        true => print_json(&found),
        // What can't be written is told as the command ends.
        false => drop(said::print(&found, &mut Screen)),
    }
    tell!("page: {}", page.display());
    Ok(Ended::Loaded)
}

/// What each load of an experiment has its own of.
const FIXED: [&str; 11] = [
    "to",
    "create",
    "if-loaded",
    "keep-old",
    "ledger-schema",
    "part",
    "partition-by",
    "pause-when",
    "schema",
    "table",
    "type",
];

/// Refuses options that say how one load is reported or continued.
fn check_load(args: &LoadArgs) -> Result<()> {
    let given = [
        (args.resume, "--resume"),
        (args.dry_run, "--dry-run"),
        (args.live.is_some(), "--live"),
        (args.log.log_file.is_some(), "--log-file"),
        (args.ceilings.is_some(), "--ceilings"),
        (args.part.is_some(), "--part"),
        (args.keep_old, "--keep-old"),
        (args.if_loaded.is_some(), "--if-loaded"),
        (args.pause_when.is_some(), "--pause-when"),
        (args.ledger_schema.is_some(), "--ledger-schema"),
        (args.reject_dir.is_some(), "--reject-dir"),
    ];
    refuse_given(&given, "applies to one load, not to an experiment", "")
}

/// The job of a cell, and the settings of its sessions.
fn cell_of(
    job: &Job,
    design: &Design,
    cell: &fullbore_sweep::Cell,
) -> Result<(Job, Vec<(String, String)>)> {
    let (mut job, mut settings) = (job.clone(), Vec::new());
    for (name, value) in design.values(cell) {
        match name.strip_prefix("set.") {
            Some(setting) => settings.push((setting.to_owned(), value.to_owned())),
            None => job = varied(&job, name, value)?,
        }
    }
    Ok((job, settings))
}

/// A folder by the experiment's own number, so that the same command finds it again.
fn default_out(about: &About<'_>) -> PathBuf {
    let text = serde_json::to_string(about).expect("plain data becomes JSON");
    Path::new(&format!("sweep-{:08x}", fullbore_read::checksum::of(text.as_bytes()) as u32))
        .to_owned()
}

fn of_journal(path: &Path, error: JournalError) -> Error {
    let path = path.to_owned();
    match error {
        JournalError::Io(source) => Error::Read { path, source },
        JournalError::Another => Error::usage_with_hint(
            format!("{} is of another experiment", path.display()),
            "use another directory: --out DIR",
        ),
        JournalError::Broken(line) => Error::usage_with_hint(
            format!("{}, line {line}: this is not a measurement", path.display()),
            "use another directory: --out DIR",
        ),
    }
}

fn of_scratch(error: fullbore_preflight::Error) -> Error {
    let hint = error.hint().map(str::to_owned);
    Error::Destination { message: error.to_string(), hint, kind: DestinationFailure::Refused }
}
