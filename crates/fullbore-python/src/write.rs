//! Steps of a write by tasks of an engine, each in the `result` of a JSON answer as [`crate::load::load`] has.

use fullbore::write::{check, close, id, stage, unstage};
use fullbore_load::run_id::RunId;
use fullbore_read::error::{Error, Result};
use pyo3::prelude::*;

use crate::errors::{answered, parsed};

fn run_id(text: &str) -> Result<RunId> {
    RunId::parse(text).ok_or_else(|| Error::usage(format!("{text:?} is no id of a write")))
}

/// The id of a new write, or of a batch of a stream: that is the same each time.
#[pyfunction]
#[pyo3(signature = (job, query=None, batch=None))]
pub fn write_id(job: &str, query: Option<&str>, batch: Option<u64>) -> PyResult<String> {
    let job = parsed(job)?;
    Ok(answered(check(&job).and_then(|()| id(&job, query.zip(batch)))))
}

/// Makes the table for another attempt of a task.
#[pyfunction]
pub fn write_stage(py: Python<'_>, job: &str, write: &str, task: u32) -> PyResult<String> {
    let job = parsed(job)?;
    Ok(py.detach(|| answered(run_id(write).and_then(|id| stage(&job, &id, task)))))
}

/// Drops what a closed write has left; `rolls_back`: closes it first, unless it is.
#[pyfunction]
pub fn write_close(py: Python<'_>, job: &str, write: &str, rolls_back: bool) -> PyResult<String> {
    let job = parsed(job)?;
    Ok(py.detach(|| answered(run_id(write).and_then(|id| close(&job, &id, rolls_back)))))
}

/// Drops tables that tasks have staged for a write that stays open.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "Python hands it over")]
pub fn write_unstage(
    py: Python<'_>,
    job: &str,
    write: &str,
    tables: Vec<String>,
) -> PyResult<String> {
    let job = parsed(job)?;
    Ok(py.detach(|| answered(run_id(write).and_then(|id| unstage(&job, &id, &tables)))))
}
