//! A load in parts, for the driver that an engine runs: its files, where it stands, its record.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fullbore::whole::{Driven, Stopped, WholeRecord, files, standing};
use fullbore_load::job::{Job, MaxRate};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{answered, parsed};

/// The files of a job on this host, by table: in the `result` of a JSON answer as [`crate::load::load`] has.
#[pyfunction]
pub fn job_files(py: Python<'_>, job: &str) -> PyResult<String> {
    let job: Job = parsed(job)?;
    Ok(py.detach(|| answered(files(&job))))
}

/// Where a load of so many parts stands, in such an answer.
#[pyfunction]
pub fn whole_standing(py: Python<'_>, job: &str, parts: u32, resume: bool) -> PyResult<String> {
    let job: Job = parsed(job)?;
    Ok(py.detach(|| answered(standing(&job, parts, resume))))
}

/// Limits what a part of this machine may send, in bytes a second; none for no limit.
#[pyfunction]
#[pyo3(signature = (run, bytes_per_second))]
pub fn throttle(run: &str, bytes_per_second: Option<u64>) -> PyResult<()> {
    let rate = bytes_per_second.map(MaxRate::at_least);
    fullbore::rate::throttle(run, rate).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The record of a load in parts. What is recorded is kept as lines until `drain` takes them.
#[pyclass]
pub struct Whole {
    record: Option<WholeRecord>,
    lines: Arc<Mutex<Vec<String>>>,
}

#[pymethods]
impl Whole {
    /// `driven` is a [`Driven`] as JSON.
    #[new]
    fn new(driven: &str) -> PyResult<Self> {
        let driven: Driven = parsed(driven)?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let listener = move |entry: &fullbore_record::Entry| {
            let line = serde_json::to_string(entry).expect("plain data becomes JSON");
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        };
        let record = WholeRecord::new(driven, Some(Box::new(listener)))
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(Self { record: Some(record), lines })
    }

    fn begin(&mut self, part: usize, host: &str) -> PyResult<()> {
        self.record()?.begin(part, host);
        Ok(())
    }

    fn end(&mut self, part: usize) -> PyResult<()> {
        self.record()?.end(part);
        Ok(())
    }

    #[allow(clippy::needless_pass_by_value, reason = "Python hands it over")]
    fn take(&mut self, part: usize, lines: Vec<String>) -> PyResult<()> {
        self.record()?.take(part, &lines);
        Ok(())
    }

    /// What all parts together may send, in bytes a second.
    fn rate(&mut self) -> PyResult<Option<u64>> {
        Ok(self.record()?.rate())
    }

    fn note(&mut self, words: &str) -> PyResult<()> {
        self.record()?.note(words);
        Ok(())
    }

    /// Ends the record; `stopped` is a [`Stopped`] as JSON. Returns what `--json` prints.
    #[pyo3(signature = (reject_files, stopped=None))]
    fn finish(&mut self, reject_files: Vec<PathBuf>, stopped: Option<&str>) -> PyResult<String> {
        let stopped = stopped.map(parsed::<Stopped>).transpose()?;
        self.record()?;
        let record = self.record.take().expect("it is there");
        Ok(record.finish(reject_files, stopped).to_string())
    }

    /// Lines that were recorded since the last call.
    fn drain(&mut self) -> Vec<String> {
        if let Some(record) = &mut self.record {
            record.tick();
        }
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Whole {
    fn record(&mut self) -> PyResult<&mut WholeRecord> {
        self.record.as_mut().ok_or_else(|| PyRuntimeError::new_err("the record has ended"))
    }
}
