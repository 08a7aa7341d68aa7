//! The options of `fullbore ingest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fullbore_load::job::PieceSize;

use crate::args::values::time;
use crate::load::LoadArgs;

const BATCHES: &str = "Batches";
const PARTITIONS: &str = "Partitions of batches";

/// What is watched, and what becomes of it.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Longest time that a file waits for its batch [default: 10s]
    ///
    /// 500ms, 60s, 5min. Files that appear meanwhile are loaded with it.
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = BATCHES)]
    pub every: Option<Duration>,
    /// Bytes of files that make a batch at once [default: 256MB]
    #[arg(long, value_name = "SIZE", help_heading = BATCHES)]
    pub batch_bytes: Option<PieceSize>,
    /// Records of a stream that make a batch at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          help_heading = BATCHES)]
    pub batch_rows: Option<u64>,
    /// How long a file must not have changed [default: 2s]
    ///
    /// Programs that write a file under another name and rename it need no such time.
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = BATCHES)]
    pub settle: Option<Duration>,
    /// Move files that are loaded to a directory
    #[arg(long, value_name = "DIR", conflicts_with = "delete", help_heading = BATCHES)]
    pub archive: Option<PathBuf>,
    /// Delete files that are loaded
    #[arg(long, help_heading = BATCHES)]
    pub delete: bool,
    /// Serve /metrics for Prometheus, and /health
    ///
    /// They are not protected by a token.
    #[arg(long, value_name = "ADDRESS[:PORT]", help_heading = BATCHES)]
    pub listen: Option<String>,
    /// The stream is sent again from its beginning after each end
    ///
    /// What was read of it is skipped. Otherwise a stream continues where it ended.
    #[arg(long, help_heading = BATCHES, hide_short_help = true)]
    pub replay: bool,
    /// End once everything is loaded and merged
    #[arg(long, help_heading = BATCHES)]
    pub once: bool,
    /// Give up a batch whose files are gone; repeatable
    #[arg(long, value_name = "BATCH", help_heading = BATCHES, hide_short_help = true)]
    pub forget: Vec<u64>,

    /// Make a plain table the first partition of a table of its name
    #[arg(long, help_heading = PARTITIONS)]
    pub adopt: bool,
    /// Drop rows that arrived longer ago, such as 90d
    ///
    /// A partition is dropped once all of its rows are older.
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = PARTITIONS)]
    pub keep: Option<Duration>,
    /// Partitions at most, but for old ones under --keep [default: 12, with --keep 9]
    ///
    /// With fewer, queries by an index are faster, and rows are written more often.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100),
          help_heading = PARTITIONS, hide_short_help = true)]
    pub partitions: Option<u8>,
    #[command(flatten)]
    pub load: LoadArgs,
}
