//! The options of `fullbore load` and `fullbore plan`.

use std::path::PathBuf;

use clap::Args;
use fullbore_load::job::{
    Count, DirectIo, IfLoaded, LockTimeout, PartSpec, PauseWhen, RejectLimit,
};
use fullbore_parse::dialect::{FormatName, Header, LineEnd, Quotes, Ragged};
use fullbore_record::terms::{Codec, Method, Publish, Verify};

use crate::args::output::{AnswerArgs, LogArgs, SilenceArgs};
use crate::args::values::{
    codec, count, direct_io, format_name, header, if_loaded, line_end, method, publish, quotes,
    ragged, verify,
};
use crate::watch::HERE;

/// What to load, where to, and how.
#[derive(Debug, Default, Args)]
pub struct LoadArgs {
    /// Files, globs, folders, `-` for stdin; or one job file ending in .toml
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// Destination: a PostgreSQL URL or key=value string; `parquet:DIR`; `null:` parses, encodes and
    /// throws away, `null:batches` only parses
    /// [default: FULLBORE_TO, the job file, the PG* variables or DATABASE_URL, else the embedded
    /// server]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Target table, `table` or `schema.table` [default: the first file's name]
    #[arg(long, short, value_name = "TABLE")]
    pub table: Option<String>,
    /// How the files are written [default: found out from the files]
    #[arg(long, value_parser = format_name, value_name = "csv|tsv|text|tbl|ndjson|parquet")]
    pub format: Option<FormatName>,
    /// What stands between fields: a byte, or several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub delimiter: Option<String>,
    /// Byte around quoted fields
    #[arg(long, value_name = "BYTE")]
    pub quote: Option<String>,
    /// Byte before a literal quote [default: the quote itself]
    #[arg(long, value_name = "BYTE")]
    pub escape: Option<String>,
    /// Where quotes open a field: strict, at its beginning only; lenient, anywhere, as COPY has it
    /// [default: lenient where --format is given, else strict]
    #[arg(long, value_parser = quotes, value_name = "strict|lenient")]
    pub quotes: Option<Quotes>,
    /// What stands for NULL, unquoted; give it several times for several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub null: Vec<String>,
    /// Whether the first line names the columns: true, match (same names in the same order), none;
    /// skip passes over it
    #[arg(long, value_parser = header, value_name = "true|match|none|skip", num_args = 0..=1,
          default_missing_value = "true")]
    pub header: Option<Header>,
    /// What ends a record [default: found out from the files]
    #[arg(long, value_parser = line_end, value_name = "lf|crlf|cr|mixed")]
    pub line_end: Option<LineEnd>,
    /// Rows with fewer or more fields: reject them, pad missing fields with NULL, cut further ones off
    /// [default: reject]
    #[arg(long, value_parser = ragged, value_name = "reject|pad|cut")]
    pub ragged: Option<Ragged>,
    /// Skip lines that begin with this byte
    #[arg(long, value_name = "BYTE", allow_hyphen_values = true)]
    pub comment: Option<String>,
    /// Lines to skip at the beginning of each file, before its header
    #[arg(long, value_name = "N")]
    pub skip_lines: Option<u64>,
    /// Lines to skip at the end of each file
    #[arg(long, value_name = "N")]
    pub skip_footer: Option<u64>,
    /// Encoding of the text, where it is not UTF-8
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<String>,
    /// The file's fields in order, a dash skips one: a,b,-,d; of JSON lines the keys to load
    #[arg(long, value_delimiter = ',', value_name = "A,B,-,D")]
    pub columns: Option<Vec<String>>,
    /// How rows are shown: append, replace, partitions [default: append]
    #[arg(long, value_parser = publish, value_name = "append|replace|partitions")]
    pub publish: Option<Publish>,
    /// Append all rows in one transaction, or none
    #[arg(long)]
    pub atomic: bool,
    /// Keep the table that is replaced, so that `runs undo` can put it back
    #[arg(long)]
    pub keep_old: bool,
    /// Make the table if it is not there
    #[arg(long)]
    pub create: bool,
    /// The CREATE TABLE statement to make it with
    #[arg(long, value_name = "FILE.sql", requires = "create")]
    pub schema: Option<String>,
    /// A column's type, instead of the inferred one; refused where the table exists and has another
    #[arg(long = "type", value_name = "COL=TYPE")]
    pub types: Vec<String>,
    /// Partition key of a table to be made
    #[arg(long, value_name = "COLUMN", requires = "create")]
    pub partition_by: Option<String>,
    /// Bounds of the partitions to be made, ascending; MINVALUE and MAXVALUE leave an end open
    /// [default: the target's empty partitions, and what the files' keys give]
    #[arg(long, value_delimiter = ',', value_name = "A,B,C", allow_hyphen_values = true)]
    pub partition_bounds: Vec<String>,
    /// Read all keys before the load, for files that aren't sorted by the partition key
    #[arg(long)]
    pub scan_keys: bool,
    /// Send rows as COPY text, not binary: fewer bytes where the network is slow, more work for the
    /// server
    #[arg(long)]
    pub as_text: bool,
    /// Columns that say of each row which run loaded it, from which file and line, and when:
    /// run=A,file=B,line=C,loaded_at=D, or some of them; --create makes them
    #[arg(long, value_delimiter = ',', value_name = "VALUE=COLUMN")]
    pub lineage: Vec<String>,
    /// Sessions to load with, side by side [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub streams: Option<Count>,
    /// Threads to parse with [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub parsers: Option<Count>,
    /// How rows enter the database: direct appends rows laid out here, with the server's extension
    /// [default: auto, which is direct where that can be done]
    #[arg(long, value_parser = method, value_name = "auto|copy|direct")]
    pub method: Option<Method>,
    /// Pack rows on their way, under method direct: for a slow network [default: none]
    #[arg(long, value_parser = codec, value_name = "none|lz4|zstd")]
    pub compress: Option<Codec>,
    /// How the server writes, under method direct: buffered leaves the rows in its page cache for
    /// what reads them next, direct writes past it, with less work [default: auto, which is direct
    /// for all but small loads]
    #[arg(long, value_parser = direct_io, value_name = "auto|buffered|direct")]
    pub direct_io: Option<DirectIo>,
    /// Rows, or share of rows, that may be rejected [default: 0]
    #[arg(long, value_name = "N|P%")]
    pub max_rejects: Option<RejectLimit>,
    /// Where rejected rows are written [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub reject_dir: Option<PathBuf>,
    /// Longest record and field; memory grows by it for each parser
    #[arg(long, value_name = "BYTES")]
    pub max_field_bytes: Option<usize>,
    /// Tablespaces for new tables, round robin
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub tablespaces: Vec<String>,
    /// Load although a publication of the server covers all tables
    #[arg(long)]
    pub allow_publication: bool,
    /// Load directly although wal_level is logical: logical slots, a standby's too, miss the rows
    #[arg(long)]
    pub skip_logical_decoding: bool,
    /// Leave gathering statistics to autovacuum
    #[arg(long)]
    pub no_analyze: bool,
    /// What is compared before rows are published: quick, the counts of both sides; count, also the rows
    /// in the tables; full, every value, by checksums that the server makes too [default: quick]
    #[arg(long, value_parser = verify, value_name = "quick|count|full")]
    pub verify: Option<Verify>,
    /// Go on with the last run of this job where it stopped; begin one where there is none
    #[arg(long)]
    pub resume: bool,
    /// What to do about files whose contents are in the table already, by the ledger: fail, skip them,
    /// or load them again; for --publish append [default: fail; skip with --resume]
    #[arg(long, value_parser = if_loaded, value_name = "fail|skip|again",
          conflicts_with_all = ["no_ledger", "part"])]
    pub if_loaded: Option<IfLoaded>,
    /// The schema that keeps which pieces are committed [default: fullbore_ledger]
    #[arg(long, value_name = "NAME", conflicts_with = "no_ledger")]
    pub ledger_schema: Option<String>,
    /// Keep no ledger in the database: the run can't be resumed
    #[arg(long, conflicts_with = "resume")]
    pub no_ledger: bool,
    /// How long to wait for a server that is gone [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub retry_for: Option<u64>,
    /// This host's share of a load that several hosts make together, each with files of its own:
    /// 2/3 is the second of three; whoever is last shows the rows of all
    #[arg(long, value_name = "I/N", conflicts_with_all = ["create", "no_ledger"])]
    pub part: Option<PartSpec>,
    /// Hold still while a limit is passed: a replica's lag, the log that a replication slot keeps or
    /// that waits for the archive, free room on the client's disks and on the server's where it is
    /// this machine: replica-lag=10s,slot-backlog=20GB,archive-backlog=1000,free-disk=50GB
    #[arg(long, value_name = "LIMIT,...")]
    pub pause_when: Option<PauseWhen>,
    /// How long one attempt waits for locks that others hold when rows are published, 500ms or 5s; then
    /// readers pass, and it is tried again for --retry-for; 0 waits without bound [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub lock_timeout: Option<LockTimeout>,
    /// Replace a table although others have written to it since the run began: their rows are lost
    #[arg(long, conflicts_with = "lock_writers")]
    pub replace_anyway: bool,
    /// Keep writers out of a table for as long as its replacement is loaded; readers are not kept out
    #[arg(long)]
    pub lock_writers: bool,
    /// Ceilings to compare with, as `preflight all --json` printed them [default: those that it
    /// measured last for this job]
    #[arg(long, value_name = "FILE")]
    pub ceilings: Option<PathBuf>,
    /// Set a value of the job file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// Show the load on a page while it goes on, for browsers of this machine or, with an address,
    /// of others; its URL is printed on stderr [without an address: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, require_equals = true,
          default_missing_value = HERE)]
    pub live: Option<String>,
    #[command(flatten)]
    pub silence: SilenceArgs,
}
