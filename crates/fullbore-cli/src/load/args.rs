//! The options of `fullbore load` and `fullbore plan`.

use std::path::PathBuf;

use clap::Args;
use fullbore_load::job::{
    Count, DirectIo, Endpoint, EndpointPolicy, IfLoaded, LockTimeout, MaxRate, OnConflict,
    PartSpec, PauseWhen, PieceSize, Placement, RejectLimit, WireSize,
};
use fullbore_parse::dialect::{FormatName, Header, LineEnd, Quotes, Ragged};
use fullbore_record::terms::{Compress, Method, Publish, Statistics, Verify};

use crate::args::output::{AnswerArgs, LogArgs, OUTPUT, SilenceArgs};
use crate::args::values::{
    HERE, compress, count, direct_io, endpoint_policy, format_name, header, host, if_loaded,
    line_end, method, publish, quotes, ragged, statistics, verify,
};

/// The headings of the help.
const DESTINATION: &str = "Destination";
const FILES: &str = "Files";
const PARTITIONS: &str = "Partitions";
const SPEED: &str = "Speed";
const REJECTS: &str = "Rejects";
const SAFETY: &str = "Safety";
const HOSTS: &str = "Several hosts";

/// What to load, where to, and how.
#[derive(Debug, Clone, Default, Args)]
pub struct LoadArgs {
    /// Files, globs, directories, `-` for stdin; or one job file (.toml)
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,

    /// PostgreSQL URL or key=value string
    ///
    /// Others: `mysql://USER@HOST/DATABASE`, `duckdb:FILE`, `sqlite:FILE`, `adbc:DRIVER?option=value`.
    /// `parquet:DIR` writes Parquet files; `null:` parses, encodes and discards, `null:batches` only
    /// parses. [default: FULLBORE_TO, the job file, the PG* variables or DATABASE_URL, otherwise the
    /// embedded server]
    #[arg(long, value_name = "URL", help_heading = DESTINATION)]
    pub to: Option<String>,
    /// Target table [default: the first file's name]
    ///
    /// `table` or `schema.table`.
    #[arg(long, short, value_name = "TABLE", help_heading = DESTINATION)]
    pub table: Option<String>,
    /// append, replace, partitions or upsert [default: append]
    ///
    /// How rows are published. append: added to the table, piece by piece. replace: loaded into a
    /// new table that takes the old one's place. partitions: each piece becomes a partition, all
    /// attached at once. upsert: rows whose key the table has update its rows, others are added.
    #[arg(long, value_parser = publish, value_name = "HOW", help_heading = DESTINATION)]
    pub publish: Option<Publish>,
    /// Append or upsert all rows in one transaction, or none
    #[arg(long, help_heading = DESTINATION)]
    pub atomic: bool,
    /// Put rows in order before loading, by `COLUMN` or `COLUMN desc`
    ///
    /// The table then has them in this order. Rows that don't fit in --sort-memory are written to --sort-dir. A load
    /// that is stopped begins from the start. `ingest` orders partitions as it merges them.
    #[arg(long, value_delimiter = ',', value_name = "A,B", help_heading = DESTINATION, hide_short_help = true)]
    pub order_by: Vec<String>,
    /// Key of --publish upsert [default: primary key]
    ///
    /// The columns that tell rows apart. A unique index of the table must be on them; --create makes it. With `ingest`,
    /// rows replace older ones of the same key.
    #[arg(long, value_delimiter = ',', value_name = "A,B", help_heading = DESTINATION)]
    pub key: Vec<String>,
    /// Rows whose key the table has: update, nothing or newest:COL [default: update]
    ///
    /// update: they take the place of its rows, the last one of the files if there are several. nothing: they
    /// are left out. newest:COL: as update, unless the table's row has a greater value of this column.
    #[arg(long, value_name = "WHAT", help_heading = DESTINATION, hide_short_help = true)]
    pub on_conflict: Option<OnConflict>,
    /// Delete rows of the table whose key is not in the files
    #[arg(long, help_heading = DESTINATION, hide_short_help = true)]
    pub delete_missing: bool,
    /// Keep the replaced table for `runs undo`
    #[arg(long, help_heading = DESTINATION, hide_short_help = true)]
    pub keep_old: bool,
    /// Create the table if it does not exist
    ///
    /// Column types are inferred from the files unless --schema or --type gives them.
    #[arg(long, help_heading = DESTINATION)]
    pub create: bool,
    /// CREATE TABLE statement for --create
    #[arg(long, value_name = "FILE.sql", requires = "create", help_heading = DESTINATION, hide_short_help = true)]
    pub schema: Option<String>,
    /// Type of a column, instead of the inferred one
    ///
    /// Refused if the table exists and the column has another type.
    #[arg(long = "type", value_name = "COL=TYPE", help_heading = DESTINATION)]
    pub types: Vec<String>,
    /// Tablespaces for new tables, round robin
    #[arg(long, value_delimiter = ',', value_name = "A,B", help_heading = DESTINATION, hide_short_help = true)]
    pub tablespaces: Vec<String>,

