//! A job file in place of sources.

use std::path::Path;

use fullbore_load::job::{Job, read_job_file};
use fullbore_read::error::{Error, Result};

/// The job of the file that is the only source, if that is a job file, with `key=value` settings applied.
/// `describes_table`: options of a table were given besides, which a file with several can't take.
pub fn job_file(
    sources: &[String],
    settings: &[String],
    describes_table: bool,
) -> Result<Option<Job>> {
    match sources {
        [file] if file.ends_with(".toml") && Path::new(file).is_file() => {
            if describes_table {
                return Err(Error::usage_with_hint(
                    "options of a table can't be combined with a job file, which may have several",
                    "write them into the file, or change it with --set table.NAME.option=value",
                ));
            }
            read_job_file(Path::new(file), settings).map(Some)
        }
        _ if !settings.is_empty() => {
            Err(Error::usage_with_hint("--set changes a job file", "name one: JOB.toml"))
        }
        _ => Ok(None),
    }
}
