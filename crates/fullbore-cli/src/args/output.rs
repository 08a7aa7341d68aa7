//! Output options that many commands share, flattened into theirs. `runs list` and `runs show` print more
//! than one object, and have their own `--json`.

use std::path::PathBuf;

use clap::Args;

/// The heading of these options in the help.
pub const OUTPUT: &str = "Output";

#[derive(Debug, Default, Clone, Copy, Args)]
pub struct AnswerArgs {
    /// Print one JSON object on stdout
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

#[derive(Debug, Default, Clone, Args)]
pub struct LogArgs {
    /// Append a log with timestamps to a file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub log_file: Option<PathBuf>,
}

#[derive(Debug, Default, Clone, Copy, Args)]
pub struct SilenceArgs {
    /// No progress, no summary
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
}
