//! The identifiers of what can limit a run, as records and `--json` spell them.

use serde::{Deserialize, Serialize};

/// What limits a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The medium that the source lies on.
    SourceDisk,
    /// Too few reads under way at a medium that could do more.
    ReadDepth,
    /// Parsing, encoding and sending here.
    ClientCpu,
    /// Processors are free, here or at the server, and nobody is there to use them.
    TooFewStreams,
    /// The sender's socket buffer.
    SendWindow,
    /// The receiver's window, although it reads at once.
    ReceiveCap,
    /// The network is full.
    Congestion,
    /// One connection gets no more of the network, more would.
    FlowCap,
    DatabaseCpu,
    /// The write-ahead log.
    Wal,
    /// The data files of the server.
    DatabaseDisk,
    /// Sessions that make the same table longer, one after the other.
    ExtensionLock,
    /// Locks that others hold.
    LockWait,
    /// Some streams still work when the others have nothing left.
    LongTail,
    /// Processors are taken by others.
    Neighbour,
    /// No one of them leads.
    Mixed,
    /// Too little was seen to say.
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
            Self::Mixed => "mixed",
            Self::None => "none",
        }
    }

    /// In words, to follow "bottleneck:".
    pub fn words(self) -> &'static str {
        match self {
            Self::SourceDisk => "the disk of the source",
            Self::ReadDepth => "too few reads under way",
            Self::ClientCpu => "this machine's processors",
            Self::TooFewStreams => "too few streams",
            Self::SendWindow => "the send window",
            Self::ReceiveCap => "the receive window of the server",
            Self::Congestion => "a full network",
            Self::FlowCap => "the network's share for one connection",
            Self::DatabaseCpu => "the server's processors",
            Self::Wal => "the server's write-ahead log",
            Self::DatabaseDisk => "the server's data disk",
            Self::ExtensionLock => "the lock to extend a table",
            Self::LockWait => "locks of others",
            Self::LongTail => "a long tail",
            Self::Neighbour => "other programs on this machine",
            Self::Mixed => "several things at once",
            Self::None => "nothing that could be seen",
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