    /// SQL query whose rows are loaded, of a source that is a database
    ///
    /// The source is its URL without ?table=; &key=COLUMN divides the rows among sessions.
    #[arg(long, value_name = "SQL", help_heading = FILES, hide_short_help = true)]
    pub query: Option<String>,
    /// csv, tsv, text, tbl, fixed, ndjson, parquet [default: detected]
    ///
    /// How the files are written. text is COPY's text format.
    #[arg(long, value_parser = format_name, value_name = "FORMAT", help_heading = FILES)]
    pub format: Option<FormatName>,
    /// Characters of each field, for --format fixed
    ///
    /// Blanks around a value are cut off; a blank field is NULL. --columns names the fields.
    #[arg(long, value_delimiter = ',', value_name = "N,N,N", help_heading = FILES, hide_short_help = true)]
    pub widths: Vec<usize>,
    /// Field delimiter: one byte or several
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = FILES)]
    pub delimiter: Option<String>,
    /// Quote character
    #[arg(long, value_name = "BYTE", help_heading = FILES)]
    pub quote: Option<String>,
    /// Byte before a literal quote [default: the quote]
    #[arg(long, value_name = "BYTE", help_heading = FILES, hide_short_help = true)]
    pub escape: Option<String>,
    /// Where quotes open a field: strict or lenient
    ///
    /// strict: at the beginning of a field only. lenient: anywhere, as in COPY. [default: lenient
    /// if --format is given, otherwise strict]
    #[arg(long, value_parser = quotes, value_name = "RULE", help_heading = FILES)]
    pub quotes: Option<Quotes>,
    /// Unquoted text that means NULL; repeatable
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = FILES)]
    pub null: Vec<String>,
    /// true, match, none or skip [default: detected]
    ///
    /// Whether the first line names the columns. true: it does. match: it has the target's names in
    /// the same order. none: there is no header. skip: the first line is ignored.
    #[arg(long, value_parser = header, value_name = "HEADER", num_args = 0..=1,
          default_missing_value = "true", help_heading = FILES)]
    pub header: Option<Header>,
    /// lf, crlf, cr or mixed [default: detected]
    #[arg(long, value_parser = line_end, value_name = "END", help_heading = FILES, hide_short_help = true)]
    pub line_end: Option<LineEnd>,
    /// Wrong number of fields: reject, pad or cut
    ///
    /// reject: the row is rejected. pad: missing fields are NULL. cut: extra fields are dropped.
    /// [default: reject]
    #[arg(long, value_parser = ragged, value_name = "RULE", help_heading = FILES)]
    pub ragged: Option<Ragged>,
    /// Skip lines that begin with this byte
    #[arg(long, value_name = "BYTE", allow_hyphen_values = true, help_heading = FILES, hide_short_help = true)]
    pub comment: Option<String>,
    /// Lines to skip before the header of each file
    #[arg(long, value_name = "N", help_heading = FILES, hide_short_help = true)]
    pub skip_lines: Option<u64>,
    /// Lines to skip at the end of each file
    #[arg(long, value_name = "N", help_heading = FILES, hide_short_help = true)]
    pub skip_footer: Option<u64>,
    /// Count all quotes of an object before loading it
    ///
    /// Otherwise it is guessed from those near a place where a record begins, and checked. Objects that are
    /// appended to a table without --atomic are always counted.
    #[arg(long, help_heading = FILES, hide_short_help = true)]
    pub scan_quotes: bool,
    /// Encoding of the files [default: UTF-8]
    #[arg(long, value_name = "NAME", help_heading = FILES)]
    pub encoding: Option<String>,
    /// How object stores are reached; repeatable
    ///
    /// anonymous, requester_pays, endpoint=URL, region=NAME, profile=NAME. Credentials are found as each
    /// cloud's own tools find them.
    #[arg(long, value_name = "KEY=VALUE", help_heading = FILES)]
    pub store: Vec<String>,
    /// The files' fields in order; `-` skips one
    ///
    /// For JSON lines: the keys to load.
    #[arg(long, value_delimiter = ',', value_name = "A,B,-,D", help_heading = FILES)]
    pub columns: Option<Vec<String>>,
    /// Compute a column by an SQL expression over fields; repeatable
    ///
    /// 'total=quantity*price', 'name=trim(customer)', 'day=to_date(d, ''DD.MM.YYYY'')'. A field's name alone renames
    /// it, an empty expression leaves the field out. --create adds the columns.
    #[arg(long, value_name = "COL=SQL", help_heading = FILES)]
    pub select: Vec<String>,
    /// Look up rows by key: 'NAME=FILE on COL=SQL'; repeatable
    ///
    /// 'c=customers.csv on number=customer_no' gives expressions the columns c.name, c.id and so on. 'c=table:NAME on
    /// ...' reads a table of the destination. Of several keys, commas separate them. 'or null' at the end: rows without
    /// a match get NULL instead of being rejected; 'or insert': their keys are inserted into the table. Job files have more options.
    #[arg(long = "lookup", value_name = "LOOKUP", help_heading = FILES, hide_short_help = true)]
    pub lookups: Vec<String>,
    /// Type of a field in expressions, instead of the inferred one; repeatable
    ///
    /// A field that a column of the table takes as it is has the column's type.
    #[arg(long = "field-type", value_name = "FIELD=TYPE", help_heading = FILES, hide_short_help = true)]
    pub field_types: Vec<String>,
    /// Load only rows for which an SQL condition holds
    #[arg(long = "where", value_name = "SQL", help_heading = FILES)]
    pub filter: Option<String>,
    /// Reject rows for which an SQL condition is false; repeatable
    #[arg(long = "check", value_name = "NAME=SQL", help_heading = FILES, hide_short_help = true)]
    pub checks: Vec<String>,
    /// Control total, compared before publishing; repeatable
    ///
    /// 'rows=12345', 'sum(amount)=99.10', or a file with such lines. 'trailer rows=2, sum(amount)=3' reads them from
    /// these fields of each file's last line, with --skip-footer 1. Rejected rows are in no total.
    #[arg(long, value_name = "TOTAL|FILE", help_heading = FILES, hide_short_help = true)]
    pub control: Vec<String>,
    /// Record run, file, line and time of each row in columns
    ///
    /// run=A,file=B,line=C,loaded_at=D, or some of them. --create adds the columns.
    #[arg(long, value_delimiter = ',', value_name = "VALUE=COLUMN", help_heading = FILES, hide_short_help = true)]
    pub lineage: Vec<String>,
    /// Maximum size of a record or field; raises memory per parser
    #[arg(long, value_name = "BYTES", help_heading = FILES, hide_short_help = true)]
    pub max_field_bytes: Option<usize>,

    /// Partition key for --create
    #[arg(long, value_name = "COLUMN", requires = "create", help_heading = PARTITIONS)]
    pub partition_by: Option<String>,
    /// Ascending bounds of the new partitions
    ///
    /// MINVALUE and MAXVALUE leave an end open. [default: the target's empty partitions and the
    /// keys of the files]
    #[arg(long, value_delimiter = ',', value_name = "A,B,C", allow_hyphen_values = true, help_heading = PARTITIONS)]
    pub partition_bounds: Vec<String>,
    /// Read all keys first, for files that are not sorted
    #[arg(long, help_heading = PARTITIONS)]
    pub scan_keys: bool,

    /// Parallel sessions [default: auto]
    ///
    /// auto starts with two per CPU, or with the number found by the last load of this job, and
    /// tries more and fewer during the load.
    #[arg(long, value_name = "N|auto", value_parser = count, help_heading = SPEED)]
    pub streams: Option<Count>,
    /// Parser threads [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = count, help_heading = SPEED, hide_short_help = true)]
    pub parsers: Option<Count>,
    /// Bytes of source per transaction, such as 64MB [default: auto]
    ///
    /// With smaller pieces, less is loaded again after a crash. Each piece becomes a partition
    /// under --publish partitions.
    #[arg(long, value_name = "SIZE", help_heading = SPEED, hide_short_help = true)]
    pub piece_size: Option<PieceSize>,
    /// Limit of all streams together, such as 50MB/s
    ///
    /// Bytes as they are sent. `fullbore runs throttle` changes it while the load runs.
    #[arg(long, value_name = "RATE", help_heading = SPEED, hide_short_help = true)]
    pub max_rate: Option<MaxRate>,
    /// Leave the network to others, and use what they leave
    ///
    /// The rate follows the round trip: it shrinks while others fill the network.
    #[arg(long, help_heading = SPEED, hide_short_help = true)]
    pub polite: bool,
    /// Memory nodes of threads: auto, none, or streams=N,parsers=N
    ///
    /// On machines with several nodes (NUMA). auto: streams near the network interface, parsers near the disk
    /// of the sources. [default: auto]
    #[arg(long, value_name = "WHERE", help_heading = SPEED, hide_short_help = true)]
    pub placement: Option<Placement>,
    /// Address of the server for streams; repeatable
    ///
    /// `HOST[:PORT][,source=ADDRESS|INTERFACE][,weight=N]`: source is where connections begin on this
    /// machine. All endpoints lead to the server of --to. One that fails is used again when it is back.
    #[arg(long, value_name = "ENDPOINT", help_heading = SPEED, hide_short_help = true)]
    pub endpoint: Vec<Endpoint>,
    /// least-queue, round-robin or weighted
    ///
    /// How pieces are divided among endpoints. least-queue: to the one with the fewest bytes left to send.
    /// round-robin: in turn. weighted: in turn, each as often as its weight. [default: least-queue]
    #[arg(long, value_parser = endpoint_policy, value_name = "POLICY", help_heading = SPEED, hide_short_help = true)]
    pub endpoint_policy: Option<EndpointPolicy>,
    /// Congestion control of the connections, such as bbr
    ///
    /// By the kernel's name. [default: the system's]
    #[arg(long, value_name = "NAME", help_heading = SPEED, hide_short_help = true)]
    pub congestion: Option<String>,
    /// Send buffer of a connection, such as 8MB
    ///
    /// [default: it grows as the kernel decides, which is mostly better]
    #[arg(long, value_name = "SIZE", help_heading = SPEED, hide_short_help = true)]
    pub send_buffer: Option<WireSize>,
    /// Size of a COPY message, such as 32kB [default: 256kB]
    #[arg(long, value_name = "SIZE", help_heading = SPEED, hide_short_help = true)]
    pub message_size: Option<WireSize>,
    /// Memory for --order-by, such as 2GB; at most 2.6GB per stream is used [default: 512MB]
    #[arg(long, value_name = "SIZE", help_heading = SPEED, hide_short_help = true)]
    pub sort_memory: Option<PieceSize>,
    /// Directory for rows of --order-by that don't fit in memory
    ///
    /// [default: $TMPDIR, or /var/tmp]
    #[arg(long, value_name = "DIR", help_heading = SPEED, hide_short_help = true)]
    pub sort_dir: Option<String>,
    /// auto, copy or direct [default: auto]
    ///
    /// How rows enter the database. copy: by COPY. direct: rows are laid out by the client and
    /// appended by the server's extension. auto: direct where possible.
    #[arg(long, value_parser = method, value_name = "METHOD", help_heading = SPEED)]
    pub method: Option<Method>,
    /// Send COPY text instead of binary
    ///
    /// Fewer bytes for a slow network, more work for the server.
    #[arg(long, help_heading = SPEED, hide_short_help = true)]
    pub as_text: bool,
    /// Compress rows in transit: auto, none, lz4 or zstd
    ///
    /// lz4 and zstd need method direct. auto: chosen during the load if the network is the bottleneck; rows
    /// sent by COPY are sent as text instead, if that is shorter. [default: auto]
    #[arg(long, value_parser = compress, value_name = "CODEC", help_heading = SPEED, hide_short_help = true)]
    pub compress: Option<Compress>,
    /// Server writes: auto, buffered or direct
    ///
    /// Under method direct. buffered leaves the rows in the server's page cache for the next
    /// reader; direct bypasses it, with less work. [default: auto, which is direct for all but
    /// small loads]
    #[arg(long, value_parser = direct_io, value_name = "HOW", help_heading = SPEED, hide_short_help = true)]
    pub direct_io: Option<DirectIo>,
    /// Statistics for the planner: auto, client, analyze or none
    ///
    /// client: made of all rows while they are loaded, for new tables and partitions of PostgreSQL 18.
    /// analyze: by ANALYZE. auto: client where that is faster. none: left to autovacuum.
    /// [default: auto]
    #[arg(long, value_parser = statistics, value_name = "WHO", help_heading = SPEED)]
    pub statistics: Option<Statistics>,

    /// Rejected rows to allow, or their share [default: 0]
    #[arg(long, value_name = "N|P%", help_heading = REJECTS)]
    pub max_rejects: Option<RejectLimit>,
    /// Directory for rejected rows [default: .]
    #[arg(long, value_name = "DIR", help_heading = REJECTS)]
    pub reject_dir: Option<PathBuf>,

    /// quick, count or full [default: quick]
    ///
    /// What is compared before rows are published. quick: row counts of both sides. count: also the
    /// rows in the tables. full: every value, by checksums of both sides.
    #[arg(long, value_parser = verify, value_name = "LEVEL", help_heading = SAFETY)]
    pub verify: Option<Verify>,
    /// Resume the last run of this job, or start one
    #[arg(long, help_heading = SAFETY)]
    pub resume: bool,
    /// Files that were loaded before: fail, skip or again
    ///
    /// Known by their contents, from the ledger; for --publish append and upsert. [default: fail; skip with
    /// --resume]
    #[arg(long, value_parser = if_loaded, value_name = "WHAT",
          conflicts_with_all = ["no_ledger", "part"], help_heading = SAFETY)]
    pub if_loaded: Option<IfLoaded>,
    /// How long to wait for a lost server [default: 120]
    #[arg(long, value_name = "SECONDS", help_heading = SAFETY)]
    pub retry_for: Option<u64>,
    /// Pause while a limit is exceeded
    ///
    /// replica-lag=10s: of the slowest replica. slot-backlog=20GB: WAL kept by a replication slot.
    /// archive-backlog=1000: WAL segments to be archived. free-disk=50GB: on the client, and
    /// on a server on this machine.
    #[arg(long, value_name = "LIMIT,...", help_heading = SAFETY)]
    pub pause_when: Option<PauseWhen>,
    /// Lock timeout per publish attempt [default: 2s]
    ///
    /// 500ms or 5s. Readers can proceed between attempts, which are repeated for --retry-for. 0
    /// waits indefinitely.
    #[arg(long, value_name = "TIME", help_heading = SAFETY, hide_short_help = true)]
    pub lock_timeout: Option<LockTimeout>,
    /// Replace even if others wrote to the table; their rows are lost
    #[arg(long, conflicts_with = "lock_writers", help_heading = SAFETY, hide_short_help = true)]
    pub replace_anyway: bool,
    /// Block writers, not readers, while the replacement is loaded
    #[arg(long, help_heading = SAFETY, hide_short_help = true)]
    pub lock_writers: bool,
    /// Schema of the ledger [default: fullbore_ledger]
    #[arg(long, value_name = "NAME", conflicts_with = "no_ledger", help_heading = SAFETY, hide_short_help = true)]
    pub ledger_schema: Option<String>,
    /// Keep no ledger: the run cannot be resumed
    #[arg(long, conflicts_with = "resume", help_heading = SAFETY, hide_short_help = true)]
    pub no_ledger: bool,
    /// Load even if a publication covers all tables
    #[arg(long, help_heading = SAFETY, hide_short_help = true)]
    pub allow_publication: bool,
    /// Use method direct even if wal_level is logical
    ///
    /// Logical slots, including a standby's, miss the rows.
    #[arg(long, help_heading = SAFETY, hide_short_help = true)]
    pub skip_logical_decoding: bool,

    /// This host's part of a load by several hosts
    ///
    /// 2/3 is the second of three; each part has its own files. The last part to finish publishes
    /// the rows of all.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["create", "no_ledger"], help_heading = HOSTS, hide_short_help = true)]
    pub part: Option<PartSpec>,
    /// Run on the hosts of an engine: ray, or ray://HOST:PORT
    ///
    /// ray is the cluster of this machine (`ray start`). Each host loads files that it can read; one result
    /// is reported. Needs Python with the packages fullbore and ray.
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["create", "no_ledger", "part"], help_heading = HOSTS, hide_short_help = true)]
    pub on: Option<String>,
    /// Directory of a host with its own files; repeatable
    ///
    /// NAME is a label of the engine's (key=value) or a resource. Sources are relative to the directory.
    /// Without any, all hosts can read all sources.
    #[arg(long, value_name = "NAME=DIR", value_parser = host, requires = "on", help_heading = HOSTS, hide_short_help = true)]
    pub host: Vec<(String, String)>,

    /// Print the plan and stop
    #[arg(long, help_heading = OUTPUT)]
    pub dry_run: bool,
    /// Show the run in a browser
    ///
    /// The URL is printed on stderr. Without an address: 127.0.0.1 and a free port.
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, require_equals = true,
          default_missing_value = HERE, help_heading = OUTPUT)]
    pub live: Option<String>,
    /// Override a value of the job file
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = OUTPUT)]
    pub settings: Vec<String>,
    /// Ceilings to compare with, from `preflight all --json`
    ///
    /// [default: those measured last for this job]
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub ceilings: Option<PathBuf>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub silence: SilenceArgs,
}
