//! A load that an engine runs on its hosts: the driver is a process of Python, which speaks JSON lines.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fullbore::{Ended, LoadOptions, state};
use fullbore_load::job::Job;
use fullbore_load::run::Outcome;
use fullbore_read::error::{Error, Result};
use fullbore_record::{Entry, Event, Listener};
use fullbore_report::live::Live;
use serde::Deserialize;
use serde_json::{Value, json};

use super::options::Reporting;
use super::signals::{listen_for_signals, pass_signals_on, say_at_once};
use crate::summary::{self, About};
use crate::words::{print_json, shown};
use crate::{log_file, progress, watch};

/// What is asked of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Load,
    Plan,
}

/// A line of the driver's.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The record of the load has begun; its tables with their bytes, where known.
    Begun {
        run_id: String,
        tables: Vec<(String, Option<u64>)>,
    },
    /// An entry of that record.
    Entry(Box<Entry>),
    Note(String),
    /// The last line.
    Answer {
        exit_code: u8,
        message: String,
        result: Value,
    },
}

/// Has the engine's driver load a job, or plan it, and prints what becomes of it.
pub fn load(
    job: &Job,
    options: &LoadOptions,
    reporting: &Reporting,
    asked: Asked,
) -> Result<Ended> {
    if let Some(path) = &reporting.log_file {
        log_file::open(path)?;
    }
    listen_for_signals();
    let mut driver = start()?;
    let mut input = driver.stdin.take().expect("it is a pipe");
    let request = json!({
        "job": job,
        "resume": options.resume,
        "reject_dir": options.reject_dir,
        "plan": asked == Asked::Plan,
    });
    // If it has ended already, it has said why. The pipe stays open: its end tells the driver that we are gone.
    let _ = writeln!(input, "{request}");
    let has_ended = AtomicBool::new(false);
    let output = BufReader::new(driver.stdout.take().expect("it is a pipe"));
    let pid = driver.id();
    let answer = thread::scope(|scope| {
        scope.spawn(|| pass_signals_on(pid, &has_ended));
        let answer = listen(output, reporting);
        has_ended.store(true, Ordering::Relaxed);
        answer
    });
    drop(input);
    let status = driver.wait();
    let (answer, run) = answer?;
    let Some((exit_code, message, result)) = answer else {
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        return Err(Error::usage_with_hint(
            format!("the driver of the load ended without an answer ({how})"),
            "what it printed is above; --resume resumes the load",
        ));
    };
    let ended = ended_of(exit_code);
    if !message.is_empty() {
        match asked {
            Asked::Plan if exit_code == 0 && !reporting.json => answer!("{}", message.trim_end()),
            _ => tell!("{}{message}", if exit_code == 0 { "" } else { "fullbore: " }),
        }
    }
    if asked == Asked::Load
        && matches!(ended, Ended::Loaded | Ended::LoadedWithRejects)
        && !reporting.quiet
    {
        run.print();
    }
    if reporting.json {
        print_json(&result);
    }
    Ok(ended)
}

fn ended_of(exit_code: u8) -> Ended {
    let all = [Ended::Loaded, Ended::Usage, Ended::LoadedWithRejects, Ended::Stopped];
    all.into_iter().find(|ended| ended.code() == exit_code).unwrap_or(Ended::Failed)
}

/// Starts the driver. It is in a group of its own, so that Ctrl-C reaches it once, by us.
fn start() -> Result<Child> {
    let python = python();
    let started = Command::new(&python)
        .args(["-m", "fullbore.ray"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn();
    started.map_err(|error| {
        Error::usage_with_hint(
            format!("can't start {}: {error}", python.display()),
            "install the Python packages fullbore and ray, or set FULLBORE_PYTHON to a Python that has them",
        )
    })
}

/// The Python that this command is installed with, or the one that the user names.
fn python() -> PathBuf {
    if let Some(named) = env::var_os("FULLBORE_PYTHON").filter(|named| !named.is_empty()) {
        return named.into();
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(std::path::Path::parent).map(|folder| folder.join("python3"));
    own.filter(|python| python.is_file()).unwrap_or_else(|| "python3".into())
}

type Answer = (u8, String, Value);

/// Hears what the driver says until it says no more.
fn listen(output: impl BufRead, reporting: &Reporting) -> Result<(Option<Answer>, Told)> {
    let mut told = Told::default();
    let mut listener: Option<Listener> = None;
    let mut live: Option<Live> = None;
    for line in output.lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Line::Begun { run_id, tables }) => {
                say_at_once(&format!(
                    "pieces in progress are rolled back; the same command with --resume resumes load {run_id}"
                ));
                if let Some(at) = &reporting.live {
                    live = Some(watch::open(at, &state::folder_of(&run_id)?)?);
                }
                listener = progress::listener(&tables, reporting.quiet || reporting.json);
                told.run_id = run_id;
            }
            Ok(Line::Entry(entry)) => {
                listener.iter().for_each(|listener| listener(&entry));
                told.take(*entry);
            }
            Ok(Line::Note(words)) if !reporting.quiet => tell!("note: {words}"),
            Ok(Line::Note(_)) => {}
            Ok(Line::Answer { exit_code, message, result }) => {
                live.into_iter().for_each(Live::finish);
                return Ok((Some((exit_code, message, result)), told));
            }
            // Something that Python printed.
            Err(_) => tell!("{}", shown(&line)),
        }
    }
    live.into_iter().for_each(Live::finish);
    Ok((None, told))
}

/// What the record told of a load.
#[derive(Default)]
struct Told {
    run_id: String,
    destination: String,
    streams: usize,
    parsers: usize,
    outcome: Outcome,
}

impl Told {
    fn take(&mut self, entry: Entry) {
        match entry.event {
            Event::Planned { plan } => {
                self.streams = plan.hosts.iter().map(|host| host.streams).sum();
                self.parsers = plan.hosts.iter().map(|host| host.parsers).sum();
                self.destination = plan.destination;
            }
            Event::Verdict { verdict, advice } => self.outcome.verdict = Some((verdict, advice)),
            Event::Rejected { rejects } => self.outcome.reject_files = rejects.files,
            Event::RunFinished { rows, rejected, bytes, seconds, phases, tables, verified } => {
                let outcome = &mut self.outcome;
                (outcome.rows, outcome.rejected, outcome.bytes) = (rows, rejected, bytes);
                (outcome.seconds, outcome.phases, outcome.verified) = (seconds, phases, verified);
                outcome.pieces = tables.iter().map(|table| table.pieces).sum();
                outcome.tables = tables;
            }
            _ => {}
        }
    }

    /// The summary; none where nothing was left to do.
    fn print(&self) {
        if self.outcome.tables.is_empty() {
            return;
        }
        let about = About {
            run_id: &self.run_id,
            destination: &self.destination,
            streams: self.streams,
            parsers: self.parsers,
            has_ceiling: true,
            rounded: Vec::new(),
            no_ledger: None,
        };
        summary::print(&about, &self.outcome);
    }
}
