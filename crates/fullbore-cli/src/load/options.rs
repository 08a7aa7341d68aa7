//! Options of a load that are not its job's.

use std::path::PathBuf;

use fullbore::LoadOptions;

use super::args::LoadArgs;
use super::signals::INTERRUPTED;

/// How a load is reported.
#[derive(Debug, Default)]
pub struct Reporting {
    pub json: bool,
    pub quiet: bool,
    pub log_file: Option<PathBuf>,
    /// Where it is shown while it goes on.
    pub live: Option<String>,
}

impl Reporting {
    pub fn of(args: &LoadArgs) -> Self {
        Self {
            json: args.answer.json,
            quiet: args.silence.quiet,
            log_file: args.log.log_file.clone(),
            live: args.live.clone(),
        }
    }
}

/// What is asked of a load; a signal stops it.
pub fn load_options(args: &LoadArgs) -> LoadOptions {
    LoadOptions {
        resume: args.resume,
        reject_dir: args.reject_dir.clone().unwrap_or_else(|| ".".into()),
        ceilings: args.ceilings.clone(),
        interrupted: INTERRUPTED.clone(),
        ..LoadOptions::default()
    }
}
