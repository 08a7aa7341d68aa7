//! Options of a load that are not its job's.

use std::path::PathBuf;

use super::args::LoadArgs;

/// How a load reports, and what was asked of it besides its job.
#[derive(Debug, Default)]
pub struct LoadOptions {
    pub resume: bool,
    /// The run to go on with, where one is named.
    pub run: Option<String>,
    pub reject_dir: PathBuf,
    pub json: bool,
    pub quiet: bool,
    pub log_file: Option<PathBuf>,
    /// Where it is shown while it goes on.
    pub live: Option<String>,
    /// Ceilings to compare with, where a file of them is named.
    pub ceilings: Option<PathBuf>,
}

impl LoadOptions {
    pub fn of(args: &LoadArgs) -> Self {
        Self {
            resume: args.resume,
            run: None,
            reject_dir: args.reject_dir.clone().unwrap_or_else(|| ".".into()),
            json: args.answer.json,
            quiet: args.silence.quiet,
            log_file: args.log.log_file.clone(),
            live: args.live.clone(),
            ceilings: args.ceilings.clone(),
        }
    }
}
