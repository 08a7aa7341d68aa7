//! How fast a server takes rows of a table's shape: real loads into a scratch schema, by method and
//! sessions.
//!
//! Copy fills one table by all sessions, as `append` does; direct fills a table each, since only one
//! session can write a new heap.

mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore::assemble;
use fullbore::destinations::Destinations;
use fullbore_load::job::{Count, Job, TableJob};
use fullbore_load::plan::{Completion, Plan, Planned};
use fullbore_parse::dialect::FormatName;
use fullbore_pgwire::{ConnectionOptions, Session};
use fullbore_preflight::Error;
use fullbore_preflight::db::Facts;
use fullbore_preflight::knee::knee;
use fullbore_record::Recorder;
use fullbore_record::terms::{Method, Publish, Statistics};
use serde::Serialize;

use super::args::{DbArgs, RateMethod};
use super::usage_of;
use crate::load::signals::{INTERRUPTED, listen_for_signals};
use crate::scratch::{self, Scratch};
use crate::words::{bytes, counted, grouped, warn};

const SESSIONS_MAX: usize = 64;

/// All measurements together write no more text than this.
const BYTES_MAX: u64 = 64 << 30;

#[derive(Debug, Serialize)]
pub struct Rates {
    pub table: String,
    pub rows_from: String,
    pub cells: Vec<RateCell>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RateCell {
    pub method: &'static str,
    pub sessions: usize,
    pub rows: u64,
    /// Of text.
    pub bytes: u64,
    /// Of the phase in which rows are loaded.
    pub seconds: f64,
    pub rows_per_second: f64,
    pub bytes_per_second: f64,
    /// The fewest sessions of this method that reach nearly its best rate.
    pub is_knee: bool,
}

/// The rows to load, and how they are written.
struct Sample {
    file: PathBuf,
    format: Option<FormatName>,
    said: String,
    /// Where made-up rows lie.
    _folder: tempfile::TempDir,
}

pub fn run(
    args: &DbArgs,
    table: &str,
    options: &ConnectionOptions,
    facts: &Facts,
) -> Result<Rates, Error> {
    if args.sessions.is_empty() || args.sessions.iter().any(|n| !(1..=SESSIONS_MAX).contains(n)) {
        return Err(Error::refused(
            format!("sessions must be 1 to {SESSIONS_MAX}"),
            "give them with --sessions: --sessions 1,2,4",
        ));
    }
    if facts.is_standby {
        return Err(Error::refused(
            "the server is a standby, which is read-only",
            "give the URL of its primary, or omit --table",
        ));
    }
    if facts.is_pooled {
        return Err(Error::refused(
            "the connection goes through a pooler: only the pooler would be measured",
            "give the URL of the server itself, or omit --table",
        ));
    }
    let mut session = Session::connect(options).map_err(scratch::failed)?.pinned();
    let shape = rows::shape(&mut session, table)?;
    let methods = methods(args, facts);
    let sessions: usize = args.sessions.iter().sum();
    let of_each = args.sample.as_deref().map_or(Ok(args.bytes), size_of)?;
    let whole = of_each.saturating_mul((sessions * methods.len()) as u64);
    if whole > BYTES_MAX || facts.place.as_ref().is_some_and(|p| p.data.free_bytes / 3 < whole) {
        return Err(Error::refused(
            format!(
                "the measurements need {} of text, more than {} or a third of the server's free \
                 disk",
                bytes(whole),
                bytes(BYTES_MAX)
            ),
            "reduce --bytes, --sample or --sessions",
        ));
    }
    listen_for_signals();
    let sample = sample(args, &shape)?;
    let scratch = Scratch::make(session)?;
    let mut rates = Rates {
        table: shape.name.to_string(),
        rows_from: sample.said.clone(),
        cells: Vec::new(),
        notes: scratch.notes.clone(),
    };
    let mut is_recycled = true;
    for method in methods {
        let first = rates.cells.len();
        for sessions in &args.sessions {
            is_recycled &= rates.cells.is_empty() || scratch.recycle_log();
            match measure(args, (&scratch, &shape), &sample, method, *sessions)? {
                Ok(cell) => {
                    tell!(
                        "{}, {}: {} rows/s",
                        cell.method,
                        counted(*sessions as u64, "session"),
                        grouped(cell.rows_per_second as u64)
                    );
                    rates.cells.push(cell);
                }
                Err(reason) => {
                    rates.notes.push(format!(
                        "{} with {} was not measured: {reason}",
                        name(method),
                        counted(*sessions as u64, "session")
                    ));
                    // What more sessions would meet, too.
                    break;
                }
            }
        }
        mark_knee(&mut rates.cells[first..]);
    }
    if !is_recycled {
        rates.notes.push(scratch::LOG_WAS_NEW.into());
    }
    Ok(rates)
}

fn name(method: RateMethod) -> &'static str {
    match method {
        RateMethod::Copy => "copy",
        RateMethod::Direct => "direct",
    }
}

fn methods(args: &DbArgs, facts: &Facts) -> Vec<RateMethod> {
    match args.method.as_slice() {
        [] if facts.direct_lacks.is_empty() => vec![RateMethod::Copy, RateMethod::Direct],
        [] => vec![RateMethod::Copy],
        given => given.to_vec(),
    }
}

