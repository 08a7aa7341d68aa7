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
    /// The runs of this machine, or with --to those of a database's ledger, newest first
    List {
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// What happened in a run; with --to also what the database's ledger knows of it
    Show {
        /// The run's id, or `last`
        run: String,
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// A page about a run: what it came to, what held it back, and when; one file that needs nothing
    /// else
    Report {
        /// The run's id, or `last`
        run: String,
        /// The file to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Go on with a run that stopped
    Resume(ResumeArgs),
    /// Show the rows of a load in parts, all of which are loaded, where the last host could not
    Publish(PublishArgs),
    /// Compare what a run has loaded with what it read: every value, by checksums
    Verify(VerifyArgs),
    /// Take back a run that has finished, where that can be done exactly: partitions, a table that was
    /// replaced and kept, and with --delete-rows rows that were appended
    Undo {
        /// The run's id, or `last`
        run: String,
        /// Delete the rows that were appended, found by the transactions that wrote them: all, or none
        #[arg(long)]
        delete_rows: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Take back a run that stopped: its tables and its rows in the ledger; of a load in parts, all
    /// of it
    Abort {
        /// The run's id, or `last`
        run: String,
        /// Delete the rows that plain append has committed, found by the transactions that wrote them:
        /// all, or none
        #[arg(long)]
        delete_rows: bool,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
}

/// Which ledger is meant.
#[derive(Debug, Default, Args)]
pub struct LedgerArgs {
    /// The database whose ledger is asked [default: that of the run's job]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// The ledger's schema [default: that of the run's job, else
    /// fullbore_ledger]
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
    /// The run's id, or `last`
    pub run: String,
    /// Read the files again, and compare with these [default: those of the run]
    #[arg(long, value_name = "FILES", num_args = 0..)]
    pub against: Option<Vec<String>>,
    /// Sessions that the server sums with, side by side [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub streams: Option<Count>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub ledger: LedgerArgs,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run's id, or `last`
    pub run: String,
    /// The server, with a password or options that were not kept [default: that of the run]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Sessions to load with [default: those of the run]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub streams: Option<Count>,
    /// Rows, or share of rows, that may be rejected [default: as the run had it]
    #[arg(long, value_name = "N|P%")]
    pub max_rejects: Option<RejectLimit>,
    /// What is compared before rows are published [default: as the run had it]
    #[arg(long, value_parser = verify, value_name = "quick|count|full")]
    pub verify: Option<Verify>,
    /// How long to wait for a server that is gone [default: as the run had it]
    #[arg(long, value_name = "SECONDS")]
    pub retry_for: Option<u64>,
    /// How long one attempt waits for locks that others hold [default: as the run had it]
    #[arg(long, value_name = "TIME")]
    pub lock_timeout: Option<LockTimeout>,
    /// Replace a table although others have written to it since the run began: their rows are lost
    #[arg(long)]
    pub replace_anyway: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// Show it on a page while it goes on [without an address: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, require_equals = true,
          default_missing_value = HERE)]
    pub live: Option<String>,
    #[command(flatten)]
    pub silence: SilenceArgs,
}

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// The id of a part's run that was begun on this machine, or `last`
    pub run: String,
    /// The server, with a password or options that were not kept [default: that of the run]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub silence: SilenceArgs,
}
