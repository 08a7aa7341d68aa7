//! The job: what to load, where to, how to publish. From the command line or a TOML file.

pub mod control;
mod counts;
mod endpoint;
mod file;
mod identity;
mod loaded;
mod locks;
mod part;
mod pause;
mod placement;
mod rate;
mod sample;
mod size;
mod transform;
pub mod upsert;
mod write;

use std::collections::BTreeMap;

use fullbore_parse::dialect::{FormatName, Header, LineEnd, Quotes, Ragged};
use fullbore_read::StoreOptions;
use fullbore_record::terms::{Compress, Method, Publish, Statistics, Verify};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use counts::{Count, RejectLimit};
pub use endpoint::{Endpoint, EndpointPolicy};
pub use file::{as_job_file, read_job_file, varied};
pub use loaded::IfLoaded;
pub use locks::{LockTimeout, OtherWriters};
pub use part::PartSpec;
pub use pause::{PauseWhen, time};
pub use placement::Placement;
pub use rate::MaxRate;
pub use sample::Sample;
pub use size::{PieceSize, WireSize};
pub use transform::{Check, LookupJob, Missing, Select, Valid};
pub use upsert::{OnConflict, Upsert};
pub use write::{Staged, Write};

/// A load: its sources, its destination, and how rows get there.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Destination URL. Default: the embedded server.
    pub to: Option<String>,
    /// Number of sessions, or `auto`.
    #[schemars(with = "TextOrNumber")]
    pub streams: Count,
    /// Number of parser threads, or `auto`.
    #[schemars(with = "TextOrNumber")]
    pub parsers: Count,
    /// Size of a piece, the unit of commit: bytes, or such as `64MB`. Default: by the size of the table
    /// and the number of streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TextOrNumber>")]
    pub piece_size: Option<PieceSize>,
    /// Limit of what all streams together send, in bytes a second: `50MB/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TextOrNumber>")]
    pub max_rate: Option<MaxRate>,
    /// Leave the network to others, and use what they leave.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub polite: bool,
    /// Memory nodes that threads run on, on machines with several: `auto`, `none`, or nodes such as
    /// `streams=1,parsers=0`.
    #[schemars(with = "String")]
    pub placement: Placement,
    /// Addresses of the server that streams connect to: `HOST[:PORT][,source=ADDRESS|INTERFACE][,weight=N]`.
    /// Default: that of `to`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub endpoints: Vec<Endpoint>,
    /// How pieces are divided among the endpoints.
    pub endpoint_policy: EndpointPolicy,
    /// Congestion control of the connections, by the kernel's name: `cubic`, `bbr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Size of a connection's send buffer. Default: it grows as the kernel decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TextOrNumber>")]
    pub send_buffer: Option<WireSize>,
    /// Size of a COPY message. Default: about 256 kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TextOrNumber>")]
    pub message_size: Option<WireSize>,
    /// How rows enter the server.
    pub method: Method,
    /// Compress rows in transit, under method direct. `auto`: if the network is the bottleneck; rows sent by
    /// COPY are sent as text if that is shorter.
    pub compress: Compress,
    /// How the server writes pages under method direct.
    pub direct_io: DirectIo,
    /// How many rows may be rejected: a number, or a share such as `0.5%`.
    #[schemars(with = "TextOrNumber")]
    pub max_rejects: RejectLimit,
    /// Longest field accepted, in bytes.
    pub max_field_bytes: Option<usize>,
    /// Load all tables at the same time instead of one after the other.
    pub tables_at_once: bool,
    /// Memory that rows take while they are put in order; at most 2.6GB per stream is used. Default: `512MB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TextOrNumber>")]
    pub sort_memory: Option<PieceSize>,
    /// Directory for rows that are put in order and do not fit in memory. Default: `$TMPDIR`, or `/var/tmp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_dir: Option<String>,
    /// Load although a publication covers all tables.
    pub allow_publication: bool,
    /// Load directly although `wal_level` is `logical`: logical decoding does not see these rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip_logical_decoding: bool,
    /// Who makes the statistics of what is loaded.
    pub statistics: Statistics,
    /// Tablespaces for new tables, used in turn.
    pub tablespaces: Vec<String>,
    /// Schema of the ledger. Default: `fullbore_ledger`.
    pub ledger_schema: Option<String>,
    /// Keep no ledger; the run cannot be resumed.
    pub no_ledger: bool,
    /// How much of the loaded data is compared with its source.
    pub verify: Verify,
    /// Seconds to retry when the server is unavailable.
    pub retry_for: Option<u64>,
    /// The share of this host when several hosts load together: `2/5`.
    #[schemars(with = "Option<String>")]
    pub part: Option<PartSpec>,
    /// Pause while a limit is exceeded: `replica-lag=10s,free-disk=50GB`.
    #[schemars(with = "Option<String>")]
    pub pause_when: Option<PauseWhen>,
    /// How long one attempt waits for a lock: `2s`, `500ms`, or `0` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub lock_timeout: Option<LockTimeout>,
    /// Replace a table although others wrote to it during the run; their rows are lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replace_anyway: bool,
    /// Block writers of a table while its replacement is loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lock_writers: bool,
    /// What to do with files that are already loaded into the same table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_loaded: Option<IfLoaded>,
    /// Engine that runs the load on several hosts: `ray` for the cluster of this machine, or `ray://HOST:PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Hosts that have files of their own: a label of the engine's (`key=value`) or a resource, and the
    /// directories there to which sources are relative. Without hosts, all can read all sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, OneOrMore>")]
    pub hosts: BTreeMap<String, Directories>,
    /// How object stores are reached. Default: as each cloud's own tools reach them.
    #[serde(skip_serializing_if = "StoreOptions::is_empty")]
    pub store: StoreOptions,
    /// Set by `fullbore sweep`: a part of the sources is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub sample: Option<Sample>,
    /// Set by the sinks of engines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub write: Option<Write>,
    /// One `[[table]]` section for each table.
    #[serde(rename = "table")]
    pub tables: Vec<TableJob>,
}

