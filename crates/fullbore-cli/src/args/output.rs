//! What a command says, and where: options that many commands share, each flattened into theirs.
//! `runs list` and `runs show` print more than one object, and have a `--json` of their own.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Default, Clone, Copy, Args)]
pub struct AnswerArgs {
    /// Print one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Default, Clone, Args)]
pub struct LogArgs {
    /// Append what is done, line by line with its time, to a file
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

#[derive(Debug, Default, Clone, Copy, Args)]
pub struct SilenceArgs {
    /// No progress, no summary
    #[arg(long, short)]
    pub quiet: bool,
}
