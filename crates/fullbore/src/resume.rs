//! Resumes a run by its id, of which this machine has the job.

use fullbore_load::job::Job;
use fullbore_read::error::{Error, Result};

use crate::check::check_locks;
use crate::destinations::reopened;
use crate::load::LoadOptions;
use crate::saved;
use crate::state::folder_of;

/// The job of a run of this machine, and the options that resume it. `to` names its server, where it is
/// given; `change` changes the job.
pub fn resumed(
    run: &str,
    to: Option<&str>,
    change: impl FnOnce(&mut Job),
) -> Result<(Job, LoadOptions)> {
    let folder = folder_of(run).map_err(|_| not_here(run))?;
    let saved = saved::read(&folder).map_err(|_| not_here(run))?;
    if let (None, false) = (to, saved.left_out.is_empty()) {
        return Err(left_out(run, &saved.left_out));
    }
    let mut job = saved.job;
    job.to = to.map(str::to_owned).or(job.to.map(|to| reopened(&to)));
    change(&mut job);
    check_locks(&job)?;
    let options = LoadOptions {
        resume: true,
        run: folder.file_name().map(|name| name.to_string_lossy().into_owned()),
        reject_dir: saved.reject_dir,
        ..LoadOptions::default()
    };
    Ok((job, options))
}

/// What such a setting does to rows is not known: a default, a trigger or a policy may ask for it.
fn left_out(run: &str, names: &[String]) -> Error {
    Error::usage_with_hint(
        format!(
            "the connection of run {run} had settings that are not stored on disk, since they may \
             contain secrets: {} (in its options)",
            names.join(", ")
        ),
        "specify the same connection again: --to URL",
    )
}

fn not_here(run: &str) -> Error {
    Error::usage_with_hint(
        format!("the job of run {run:?} is not stored on this machine"),
        "run the original command again with --resume: the ledger records its progress",
    )
}
