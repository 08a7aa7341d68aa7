//! One load of an experiment: copies are created, the load runs as a command, its result is read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fullbore_load::job::{Job, as_job_file};
use fullbore_postgres::PostgresTable;
use fullbore_read::discover::discover_in;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::{Event, read_events};
use fullbore_sweep::{Cell, Measured, pace};
use rustix::fs::{Advice, fadvise};
use serde::Deserialize;

use super::of_scratch;
use crate::load::signals::{INTERRUPTED, pass_signals_on};
use crate::scratch::{LOG_WAS_NEW, Scratch, copies};

/// Where more of the streams' time went to other programs, a load is measured again.
const NEIGHBOUR_MAX: f64 = 0.2;

/// Where loads are run, and what they need.
pub struct Bench {
    /// The loads' own home: their records are the raw data of the experiment.
    home: PathBuf,
    folder: tempfile::TempDir,
    url: Option<String>,
    scratch: Option<(Scratch, Vec<PostgresTable>)>,
    is_cold: bool,
    log_was_new: bool,
}

/// What a load prints as JSON, as far as it is of use here.
#[derive(Deserialize)]
struct Answer {
    run_id: Option<String>,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    bytes: u64,
    verdict: Option<Verdict>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Verdict {
    limit: String,
    #[serde(default)]
    shares: Vec<Share>,
}

#[derive(Deserialize)]
struct Share {
    limit: String,
    share: f64,
}

impl Bench {
    pub fn new(
        out: &Path,
        url: Option<String>,
        scratch: Option<(Scratch, Vec<PostgresTable>)>,
        is_cold: bool,
    ) -> Result<Self> {
        let home = out.join("home");
        fs::create_dir_all(&home).map_err(|source| Error::Read { path: home.clone(), source })?;
        let home =
            fs::canonicalize(&home).map_err(|source| Error::Read { path: home.clone(), source })?;
        let folder = tempfile::tempdir()
            .map_err(|source| Error::Read { path: std::env::temp_dir(), source })?;
        Ok(Self { home, folder, url, scratch, is_cold, log_was_new: false })
    }

    /// Loads a job once.
    pub fn measure(
        &mut self,
        job: &Job,
        settings: &[(String, String)],
        block: usize,
        cell: &Cell,
    ) -> Result<Measured> {
        let mut job = job.clone();
        if let Some((scratch, targets)) = &self.scratch {
            scratch.clear().map_err(of_scratch)?;
            copies::make(scratch, targets).map_err(of_scratch)?;
            job = scratch.job_into(&job);
            // Its tables go with the others. Keeping it is a part of what a load costs.
            job.ledger_schema = (!job.no_ledger).then(|| scratch.schema().to_owned());
            if !scratch.recycle_log() && !std::mem::replace(&mut self.log_was_new, true) {
                tell!("note: {LOG_WAS_NEW}");
            }
        }
        if self.is_cold {
            forget_files(&job)?;
        }
        let answer = self.load(&job, settings)?;
        if let Some(error) = answer.error {
            return Err(failed(error));
        }
        let run = answer.run_id.unwrap_or_default();
        let seen = Seen::of(&self.home.join("runs").join(&run));
        let neighbour = answer.verdict.iter().flat_map(|verdict| &verdict.shares);
        let neighbour =
            neighbour.filter(|share| share.limit == "neighbour").map(|share| share.share);
        let neighbour: f64 = neighbour.sum();
        let disturbed = match (neighbour > NEIGHBOUR_MAX, seen.checkpoints > 0) {
            (true, _) => Some(format!("other programs took {:.0}% of it", neighbour * 100.0)),
            (false, true) => Some("a checkpoint by the clock began".to_owned()),
            (false, false) => None,
        };
        Ok(Measured {
            block,
            cell: cell.clone(),
            seconds: answer.seconds,
            bytes: answer.bytes,
            steady: seen.pace.map(|pace| pace.steady),
            ramp_s: seen.pace.map(|pace| pace.ramp_s),
            verdict: answer.verdict.map(|verdict| verdict.limit),
            disturbed,
            run,
        })
    }

