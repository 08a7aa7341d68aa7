//! The terms of a job that its record repeats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How rows enter the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Directly where server and table allow it, else by COPY.
    #[default]
    Auto,
    Copy,
    /// Rows are laid out here and appended to a new table by the server's extension.
    Direct,
}

impl Method {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Copy => "copy",
            Self::Direct => "direct",
        }
    }
}

/// Compression of rows in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    #[default]
    None,
    Lz4,
    Zstd,
}

impl Codec {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// What is wanted of compression in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compress {
    /// What brings the highest rate, found while rows are sent.
    #[default]
    Auto,
    None,
    Lz4,
    Zstd,
}

impl Compress {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        self.codec().map_or("auto", Codec::name)
    }

    /// The codec that is asked for by name.
    pub fn codec(self) -> Option<Codec> {
        match self {
            Self::Auto => None,
            Self::None => Some(Codec::None),
            Self::Lz4 => Some(Codec::Lz4),
            Self::Zstd => Some(Codec::Zstd),
        }
    }
}

/// The form that rows have in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// As the method sends them.
    Plain,
    /// Compressed.
    Lz4,
    Zstd,
    /// As COPY text instead of binary.
    Text,
}

impl Form {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Text => "text",
            Self::Lz4 | Self::Zstd => self.codec().name(),
        }
    }

    /// The codec that it needs.
    pub fn codec(self) -> Codec {
        match self {
            Self::Plain | Self::Text => Codec::None,
            Self::Lz4 => Codec::Lz4,
            Self::Zstd => Codec::Zstd,
        }
    }

    /// The form of rows that a codec packs.
    pub fn of(codec: Codec) -> Self {
        match codec {
            Codec::None => Self::Plain,
            Codec::Lz4 => Self::Lz4,
            Codec::Zstd => Self::Zstd,
        }
    }
}

/// How rows are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    #[default]
    Append,
    Replace,
    Partitions,
    Upsert,
}

impl Publish {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Replace => "replace",
            Self::Partitions => "partitions",
            Self::Upsert => "upsert",
        }
    }

    /// Whether rows join those of the table.
    pub fn joins_rows(self) -> bool {
        matches!(self, Self::Append | Self::Upsert)
    }

    /// Whether one session alone can fill a table: directly, only that which made its storage. A partition is a
    /// table of its own.
    pub fn has_one_session(self, method: Method) -> bool {
        method == Method::Direct && self != Self::Partitions
    }

    /// Where rows are until they are published.
    pub fn stage(self, is_atomic: bool) -> Stage {
        match self {
            Self::Append if !is_atomic => Stage::Target,
            Self::Append | Self::Replace | Self::Upsert => Stage::Staging,
            Self::Partitions => Stage::Pieces,
        }
    }
}

/// Where the rows of a table are until they are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In the target: each piece is visible as it is committed.
    Target,
    /// In one staging table.
    Staging,
    /// In a table of each piece.
    Pieces,
}

/// How much of the loaded data is compared with its source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Counts that both sides have anyway.
    #[default]
    Quick,
    /// The same, and the rows in the tables are counted in any case.
    Count,
    /// Every value, by sums that the destination makes again of what it holds.
    Full,
}

impl Verify {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Count => "count",
            Self::Full => "full",
        }
    }
}

/// Who makes the statistics that a planner uses of what was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Statistics {
    /// The cheaper of the two that are possible.
    #[default]
    Auto,
    /// The client, of all rows while they pass.
    Client,
    /// The server, of a sample once they are loaded.
    Analyze,
    /// Nobody now.
    None,
}