fn sample(args: &DbArgs, shape: &rows::Shape) -> Result<Sample, Error> {
    let system = |source| Error::System { what: "make a folder for rows", source };
    let folder = tempfile::TempDir::new().map_err(system)?;
    let Some(file) = &args.sample else {
        let file = folder.path().join("rows");
        let rows = rows::write(shape, &file, args.bytes)?;
        let said = format!("{} generated", grouped(rows));
        return Ok(Sample { file, format: Some(FormatName::Text), said, _folder: folder });
    };
    let bytes = size_of(file)?;
    if bytes > args.bytes {
        return Err(Error::refused(
            format!(
                "{} has {bytes} bytes, more than the {} of a session",
                file.display(),
                args.bytes
            ),
            "give a larger --bytes, or a part of the file: head -n 100000 FILE > part",
        ));
    }
    let file = std::path::absolute(file).map_err(|source| path_error(file, source))?;
    let said = format!("from {}", file.display());
    Ok(Sample { file, format: None, said, _folder: folder })
}

fn size_of(file: &Path) -> Result<u64, Error> {
    let found = std::fs::metadata(file).map_err(|source| path_error(file, source))?;
    Ok(found.len())
}

fn path_error(path: &Path, source: std::io::Error) -> Error {
    Error::Path { what: "read", path: path.to_path_buf(), source, hint: None }
}

/// One load; the inner error is a reason why this one can't be measured.
fn measure(
    args: &DbArgs,
    (scratch, shape): (&Scratch, &rows::Shape),
    sample: &Sample,
    method: RateMethod,
    sessions: usize,
) -> Result<Result<RateCell, String>, Error> {
    let job = job(args, (scratch, shape), sample, method, sessions)?;
    let to =
        Destinations::open(&job, &warn).and_then(Destinations::for_measuring).map_err(usage_of)?;
    // A run of nobody's: it leaves no record, and no rejects either.
    let folder = tempfile::TempDir::new()
        .map_err(|source| Error::System { what: "make a folder for a run", source })?;
    let draft = match assemble(&job, to.server(), folder.path().to_path_buf(), None) {
        Ok(draft) => draft,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Planned { plan, targets, .. } = draft.finish(Completion::default());
    let plan = Plan { run_dir: folder.path().to_path_buf(), ..plan };
    let sink = to.into_sink(targets, None, None);
    let plan = Arc::new(plan);
    let ended = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let is_late = AtomicBool::new(false);
    let limit = Duration::from_secs(args.seconds);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                is_late.fetch_or(began.elapsed() > limit, Ordering::Relaxed);
                if INTERRUPTED.load(Ordering::Relaxed) || is_late.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let result = fullbore_load::run::run(&plan, sink.as_sink(), &Recorder::nowhere(), &stop);
        ended.store(true, Ordering::Relaxed);
        result
    });
    match result {
        Ok(outcome) => {
            let of_loading = outcome.phases.iter().find(|phase| phase.name == "load");
            let seconds = of_loading.map_or(outcome.seconds, |phase| phase.seconds).max(1e-6);
            Ok(Ok(RateCell {
                method: name(method),
                sessions,
                rows: outcome.rows,
                bytes: outcome.bytes,
                seconds,
                rows_per_second: outcome.rows as f64 / seconds,
                bytes_per_second: outcome.bytes as f64 / seconds,
                is_knee: false,
            }))
        }
        Err(_) if is_late.load(Ordering::Relaxed) => {
            Ok(Err(format!("it took longer than {} s: reduce --bytes", args.seconds)))
        }
        Err(failure) if INTERRUPTED.load(Ordering::Relaxed) => Err(usage_of(failure.error)),
        Err(failure) => Ok(Err(failure.error.to_string())),
    }
}

fn job(
    args: &DbArgs,
    (scratch, shape): (&Scratch, &rows::Shape),
    sample: &Sample,
    method: RateMethod,
    sessions: usize,
) -> Result<Job, Error> {
    let file = sample
        .file
        .to_str()
        .ok_or_else(|| Error::refused("the sample's path is not UTF-8", "give it another name"))?;
    let table = |name: String, files: usize, publish| TableJob {
        name: Some(name),
        sources: vec![file.to_owned(); files],
        format: sample.format,
        publish,
        ..TableJob::default()
    };
    let (method, tables) = match method {
        RateMethod::Copy => {
            let tables = scratch.tables(1, &shape.name)?.into_iter();
            (Method::Copy, tables.map(|name| table(name, sessions, Publish::Append)).collect())
        }
        RateMethod::Direct => {
            let tables = scratch.tables(sessions, &shape.name)?.into_iter();
            (Method::Direct, tables.map(|name| table(name, 1, Publish::Replace)).collect())
        }
    };
    Ok(Job {
        to: args.url.clone(),
        streams: Count::Fixed(sessions),
        method,
        tables_at_once: true,
        statistics: Statistics::None,
        no_ledger: true,
        tables,
        ..Job::default()
    })
}

fn mark_knee(cells: &mut [RateCell]) {
    let rates: Vec<f64> = cells.iter().map(|cell| cell.rows_per_second).collect();
    if let Some(at) = knee(&rates, |at| cells[at].sessions) {
        cells[at].is_knee = true;
    }
}
