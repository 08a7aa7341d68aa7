//! The command line: which commands there are. The options of each stand with the command; what
//! several share is in [`output`] and [`values`].

pub mod output;
pub mod values;

use clap::{Parser, Subcommand};

use crate::extension::ExtensionArgs;
use crate::generate::GenArgs;
use crate::ingest::IngestArgs;
use crate::load::LoadArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use crate::preflight::PreflightArgs;
use crate::runs::RunsArgs;
use crate::server::{PsqlArgs, ServerArgs};
use crate::sweep::SweepArgs;
use crate::watch::WatchArgs;

/// Loads flat files into PostgreSQL as fast as disks, network and database allow.
#[derive(Debug, Parser)]
#[command(name = "fullbore", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load files, or the tables of a job file
    Load(LoadArgs),
    /// Print what `load` would do; change nothing
    Plan(LoadArgs),
    /// Load files as they appear, without end
    Ingest(Box<IngestArgs>),
    /// Measure disks, network, server or a whole job before a load
    Preflight(PreflightArgs),
    /// Compare options of a load by experiment
    Sweep(Box<SweepArgs>),
    /// List, show, resume, verify, abort and undo runs
    Runs(RunsArgs),
    /// Show a run in a browser
    Watch(WatchArgs),
    /// Generate TPC-H test data
    Gen(GenArgs),
    /// Manage the embedded server; find orphaned files of any server
    Server(ServerArgs),
    /// Open psql on the embedded server
    Psql(PsqlArgs),
    /// Install or check the server extension for direct loads
    Extension(ExtensionArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Write man pages
    Man(ManArgs),
}
