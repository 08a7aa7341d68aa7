//! The job: what to load, where to, how to publish. From the command line or a TOML file.

mod file;
mod identity;
mod loaded;
mod locks;
mod part;
mod pause;

use fullbore_parse::dialect::{FormatName, Header, LineEnd, Quotes, Ragged};
use fullbore_record::terms::{Codec, Method, Publish, Verify};
use serde::{Deserialize, Serialize};

pub use file::read_job_file;
pub use loaded::IfLoaded;
pub use locks::{LockTimeout, OtherWriters};
pub use part::PartSpec;
pub use pause::PauseWhen;

/// What to load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// The destination's URL; the embedded server's where there is none.
    pub to: Option<String>,
    pub streams: Count,
    pub parsers: Count,
    pub method: Method,
    /// Packs rows on their way, under method direct: for networks slower than a core.
    pub compress: Codec,
    /// How the server writes what is loaded directly.
    pub direct_io: DirectIo,
    pub max_rejects: RejectLimit,
    pub max_field_bytes: Option<usize>,
    /// All tables side by side rather than in order.
    pub tables_at_once: bool,
    /// Loads although a publication of the server covers all tables.
    pub allow_publication: bool,
    /// Loads directly although changes may be decoded, by which these rows are not seen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip_logical_decoding: bool,
    /// Leaves gathering statistics to the database.
    pub no_analyze: bool,
    pub tablespaces: Vec<String>,
    /// The schema of the ledger, where it is not the default one.
    pub ledger_schema: Option<String>,
    /// Keeps no ledger: the run can't be resumed.
    pub no_ledger: bool,
    /// How much of what was loaded is compared with what was read.
    pub verify: Verify,
    /// Seconds for which a server that is gone is waited for.
    pub retry_for: Option<u64>,
    /// Which share of the load this host has, where several load together.
    pub part: Option<PartSpec>,
    /// Limits at which the load holds still.
    pub pause_when: Option<PauseWhen>,
    /// How long one attempt waits for a lock that others hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_timeout: Option<LockTimeout>,
    /// Replaces a table although others have written to it since the run began.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replace_anyway: bool,
    /// Keeps writers out of a table for as long as its replacement is loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lock_writers: bool,
    /// What is done about files that were loaded into the same table before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_loaded: Option<IfLoaded>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TableJob {
    /// The target, `table` or `schema.table`, quoted as SQL quotes it.
    pub name: Option<String>,
    pub sources: Vec<String>,
    pub format: Option<FormatName>,
    pub delimiter: Option<String>,
    pub quote: Option<String>,
    pub escape: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Quotes>,
    /// Strings that are NULL; none where the format's own is.
    #[serde(with = "one_or_more")]
    pub null: Vec<String>,
    pub header: Option<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_end: Option<LineEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ragged: Option<Ragged>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_footer: Option<u64>,
    pub encoding: Option<String>,
    /// The file's fields in order; `-` skips one.
    pub columns: Option<Vec<String>>,
    pub publish: Publish,
    /// Keep the table that is replaced. (Left out where it is not asked for: it makes another job.)
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_old: bool,
    /// Append in one transaction.
    pub atomic: bool,
    pub create: bool,
    /// A file with the CREATE TABLE statement to use with `create`.
    pub schema_file: Option<String>,
    /// `column=type` given by hand for an inferred schema.
    pub types: Vec<String>,
    pub partition_by: Option<String>,
    /// Bounds of the partitions to be made, ascending: n + 1 of them for n partitions.
    #[serde(deserialize_with = "texts_or_numbers")]
    pub partition_bounds: Vec<String>,
    /// Read all keys beforehand rather than those at the cuts.
    pub scan_keys: bool,
    /// `value=column`: columns that say of each row which run loaded it, when, and from where.
    pub lineage: Vec<String>,
    /// Send rows as COPY text although they have a binary form: fewer bytes on a slow network, more
    /// work for the server.
    pub as_text: bool,
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

/// A number, or the planner's own choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Count {
    #[default]
    Auto,
    Fixed(usize),
}

/// How the server writes pages that are loaded directly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// How many rows may be rejected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RejectLimit {
    Rows(u64),
    Percent(f64),
}

impl RejectLimit {
    /// Whether any row may be rejected.
    pub fn allows_any(self) -> bool {
        match self {
            Self::Rows(rows) => rows > 0,
            Self::Percent(percent) => percent > 0.0,
        }
    }
}

impl Default for RejectLimit {
    fn default() -> Self {
        Self::Rows(0)
    }
}

impl std::fmt::Display for RejectLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl std::str::FromStr for RejectLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither a number of rows nor a share such as 0.5%");
        match text.strip_suffix('%') {
            Some(share) => {
                let percent: f64 = share.trim().parse().map_err(|_| wrong())?;
                if (0.0..=100.0).contains(&percent) {
                    Ok(Self::Percent(percent))
                } else {
                    Err(wrong())
                }
            }
            None => text.parse().map(Self::Rows).map_err(|_| wrong()),
        }
    }
}

impl std::str::FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(count) if (1..=1024).contains(&count) => Ok(Self::Fixed(count)),
            _ => Err(format!("{text:?} is neither `auto` nor a number from 1 to 1024")),
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

as_text!(RejectLimit, |limit| limit.to_string());
as_text!(Count, |count| match count {
    Count::Auto => "auto".into(),
    Count::Fixed(count) => count.to_string(),
});