impl Job {
    /// What is done about rows that others write to a table that is being replaced.
    pub fn other_writers(&self) -> OtherWriters {
        match (self.replace_anyway, self.lock_writers) {
            (true, _) => OtherWriters::Ignored,
            (false, true) => OtherWriters::LockedOut,
            (false, false) => OtherWriters::Found,
        }
    }
}

/// What to load into one table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableJob {
    /// Target table, `table` or `schema.table`, quoted as in SQL. Default: from the first file's name.
    pub name: Option<String>,
    /// Files, globs, directories, URLs of objects, or `-` for standard input.
    pub sources: Vec<String>,
    /// Format of the sources. Default: detected.
    pub format: Option<FormatName>,
    /// Field delimiter; `tab` for a tab.
    pub delimiter: Option<String>,
    /// Quote character.
    pub quote: Option<String>,
    /// Character that escapes a quote.
    pub escape: Option<String>,
    /// Where a quote opens a field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Quotes>,
    /// String, or list of strings, read as NULL. Default: that of the format.
    #[serde(with = "one_or_more")]
    #[schemars(with = "Option<OneOrMore>")]
    pub null: Vec<String>,
    /// Whether the first line is a header.
    pub header: Option<Header>,
    /// What ends a record. Default: detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_end: Option<LineEnd>,
    /// What to do with records of another number of fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ragged: Option<Ragged>,
    /// Character that begins a comment line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Lines to skip at the beginning of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_lines: Option<u64>,
    /// Lines to skip at the end of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_footer: Option<u64>,
    /// Characters of each field, for `format = "fixed"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub widths: Vec<usize>,
    /// Encoding of the sources. Default: UTF-8.
    pub encoding: Option<String>,
    /// Target columns in the order of the fields; `-` skips a field.
    pub columns: Option<Vec<String>>,
    /// Columns that are computed: `column = "SQL expression"` over the fields. An empty expression leaves a field out.
    #[serde(skip_serializing_if = "Select::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub select: Select,
    /// Types that expressions have of fields, instead of inferred ones: `field=type`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub field_types: Vec<String>,
    /// SQL condition: only rows for which it holds are loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#where: Option<String>,
    /// Conditions that each row must meet; others are rejected.
    #[serde(rename = "check", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Control totals, compared before rows are published: `rows = 12345`, `sum(column) = 99.10`, a file with such
    /// lines, or `trailer rows = 2` for a field of each file's last line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<String>,
    /// Rows of other tables, found by a key, whose columns expressions use.
    #[serde(rename = "lookup", skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<LookupJob>,
    /// Columns by which rows are put in order before they are loaded: `column`, or `column desc`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order_by: Vec<String>,
    /// How rows are published.
    pub publish: Publish,
    /// Columns that tell rows apart, for `publish = "upsert"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// SQL query whose rows are loaded, of a source that is a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// What a row does whose key the table has: `update`, `nothing`, or `newest:COLUMN`. Default: `update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub on_conflict: Option<OnConflict>,
    /// Delete rows of the table whose key is not in the sources.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_missing: bool,
    /// Keep the replaced table.
    // Left out where it is not asked for: it makes another job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_old: bool,
    /// Append or upsert in one transaction.
    pub atomic: bool,
    /// Create the table if it does not exist.
    pub create: bool,
    /// File with the CREATE TABLE statement for `create`.
    pub schema_file: Option<String>,
    /// Types that override inferred ones: `column=type`.
    pub types: Vec<String>,
    /// Column to partition the new table by.
    pub partition_by: Option<String>,
    /// Bounds of the new partitions, ascending: n + 1 bounds for n partitions.
    #[serde(deserialize_with = "texts_or_numbers")]
    #[schemars(with = "Vec<TextOrNumber>")]
    pub partition_bounds: Vec<String>,
    /// Read all keys before loading instead of those at the cuts.
    pub scan_keys: bool,
    /// Count all quotes of an object before loading, instead of guessing where records begin from those near
    /// a place; every guess is checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scan_quotes: bool,
    /// Columns that record the origin of a row: `run=column`, `loaded_at=column`, `file=column`, `line=column`.
    pub lineage: Vec<String>,
    /// Send rows as COPY text even where a binary form exists.
    pub as_text: bool,
    /// Set by the sinks of engines: the table was made for this load alone, which may truncate it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub fresh: bool,
    /// Set by `--order-by`: what the destination knew of the table when its rows began to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub since: Option<String>,
}

