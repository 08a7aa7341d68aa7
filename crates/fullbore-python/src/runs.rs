//! What runs of this machine have left.

use fullbore::state::{folder_of, runs_dir};
use fullbore_record::{list_runs, read_events};
use pyo3::prelude::*;

use crate::errors::answered;

/// The runs of this machine, newest first: in the `result` of a JSON answer as [`crate::load::load`] has.
#[pyfunction]
pub fn runs(py: Python<'_>) -> String {
    answered(py.detach(|| runs_dir().and_then(|folder| list_runs(&folder))))
}

/// The report of a run as HTML, in the `result` of such an answer.
#[pyfunction]
pub fn report(py: Python<'_>, run: &str) -> String {
    let page = || Ok(fullbore_report::render(&read_events(&folder_of(run)?)?));
    answered(py.detach(page))
}

/// Forgets a run of this machine: what a task of an engine has staged is not one that anybody asks for.
#[pyfunction]
pub fn forget(py: Python<'_>, run: &str) {
    py.detach(|| {
        if let Ok(folder) = folder_of(run) {
            // What stays is a record that nobody reads.
            let _ = std::fs::remove_dir_all(folder);
        }
    });
}
