//! `fullbore runs resume`: resumes a run by its id.

use fullbore_read::error::{Error, Result};

use super::args::ResumeArgs;
use super::folders::folder_of;
use crate::exit::Ended;
use crate::load::destinations::reopened;
use crate::load::job::check_locks;
use crate::load::options::LoadOptions;
use crate::load::{self, saved};

pub fn resume(args: &ResumeArgs) -> Result<Ended> {
    let folder = folder_of(&args.run).map_err(|_| not_here(&args.run))?;
    let saved = saved::read(&folder).map_err(|_| not_here(&args.run))?;
    if let (None, false) = (&args.to, saved.left_out.is_empty()) {
        return Err(left_out(&args.run, &saved.left_out));
    }
    let mut job = saved.job;
    job.to = args.to.clone().or(job.to.map(|to| reopened(&to)));
    job.streams = args.streams.unwrap_or(job.streams);
    job.max_rejects = args.max_rejects.unwrap_or(job.max_rejects);
    job.verify = args.verify.unwrap_or(job.verify);
    job.retry_for = args.retry_for.or(job.retry_for);
    job.lock_timeout = args.lock_timeout.or(job.lock_timeout);
    if args.replace_anyway {
        (job.replace_anyway, job.lock_writers) = (true, false);
    }
    check_locks(&job)?;
    let options = LoadOptions {
        resume: true,
        run: folder.file_name().map(|name| name.to_string_lossy().into_owned()),
        reject_dir: saved.reject_dir,
        json: args.answer.json,
        quiet: args.silence.quiet,
        log_file: args.log.log_file.clone(),
        live: args.live.clone(),
        ceilings: None,
    };
    load::load(&job, &options).or_else(|error| Ok(load::fail(&options, &error)))
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