impl TableJob {
    /// How its rows are merged with those of the table, if they are.
    pub fn upsert(&self) -> Option<Upsert> {
        (self.publish == Publish::Upsert).then(|| Upsert {
            key: self.key.clone(),
            on_conflict: self.on_conflict.clone().unwrap_or_default(),
            delete_missing: self.delete_missing,
        })
    }
}

/// Directories of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Directories(#[serde(with = "one_or_more")] pub Vec<String>);

// For the schema: what may be written as either.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

// For the schema: what may be written as either.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A list whose whole numbers may be written without quotes.
fn texts_or_numbers<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Text(String),
    }
    let written: Vec<Written> = Deserialize::deserialize(from)?;
    Ok(written
        .into_iter()
        .map(|written| match written {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        })
        .collect())
}

/// A list that may be written as the one text that it has; none is null.
mod one_or_more {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        More(Vec<String>),
    }

    pub fn serialize<S: Serializer>(list: &[String], to: S) -> Result<S::Ok, S::Error> {
        let written = match list {
            [] => None,
            [one] => Some(Written::One(one.clone())),
            more => Some(Written::More(more.to_vec())),
        };
        written.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match Option::<Written>::deserialize(from)? {
            None => Vec::new(),
            Some(Written::One(one)) => vec![one],
            Some(Written::More(more)) => more,
        })
    }
}

/// How the server writes pages that are loaded directly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectIo {
    /// Past its page cache where the load is long enough and the file system can, else through it.
    #[default]
    Auto,
    /// Through its page cache, where an index build or a first scan finds them.
    Buffered,
    /// Past it from the first page on.
    Direct,
}

impl DirectIo {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        }
    }
}

/// Serde by way of `Display` and `FromStr`; a plain number is taken too.
macro_rules! as_text {
    ($type:ty, $show:expr) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let show: fn(&$type) -> String = $show;
                serializer.serialize_str(&show(self))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Written {
                    Number(u64),
                    Text(String),
                }
                let text = match Written::deserialize(deserializer)? {
                    Written::Number(number) => number.to_string(),
                    Written::Text(text) => text,
                };
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

as_text!(Endpoint, |endpoint| endpoint.to_string());
as_text!(WireSize, |size| size.to_string());
as_text!(Placement, |placement| placement.to_string());
as_text!(MaxRate, |rate| rate.to_string());
as_text!(Sample, |sample| sample.to_string());
as_text!(PieceSize, |size| size.to_string());
as_text!(RejectLimit, |limit| limit.to_string());
as_text!(Count, |count| count.to_string());
