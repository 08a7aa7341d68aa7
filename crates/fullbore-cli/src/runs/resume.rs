//! `fullbore runs resume`: resumes a run by its id.

use fullbore::{Ended, LoadOptions};
use fullbore_read::error::Result;

use super::args::ResumeArgs;
use crate::load;
use crate::load::options::Reporting;
use crate::load::signals::INTERRUPTED;

pub fn resume(args: &ResumeArgs) -> Result<Ended> {
    let (job, options) = fullbore::resumed(&args.run, args.to.as_deref(), |job| {
        job.streams = args.streams.unwrap_or(job.streams);
        job.max_rejects = args.max_rejects.unwrap_or(job.max_rejects);
        job.verify = args.verify.unwrap_or(job.verify);
        job.retry_for = args.retry_for.or(job.retry_for);
        job.lock_timeout = args.lock_timeout.or(job.lock_timeout);
        if args.replace_anyway {
            (job.replace_anyway, job.lock_writers) = (true, false);
        }
    })?;
    let options = LoadOptions { interrupted: INTERRUPTED.clone(), ..options };
    let reporting = Reporting {
        json: args.answer.json,
        quiet: args.silence.quiet,
        log_file: args.log.log_file.clone(),
        live: args.live.clone(),
    };
    load::load_anywhere(&job, &options, &reporting)
        .or_else(|error| Ok(load::fail(&reporting, &error)))
}
