//! The options of `fullbore runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fullbore_load::job::{Count, LockTimeout, RejectLimit};
use fullbore_record::terms::Verify;

use crate::args::output::{AnswerArgs, LogArgs, SilenceArgs};
use crate::args::values::{HERE, count, verify};

#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub action: RunsAction,
}

#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List runs of this machine or, with --to, of a ledger; newest first
    List {
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Show a run; with --to also its rows in the ledger
    Show {
        /// Run id, or `last`
        run: String,
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Write an HTML report of a run
    Report {
        /// Run id, or `last`
        run: String,
        /// File to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Resume a stopped run
    Resume(ResumeArgs),
    /// Change the rate limit of a run
    ///
    /// Of a run of this machine, while it loads or before it is resumed.
    Throttle {
        /// Run id, or `last`
        run: String,
        /// Bytes a second of all streams together, such as 50MB/s, or `none`
        rate: String,
    },
    /// Publish a load in parts if its last host could not
    Publish(PublishArgs),
    /// Compare every loaded value with its source
    Verify(VerifyArgs),
    /// Undo a finished run, if that can be done exactly
    Undo {
        /// Run id, or `last`
        run: String,
        /// Delete appended rows, by their transactions: all, or none
        #[arg(long)]
        delete_rows: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Abort a stopped run: drop its tables, close it in the ledger
    Abort {
        /// Run id, or `last`
        run: String,
        /// Delete rows of plain append, by their transactions: all, or none
        #[arg(long)]
        delete_rows: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
}

/// Which ledger is meant.
#[derive(Debug, Default, Args)]
pub struct LedgerArgs {
    /// Database with the ledger [default: that of the run]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Schema of the ledger [default: that of the run, or fullbore_ledger]
    #[arg(long, value_name = "NAME")]
    pub ledger_schema: Option<String>,
}

impl LedgerArgs {
    /// Whether a ledger is asked for.
    pub fn is_given(&self) -> bool {
        self.to.is_some() || self.ledger_schema.is_some()
    }
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Run id, or `last`
    pub run: String,
    /// Read the files again and compare with them [default: those of the run]
    #[arg(long, value_name = "FILES", num_args = 0..)]
    pub against: Option<Vec<String>>,
    /// Concurrent sessions [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub streams: Option<Count>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub ledger: LedgerArgs,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Run id, or `last`
    pub run: String,
    /// Server, with password or options that are not stored [default: that of the run]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Parallel sessions [default: as in the run]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub streams: Option<Count>,
    /// Rejected rows to allow, or their share [default: as in the run]
    #[arg(long, value_name = "N|P%")]
    pub max_rejects: Option<RejectLimit>,
    /// quick, count or full [default: as in the run]
    #[arg(long, value_parser = verify, value_name = "quick|count|full")]
    pub verify: Option<Verify>,
    /// How long to wait for a lost server [default: as in the run]
    #[arg(long, value_name = "SECONDS")]
    pub retry_for: Option<u64>,
    /// Lock timeout per publish attempt [default: as in the run]
    #[arg(long, value_name = "TIME")]
    pub lock_timeout: Option<LockTimeout>,
    /// Replace even if others wrote to the table; their rows are lost
    #[arg(long)]
    pub replace_anyway: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// Show the run in a browser [without an address: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, require_equals = true,
          default_missing_value = HERE)]
    pub live: Option<String>,
    #[command(flatten)]
    pub silence: SilenceArgs,
}

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Run id of a part that was started on this machine, or `last`
    pub run: String,
    /// Server, with password or options that are not stored [default: that of the run]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub silence: SilenceArgs,
}
