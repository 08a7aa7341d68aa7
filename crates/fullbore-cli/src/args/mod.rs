//! The command line: which commands there are. The options of each stand with the command; what
//! several share is in [`output`] and [`values`].

pub mod output;
pub mod values;

use clap::{Parser, Subcommand};

use crate::extension::ExtensionArgs;
use crate::generate::GenArgs;
use crate::load::LoadArgs;
use crate::preflight::PreflightArgs;
use crate::runs::RunsArgs;
use crate::server::{PsqlArgs, ServerArgs};
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
    /// Load files into a table, or what a job file says
    Load(LoadArgs),
    /// Print what `load` would do; nothing is touched
    Plan(LoadArgs),
    /// Generate data to load: TPC-H, as its own generator writes it
    Gen(GenArgs),
    /// Start, stop or look at the embedded server; find what crashes left in any server
    Server(ServerArgs),
    /// Install the server's extension for direct loads, or say what is missing
    Extension(ExtensionArgs),
    /// Open psql on the embedded server
    Psql(PsqlArgs),
    /// List runs and show their records
    Runs(RunsArgs),
    /// Show a run on a live page: one that goes on, or is over
    Watch(WatchArgs),
    /// Measure what disks, networks, servers and a whole job's way can do, before a load
    Preflight(PreflightArgs),
}
