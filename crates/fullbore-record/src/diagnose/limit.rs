//! The identifiers of what can limit a run, as records and `--json` spell them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What limits a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The storage of the sources.
    SourceDisk,
    /// Too few concurrent reads for storage that could deliver more.
    ReadDepth,
    /// Parsing, encoding and sending on this machine.
    ClientCpu,
    /// Client and server have idle processors: more streams would use them.
    TooFewStreams,
    /// The one session that fills a new table: processors are idle, but more streams would not use them.
    OneSession,
    /// The sender's socket buffer.
    SendWindow,
    /// The server's receive window, although the server reads without delay.
    ReceiveCap,
    /// The network is saturated.
    Congestion,
    /// The network limits each connection; more connections would get more.
    FlowCap,
    /// The server's processors.
    DatabaseCpu,
    /// The write-ahead log.
    Wal,
    /// The server's data files.
    DatabaseDisk,
    /// Sessions take turns to extend the same table.
    ExtensionLock,
    /// Locks held by others.
    LockWait,
    /// Some streams are still loading when the others have finished.
    LongTail,
    /// Other programs use the processors.
    Neighbour,
    /// The limit of `--max-rate`.
    MaxRate,
    /// Building indexes.
    Indexes,
    /// Checking foreign keys.
    ForeignKeys,
    /// Gathering statistics.
    Statistics,
    /// Comparing what was loaded with its source.
    Verification,
    /// Showing rows once they are loaded.
    Publishing,
    /// No single cause dominates.
    Mixed,
    /// Too little was observed to say.
    None,
}

impl Limit {
    /// The identifier, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::SourceDisk => "source_disk",
            Self::ReadDepth => "read_depth",
            Self::ClientCpu => "client_cpu",
            Self::TooFewStreams => "too_few_streams",
            Self::OneSession => "one_session",
            Self::SendWindow => "send_window",
            Self::ReceiveCap => "receive_cap",
            Self::Congestion => "congestion",
            Self::FlowCap => "flow_cap",
            Self::DatabaseCpu => "database_cpu",
            Self::Wal => "wal",
            Self::DatabaseDisk => "database_disk",
            Self::ExtensionLock => "extension_lock",
            Self::LockWait => "lock_wait",
            Self::LongTail => "long_tail",
            Self::Neighbour => "neighbour",
            Self::MaxRate => "max_rate",
            Self::Indexes => "indexes",
            Self::ForeignKeys => "foreign_keys",
            Self::Statistics => "statistics",
            Self::Verification => "verification",
            Self::Publishing => "publishing",
            Self::Mixed => "mixed",
            Self::None => "none",
        }
    }

    /// Whether only settings of a PostgreSQL server could mend it.
    pub fn is_of_server(self) -> bool {
        use Limit::{
            DatabaseCpu, DatabaseDisk, ExtensionLock, ForeignKeys, Indexes, LockWait, OneSession,
            Statistics, Wal,
        };
        matches!(
            self,
            DatabaseCpu
                | DatabaseDisk
                | ExtensionLock
                | ForeignKeys
                | Indexes
                | LockWait
                | OneSession
                | Statistics
                | Wal
        )
    }

    /// In words, to follow "bottleneck:".
    pub fn words(self) -> &'static str {
        match self {
            Self::SourceDisk => "source storage",
            Self::ReadDepth => "too few concurrent reads",
            Self::ClientCpu => "client CPU",
            Self::TooFewStreams => "too few streams",
            Self::OneSession => "the one session that fills a new table",
            Self::SendWindow => "send window",
            Self::ReceiveCap => "receive window of the server",
            Self::Congestion => "network saturated",
            Self::FlowCap => "network limit per connection",
            Self::DatabaseCpu => "server CPU",
            Self::Wal => "server write-ahead log",
            Self::DatabaseDisk => "server data disk",
            Self::ExtensionLock => "table extension lock",
            Self::LockWait => "locks held by others",
            Self::LongTail => "long tail",
            Self::Neighbour => "other programs on this machine",
            Self::MaxRate => "the rate limit of this load",
            Self::Indexes => "building indexes",
            Self::ForeignKeys => "checking foreign keys",
            Self::Statistics => "gathering statistics",
            Self::Verification => "verification",
            Self::Publishing => "publishing",
            Self::Mixed => "several causes",
            Self::None => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_what_is_written() {
        for limit in [Limit::SourceDisk, Limit::Wal, Limit::LongTail, Limit::None, Limit::FlowCap] {
            let written = serde_json::to_value(limit).expect("plain data becomes JSON");
            assert_eq!(written, limit.name());
        }
    }
}
