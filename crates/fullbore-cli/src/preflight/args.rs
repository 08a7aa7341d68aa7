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
    /// Measure disks, by block size and I/O depth
    Disk(DiskArgs),
    /// Measure the network between two hosts
    Net(NetArgs),
    /// Check the settings of a server; with --table, measure its load rate
    Db(DbArgs),
    /// Check a job and its files, measure its ceiling, predict its duration
    All(Box<AllArgs>),
}

#[derive(Debug, Args)]
pub struct DiskArgs {
    /// Files to read, or directories to read and write a scratch file in
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Measure reading only
    #[arg(long, conflicts_with = "write")]
    pub read: bool,
    /// Measure writing only
    #[arg(long)]
    pub write: bool,
    /// Block sizes, in powers of 1024
    #[arg(long, value_delimiter = ',', value_parser = memory_size, value_name = "SIZE,...",
          default_value = "64k,256k,1M,4M")]
    pub block: Vec<usize>,
    /// Concurrent I/Os
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,4,16,32")]
    pub depth: Vec<usize>,
    /// Duration of each measurement
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Size of a scratch file
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1G")]
    pub size: u64,
    /// Asynchronous I/O: auto, io_uring or threads
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
    /// Listen on this address for the other host
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Token of the listener [default: FULLBORE_PREFLIGHT_TOKEN, or a random one]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// File with the token, which process lists do not show
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Concurrent streams
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,2,4,8",
        conflicts_with = "listen"
    )]
    pub streams: Vec<usize>,
    /// Socket buffers of both ends, in powers of 1024; auto: the kernels decide
    #[arg(long, value_delimiter = ',', value_parser = window, value_name = "auto|SIZE,...",
          default_value = "auto", conflicts_with = "listen")]
    pub window: Vec<Window>,
    /// Bytes per write
    #[arg(long, value_delimiter = ',', value_parser = memory_size, value_name = "SIZE,...",
          default_value = "256k", conflicts_with = "listen")]
    pub message: Vec<usize>,
    /// Congestion controls [default: the system's]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", conflicts_with = "listen")]
    pub congestion: Vec<String>,
    /// Duration of each measurement; more for long paths
    #[arg(long, default_value_t = 5.0, conflicts_with = "listen")]
    pub seconds: f64,
    /// Wanted rate, in bytes or bits: 500MB/s, 10Gb/s
    #[arg(long, value_parser = rate, value_name = "RATE", conflicts_with = "listen")]
    pub target_rate: Option<f64>,
    /// Limit of bytes, for all measurements together
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1T")]
    pub max_bytes: u64,
    /// Seconds to listen
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 3600, requires = "listen")]
    pub listen_for: u64,
    /// Stop listening after one measurement
    #[arg(long, requires = "listen")]
    pub once: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub struct DbArgs {
    /// Database [default: the PG* variables or DATABASE_URL, otherwise the embedded server]
    pub url: Option<String>,
    /// Measure the load rate of rows like this table's, in a scratch schema
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// File with rows to measure with [default: generated rows]
    #[arg(long, value_name = "FILE", requires = "table")]
    pub sample: Option<PathBuf>,
    /// Concurrent sessions
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        default_value = "1,2,4",
        requires = "table"
    )]
    pub sessions: Vec<usize>,
    /// Methods to measure [default: copy, and direct if possible]
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "copy|direct,...",
        requires = "table"
    )]
    pub method: Vec<RateMethod>,
    /// Bytes of text per session
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "64M",
          requires = "table")]
    pub bytes: u64,
    /// Time limit of a measurement
    #[arg(long, default_value_t = 60, requires = "table")]
    pub seconds: u64,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Time limit of each measurement
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub time: f64,
    /// Byte limit of each measurement
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "2G")]
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RateMethod {
    Copy,
    Direct,
}
