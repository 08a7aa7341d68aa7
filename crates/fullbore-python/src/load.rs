//! Loads a job on a thread of its own, while the caller's listens for signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fullbore::check::check;
use fullbore::job_file::job_file;
use fullbore::{Audience, LoadOptions, Loaded};
use fullbore_load::job::{Job, TableJob};
use fullbore_load::plan::Plan;
use fullbore_read::error::{Error, Result};
use fullbore_record::{Event, Listener};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::errors::{answered, message, refusal};

/// How often the caller looks for a signal and hears of progress.
const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// Options that are the load's, not the job's.
const OF_LOAD: [&str; 6] = ["resume", "reject_dir", "ceilings", "set", "whole", "take_over"];

/// Loads. Takes the options as a JSON object, those of the job and of its one table next to each other, or
/// the whole job as `job`; returns `exit_code`, `message` and `result` as JSON. In the caller's thread,
/// `on_progress` is called with JSON, and `on_entries` with the latest lines of the record, ten times a second
/// even if there are none; if it returns true, the load is interrupted.
#[pyfunction]
#[pyo3(signature = (options, on_progress=None, on_entries=None))]
pub fn load(
    py: Python<'_>,
    options: &str,
    on_progress: Option<Bound<'_, PyAny>>,
    on_entries: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    run(py, Callbacks { on_progress, on_entries }, asked(options), loaded)
}

/// The job that options describe, as JSON, with the destination that the environment names.
#[pyfunction]
pub fn job(options: &str) -> String {
    answered(asked(options).map(|(job, _)| job))
}

/// Resumes a run of this machine.
#[pyfunction]
#[pyo3(signature = (run, to=None, on_progress=None))]
pub fn resume(
    py: Python<'_>,
    run: &str,
    to: Option<&str>,
    on_progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let callbacks = Callbacks { on_progress, on_entries: None };
    self::run(py, callbacks, fullbore::resumed(run, to, |_| ()), loaded)
}

/// Plans. Takes options as [`load`] does; the result is what `fullbore plan --json` prints.
#[pyfunction]
pub fn plan(py: Python<'_>, options: &str) -> PyResult<String> {
    run(py, Callbacks::default(), asked(options), |job, options, told| {
        let plan = fullbore::plan(job, options, told)?;
        Ok(json!({ "exit_code": 0, "message": "", "result": plan }))
    })
}

fn loaded(job: &Job, options: &LoadOptions, told: &Told) -> Result<Value> {
    fullbore::load(job, options, told).map(|loaded| answer(&loaded, told))
}

/// The job and the options of a load.
fn asked(options: &str) -> Result<(Job, LoadOptions)> {
    let wrong = |error: serde_json::Error| Error::usage(error.to_string());
    let options: Map<String, Value> = serde_json::from_str(options).map_err(wrong)?;
    if let Some(job) = options.get("job") {
        let job: Job = serde_json::from_value(job.clone()).map_err(wrong)?;
        check(&job)?;
        return Ok((job, load_options(&options)));
    }
    let of_table = schemars::schema_for!(TableJob);
    let of_table = of_table.get("properties").and_then(Value::as_object);
    let (mut job, mut table, mut load) = (Map::new(), Map::new(), Map::new());
    for (name, value) in options {
        let is_of_table = of_table.is_some_and(|known| known.contains_key(&name));
        let place = match name.as_str() {
            load_option if OF_LOAD.contains(&load_option) => &mut load,
            _ if is_of_table => &mut table,
            _ => &mut job,
        };
        place.insert(name, value);
    }
    let to = job.contains_key("to");
    let texts = |value: Option<&Value>| -> Result<Vec<String>> {
        value.map_or(Ok(Vec::new()), |value| serde_json::from_value(value.clone()).map_err(wrong))
    };
    let (sources, settings) = (texts(table.get("sources"))?, texts(load.get("set"))?);
    match job_file(&sources, &settings, table.len() > 1)? {
        Some(read) => {
            let read = serde_json::to_value(read).map_err(wrong)?;
            for (name, value) in read.as_object().into_iter().flatten() {
                job.entry(name).or_insert_with(|| value.clone());
            }
        }
        None => drop(job.insert("table".into(), json!([table]))),
    }
    let mut job: Job = serde_json::from_value(Value::Object(job)).map_err(wrong)?;
    if !to {
        job.to = fullbore::destinations::of_environment().or(job.to);
    }
    check(&job)?;
    Ok((job, load_options(&load)))
}

fn load_options(given: &Map<String, Value>) -> LoadOptions {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let flag = |name: &str| given.get(name).and_then(Value::as_bool).unwrap_or(false);
    LoadOptions {
        resume: flag("resume"),
        reject_dir: text("reject_dir").unwrap_or(".").into(),
        ceilings: text("ceilings").map(Into::into),
        whole: text("whole").map(Into::into),
        take_over: flag("take_over"),
        ..LoadOptions::default()
    }
}

/// The result of a load in JSON.
fn answer(loaded: &Loaded, told: &Told) -> Value {
    let message = match loaded {
        Loaded::Failed { failure, .. } => message(&failure.error, &loaded.remains()),
        Loaded::Before { words, .. } => words.clone(),
        Loaded::Finished { .. } => String::new(),
    };
    json!({
        "exit_code": loaded.ended().code(),
        "message": message,
        "result": loaded.json(),
        "notes": *told.notes(),
    })
}

