//! The options of `fullbore preflight`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::output::AnswerArgs;
use crate::load::LoadArgs;

use super::sizes::{Window, memory_size, rate, size, window};

/// What the machines can do before a load
#[derive(Debug, Args)]
pub struct PreflightArgs {
    #[command(subcommand)]
    pub action: PreflightAction,
}

#[derive(Debug, Subcommand)]
pub enum PreflightAction {
    /// How fast paths are read and written past the page cache, by block size and I/Os in flight
    Disk(DiskArgs),
    /// What the network between two hosts carries, by streams, windows and messages, and what limits
    /// it
    Net(NetArgs),
    /// How a server is set for a load, with advice; with --table also how fast it takes rows of that
    /// shape
    Db(DbArgs),
    /// What limits this very job: its files looked through for errors, each part of its way measured
    /// alone, and how long the whole will take; takes the arguments of `load`
    All(Box<AllArgs>),
}

#[derive(Debug, Args)]
pub struct DiskArgs {
    /// Files, which are only read, or folders, which get a scratch file that is gone afterwards
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Only read
    #[arg(long, conflicts_with = "write")]
    pub read: bool,
    /// Only write, into scratch files
    #[arg(long)]
    pub write: bool,
    /// Block sizes, in powers of 1024
    #[arg(long, value_delimiter = ',', value_parser = memory_size, value_name = "SIZE,...",
          default_value = "64k,256k,1M,4M")]
    pub block: Vec<usize>,
    /// I/Os in flight
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,4,16,32")]
    pub depth: Vec<usize>,
    /// How long each setting is measured
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Size of a scratch file
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1G")]
    pub size: u64,
    /// How I/Os are kept in flight; auto is io_uring, and threads where the system forbids that
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Threads,
}

#[derive(Debug, Args)]
pub struct NetArgs {
    /// The listener to send to
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    pub peer: Option<String>,
    /// Listen on this address of this host, for the other one to send to
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// The listener's token [default: FULLBORE_PREFLIGHT_TOKEN; a listener makes one up]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// The file that the token is in, so that no list of processes shows it
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Streams side by side
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,2,4,8",
        conflicts_with = "listen"
    )]
    pub streams: Vec<usize>,
    /// Windows (SO_SNDBUF here, SO_RCVBUF there), in powers of 1024; auto leaves them to the kernels
    #[arg(long, value_delimiter = ',', value_parser = window, value_name = "auto|SIZE,...",
          default_value = "auto", conflicts_with = "listen")]
    pub window: Vec<Window>,
    /// Bytes written at once
    #[arg(long, value_delimiter = ',', value_parser = memory_size, value_name = "SIZE,...",
          default_value = "256k", conflicts_with = "listen")]
    pub message: Vec<usize>,
    /// Congestion controls of this host [default: the system's]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", conflicts_with = "listen")]
    pub congestion: Vec<String>,
    /// How long each setting is measured; over a long path the beginning is slow
    #[arg(long, default_value_t = 5.0, conflicts_with = "listen")]
    pub seconds: f64,
    /// The rate that the load is to have, in bytes or bits: 500MB/s, 10Gb/s
    #[arg(long, value_parser = rate, value_name = "RATE", conflicts_with = "listen")]
    pub target_rate: Option<f64>,
    /// Most bytes that are sent, or taken in, by all measurements together
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1T")]
    pub max_bytes: u64,
    /// How long to listen
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 3600, requires = "listen")]
    pub listen_for: u64,
    /// Listen until one has measured
    #[arg(long, requires = "listen")]
    pub once: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub struct DbArgs {
    /// The database [default: the PG* variables or DATABASE_URL, else the embedded server]
    pub url: Option<String>,
    /// Measure how fast rows of this table's shape are taken, in a scratch schema; the table itself is
    /// left alone
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Rows to measure with, as `load` reads them [default: rows made up in the table's shape]
    #[arg(long, value_name = "FILE", requires = "table")]
    pub sample: Option<PathBuf>,
    /// Sessions side by side
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,2,4",
        requires = "table"
    )]
    pub sessions: Vec<usize>,
    /// Methods to measure [default: copy, and direct where it can be done]
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "copy|direct,...",
        requires = "table"
    )]
    pub method: Vec<RateMethod>,
    /// Bytes of text that each session loads
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "64M",
          requires = "table")]
    pub bytes: u64,
    /// Longest time for one measurement
    #[arg(long, default_value_t = 60, requires = "table")]
    pub seconds: u64,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Longest time for each measurement, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub time: f64,
    /// Most bytes of source for each measurement
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "2G")]
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RateMethod {
    Copy,
    Direct,
}
