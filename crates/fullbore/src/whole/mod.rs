//! A load in parts as its driver sees it: which files there are, where the whole stands, and one record, one
//! result of all parts. The driver itself, which places parts on hosts, is an engine's (`python/fullbore`).

mod record;
mod standing;

use fullbore_load::job::Job;
use fullbore_read::discover::found_in;
use fullbore_read::error::Result;
use serde::Serialize;

pub use record::{Driven, Stopped, WholeRecord};
pub use standing::standing;

/// A file of a load, as the host that has it sees it.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub path: String,
    pub size: u64,
}

/// The files of a job on this host, by table.
pub fn files(job: &Job) -> Result<Vec<Vec<Listed>>> {
    let of_table = |sources: &Vec<String>| {
        let mut files = Vec::new();
        for source in sources {
            files.extend(
                found_in(source, &job.store)?
                    .into_iter()
                    .map(|file| Listed { path: file.path.display().to_string(), size: file.size }),
            );
        }
        Ok(files)
    };
    job.tables.iter().map(|table| of_table(&table.sources)).collect()
}