/// What the thread of the load tells that of the caller.
#[derive(Default)]
struct Told {
    notes: Mutex<Vec<String>>,
    progress: Arc<Mutex<Option<Value>>>,
    /// Lines of the record, where they are asked for.
    entries: Option<Arc<Mutex<Vec<String>>>>,
}

/// Whom the caller's thread calls while it waits.
#[derive(Default)]
struct Callbacks<'py> {
    on_progress: Option<Bound<'py, PyAny>>,
    on_entries: Option<Bound<'py, PyAny>>,
}

impl Told {
    fn notes(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audience for Told {
    fn warn(&self, words: &str) {
        self.notes().push(words.to_owned());
    }

    fn note(&self, words: &str, hint: Option<&str>) {
        let hint = hint.map_or_else(String::new, |hint| format!(" (hint: {hint})"));
        self.notes().push(format!("{words}{hint}"));
    }

    fn planned(&self, plan: &Plan) -> Option<Listener> {
        let (progress, run) = (self.progress.clone(), plan.run_id.clone());
        let entries = self.entries.clone();
        Some(Box::new(move |entry| {
            if let Some(entries) = &entries {
                let line = serde_json::to_string(entry).expect("plain data becomes JSON");
                entries.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
            let Event::Sample { tables, streams_active } = &entry.event else { return };
            let sum =
                |of: fn(&fullbore_record::TableTotals) -> u64| tables.iter().map(of).sum::<u64>();
            let expected: Option<u64> = tables.iter().map(|table| table.bytes_expected).sum();
            *progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(json!({
                "run_id": run,
                "seconds": entry.at,
                "rows": sum(|table| table.rows_sent),
                "bytes": sum(|table| table.bytes_sent),
                "bytes_expected": expected,
                "rejected": sum(|table| table.rejected),
                "streams": streams_active,
            }));
        }))
    }

    fn begins(&self, _: &Plan, _: bool) -> Result<()> {
        Ok(())
    }
}

/// Does work for a job on another thread until it ends. An exception meanwhile, of a signal's handler or of the
/// callback, interrupts the work; it is raised once the work has stopped. A second one is raised at once,
/// and the work is left to stop by itself.
fn run(
    py: Python<'_>,
    callbacks: Callbacks<'_>,
    asked: Result<(Job, LoadOptions)>,
    work: impl FnOnce(&Job, &LoadOptions, &Told) -> Result<Value> + Send + 'static,
) -> PyResult<String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let told =
        Told { entries: callbacks.on_entries.as_ref().map(|_| Arc::default()), ..Told::default() };
    let (progress, entries) = (told.progress.clone(), told.entries.clone());
    let (send, receive) = channel();
    let its = interrupted.clone();
    let worker = thread::Builder::new().name("fullbore".into()).spawn(move || {
        let work = |(job, options)| {
            let options = LoadOptions { interrupted: its, ..options };
            work(&job, &options, &told)
        };
        let answer = asked.and_then(work).unwrap_or_else(|error| refusal(&error));
        // Nobody waits any more after a second exception.
        let _ = send.send(answer);
    });
    let worker = worker
        .map_err(|error| PyRuntimeError::new_err(format!("can't start a thread: {error}")))?;
    let mut raised: Option<PyErr> = None;
    let receive = Mutex::new(receive);
    let listen = || {
        let receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
        receive.recv_timeout(LISTEN_EVERY)
    };
    let answer = loop {
        match py.detach(listen) {
            Ok(answer) => break Some(answer),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let latest = progress.lock().unwrap_or_else(PoisonError::into_inner).take();
        let heard = match (&callbacks.on_progress, latest) {
            (Some(callback), Some(latest)) if raised.is_none() => {
                callback.call1((latest.to_string(),)).map(drop)
            }
            _ => Ok(()),
        };
        let heard = heard.and_then(|()| match raised {
            None => hand_over(&callbacks, entries.as_ref(), &interrupted),
            Some(_) => Ok(()),
        });
        if let Err(error) = heard.and_then(|()| py.check_signals()) {
            interrupted.store(true, Ordering::Relaxed);
            if let Some(first) = raised.replace(error) {
                return Err(first);
            }
        }
    };
    if py.detach(|| worker.join()).is_err() {
        return Err(PyRuntimeError::new_err("a thread of the load panicked; see standard error"));
    }
    if raised.is_none() {
        hand_over(&callbacks, entries.as_ref(), &interrupted)?;
    }
    match (raised, answer) {
        (None, Some(answer)) => Ok(answer.to_string()),
        (Some(error), Some(answer)) => {
            let note = answer.get("message").and_then(Value::as_str).unwrap_or_default();
            if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(PyKeyboardInterrupt::new_err(note.to_owned()));
            }
            // Before Python 3.11 an exception takes no notes.
            let _ = error.value(py).call_method1("add_note", (note,));
            Err(error)
        }
        (_, None) => Err(PyRuntimeError::new_err("the load ended without a result")),
    }
}

/// Hands the latest lines of the record to who asked for them, who may want the load to stop.
fn hand_over(
    callbacks: &Callbacks<'_>,
    entries: Option<&Arc<Mutex<Vec<String>>>>,
    interrupted: &AtomicBool,
) -> PyResult<()> {
    let (Some(callback), Some(entries)) = (&callbacks.on_entries, entries) else { return Ok(()) };
    let lines = std::mem::take(&mut *entries.lock().unwrap_or_else(PoisonError::into_inner));
    if callback.call1((lines,))?.is_truthy()? {
        interrupted.store(true, Ordering::Relaxed);
    }
    Ok(())
}