    /// Runs the command. A signal is passed on to it.
    fn load(&self, job: &Job, settings: &[(String, String)]) -> Result<Answer> {
        let path = self.folder.path().join("job.toml");
        let system = |source| Error::Read { path: path.clone(), source };
        // The server is named by the environment, which nobody else can read.
        let text = as_job_file(&Job { to: None, ..job.clone() })?;
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(system)?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(system)?;
        let program = std::env::current_exe().map_err(system)?;
        let mut command = Command::new(program);
        command.arg("load").arg(&path).args(["--json", "--quiet", "--reject-dir"]);
        command.arg(self.folder.path()).env("FULLBORE_HOME", &self.home).env_remove("FULLBORE_TO");
        if let Some(url) = &self.url {
            command.env("FULLBORE_TO", url);
        }
        if !settings.is_empty() {
            command.env("PGOPTIONS", options_with(settings));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(system)?;
        let has_ended = AtomicBool::new(false);
        let pid = child.id();
        let said = thread::scope(|scope| {
            let mut errors = child.stderr.take().expect("it is a pipe");
            let errors = scope.spawn(move || read_all(&mut errors));
            scope.spawn(|| pass_signals_on(pid, &has_ended));
            let output = read_all(&mut child.stdout.take().expect("it is a pipe"));
            has_ended.store(true, Ordering::Relaxed);
            (output, errors.join().unwrap_or_default())
        });
        child.wait().map_err(system)?;
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        serde_json::from_str(&said.0).map_err(|_| failed(said.1.trim().to_owned()))
    }
}

fn failed(words: String) -> Error {
    let words = words.trim_start_matches("fullbore: ");
    Error::Destination {
        message: format!("a load of the experiment failed: {words}"),
        hint: Some(
            "the job must load without rejects, or with --max-rejects, before it is measured"
                .into(),
        ),
        kind: DestinationFailure::Data,
    }
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // What can't be read is missed where it is parsed.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The variable that gives all sessions of a load their settings, beside those that it gives already.
fn options_with(settings: &[(String, String)]) -> OsString {
    let mut options = std::env::var_os("PGOPTIONS").unwrap_or_default();
    for (name, value) in settings {
        let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
        options.push(format!(" -c {name}={value}"));
    }
    options
}

/// Lets the kernel forget what it has of the job's files. Pages that others use stay.
fn forget_files(job: &Job) -> Result<()> {
    for source in job.tables.iter().flat_map(|table| &table.sources) {
        for file in discover_in(source, &job.store)?.iter().filter(|file| file.object.is_none()) {
            let opened = File::open(&file.path)
                .map_err(|source| Error::Read { path: file.path.clone(), source })?;
            // Advice: a file system that knows no cache has none to forget.
            let _ = fadvise(&opened, 0, None, Advice::DontNeed);
        }
    }
    Ok(())
}

/// What a load's record says.
#[derive(Default)]
struct Seen {
    pace: Option<fullbore_sweep::Pace>,
    /// Checkpoints that began by the clock.
    checkpoints: u64,
}

impl Seen {
    fn of(folder: &Path) -> Self {
        let Ok(entries) = read_events(folder) else { return Self::default() };
        let mut samples = Vec::new();
        let mut timed = Vec::new();
        for entry in &entries {
            match &entry.event {
                Event::Sample { tables, .. } => {
                    samples.push((entry.at, tables.iter().map(|table| table.bytes_sent).sum()));
                }
                Event::Observed { observation } => {
                    timed
                        .extend(observation.server.as_ref().map(|server| server.checkpoints_timed));
                }
                _ => {}
            }
        }
        let first = timed.first().copied().unwrap_or_default();
        let last = timed.last().copied().unwrap_or_default();
        Self { pace: pace(&samples), checkpoints: last.saturating_sub(first) }
    }
}
