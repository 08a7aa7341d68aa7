//! `fullbore gen`: data to try loads with, as fast as the cores make it.
//!
//! The tables of TPC-H come as `dbgen` writes them: delimited by `|`, one at the end of every
//! line too, and split into `lineitem.tbl.1` ... `lineitem.tbl.N` where N streams are wanted.
//!
//! ```text
//! fullbore gen tpch --scale 10 --streams 8 --out /data/tpch
//! fullbore gen tpch --scale 1 --tables lineitem --out - | fullbore load - --table lineitem
//! ```

mod plan;
mod table;
mod text;
mod workers;

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

use plan::Target;
pub use table::Table;
use workers::{Output, Totals};

/// Beyond it no results of TPC-H are defined.
const SCALE_MAX: f64 = 100_000.0;
/// Below it some tables would have no row.
const SCALE_MIN: f64 = 0.001;

/// `fullbore gen`.
#[derive(Debug, Clone, clap::Args)]
pub struct GenArgs {
    /// What to make.
    #[command(subcommand)]
    pub dataset: Dataset,
}

/// The data sets known.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Dataset {
    /// Generate the eight tables of TPC-H, as dbgen writes them
    Tpch(TpchArgs),
}

/// `fullbore gen tpch`.
#[derive(Debug, Clone, clap::Args)]
pub struct TpchArgs {
    /// Scale factor: 1 is 6 million rows of lineitem, 1 GB in all tables
    #[arg(long, short, default_value_t = 1.0)]
    pub scale: f64,

    /// Files to split each table into (nation and region are never split)
    #[arg(long, default_value = "1", value_name = "N")]
    pub streams: NonZeroU32,

    /// Generate only this stream, from 1 (nation and region belong to stream 1)
    #[arg(long, value_name = "I")]
    pub stream: Option<NonZeroU32>,

    /// Generate only these tables
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TABLE,...")]
    pub tables: Vec<Table>,

    /// Directory for the files; `-` writes one table to stdout
    #[arg(long, short, value_name = "DIR|-")]
    pub out: PathBuf,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum GenError {
    /// A scale factor that means nothing.
    #[error("--scale {0} is not between {SCALE_MIN} and {SCALE_MAX}")]
    Scale(f64),

    /// A stream that is not there.
    #[error("there is no stream {stream} among {streams}")]
    Stream {
        /// The one wanted.
        stream: u32,
        /// How many there are.
        streams: u32,
    },

    /// Several tables would be mixed up on stdout.
    #[error("stdout takes one table, not {0}")]
    TablesOnStdout(usize),

    /// A file could not be written.
    #[error("could not write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl GenError {
    /// What the user can do about it, where we know.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Scale(_) => Some("--scale 1 makes 1 GB"),
            Self::Stream { .. } => Some("--stream counts from 1 to --streams"),
            Self::TablesOnStdout(_) => Some("name one, such as --tables lineitem, or a folder"),
            Self::Write { .. } => None,
        }
    }

    /// Whether the command was wrong, so that nothing was touched.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}

/// Makes what the arguments ask for. What was made is told on stderr.
pub fn run(args: &GenArgs) -> Result<(), GenError> {
    let Dataset::Tpch(args) = &args.dataset;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let started = std::time::Instant::now();
    let totals = tpch(args, threads)?;
    // A reader that has seen enough is no reason to talk.
    if args.out != Path::new("-") {
        let seconds = started.elapsed().as_secs_f64();
        tell!(
            "{} rows, {} bytes in {} files, {seconds:.1} s",
            totals.rows,
            totals.bytes,
            totals.files
        );
    }
    Ok(())
}

fn tpch(args: &TpchArgs, threads: usize) -> Result<Totals, GenError> {
    if !(SCALE_MIN..=SCALE_MAX).contains(&args.scale) {
        return Err(GenError::Scale(args.scale));
    }
    let (stream, streams) = (args.stream.map(NonZeroU32::get), args.streams.get());
    if let Some(stream) = stream.filter(|stream| *stream > streams) {
        return Err(GenError::Stream { stream, streams });
    }
    let mut tables = args.tables.clone();
    if tables.is_empty() {
        tables = Table::ALL.to_vec();
    }
    tables.sort_unstable();
    tables.dedup();

    let to_stdout = args.out == Path::new("-");
    let (targets, output) = if to_stdout {
        let [table] = tables[..] else {
            return Err(GenError::TablesOnStdout(tables.len()));
        };
        let whole = plan::one_target(table, args.scale, stream, streams);
        (Vec::from_iter(whole), Output::Stdout)
    } else {
        let write_error = |source| GenError::Write { path: args.out.clone(), source };
        fs::create_dir_all(&args.out).map_err(write_error)?;
        let files = plan::file_targets(&tables, args.scale, stream, streams);
        (files, Output::Folder(args.out.clone()))
    };
    let progress = progress_bar(&targets, to_stdout);
    let totals = workers::produce(targets, args.scale, &output, threads, &progress);
    progress.finish_and_clear();
    totals
}

/// On stderr, and only where that is a terminal.
fn progress_bar(targets: &[Target], to_stdout: bool) -> ProgressBar {
    if to_stdout {
        return ProgressBar::hidden();
    }
    let chunks = targets.iter().map(|target| u64::from(target.chunks)).sum();
    let bar = ProgressBar::new(chunks);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {elapsed} eta {eta}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests;
