//! `fullbore._native`: the load in the process of Python, without the command.
//!
//! [`source`] takes Arrow data from Python objects, [`load`] runs a job on a thread of its own,
//! [`runs`] reads what runs left, [`whole`] is what an engine's driver needs of a load in parts,
//! [`write`](self::write) what its sinks need. Options and results cross as JSON: their shapes are those of the job file
//! and of `--json`, which have a schema. What Python sees is in `python/fullbore`.

mod errors;
mod load;
mod runs;
mod source;
mod whole;
mod write;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::load::{job, load, plan, resume};
    #[pymodule_export]
    use super::runs::{forget, report, runs};
    #[pymodule_export]
    use super::source::Source;
    #[pymodule_export]
    use super::whole::{Whole, job_files, throttle, whole_standing};
    #[pymodule_export]
    use super::write::{write_close, write_id, write_stage, write_unstage};
    use pyo3::prelude::*;

    /// The embedded server is a package of the Python that this is part of.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let prefix = module.py().import("sys")?.getattr("prefix")?.extract()?;
        fullbore_server::installation::look_in(prefix);
        Ok(())
    }
}
