//! What a destination's server reports about a run in progress.

use std::collections::BTreeMap;

use fullbore_read::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::socket::SocketNow;

/// What a backend waits for, in the words of the verdict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// For nothing: it works.
    Cpu,
    /// For us.
    Client,
    Wal,
    DataFile,
    /// To make its table longer.
    Extension,
    Lock,
    Other,
}

/// What a stream's backend does at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub stream: usize,
    pub class: WaitClass,
    /// The server's own name of it; empty while it works.
    pub name: String,
    /// Who holds what it waits for, where that is a lock.
    pub blocker: Option<String>,
    /// Its process, where that is on this machine.
    pub local_pid: Option<i32>,
}

/// Counters of the whole server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerTimes {
    /// Bytes of write-ahead log made.
    pub wal_bytes: u64,
    pub checkpoints_timed: u64,
    pub checkpoints_requested: u64,
    /// Bytes of data files written, by whomever; 0 where the server does not say.
    pub written_bytes: u64,
    /// Bytes of new segments of the log, filled with zeros before anything is written to them; 0 where
    /// the server does not say (before 18).
    #[serde(default)]
    pub new_log_bytes: u64,
    /// CPU time of its own processes, where they are on this machine; backends are not among them.
    #[serde(default)]
    pub cpu_ms: u64,
    /// CPU time of the backend that is asked all this, where it is on this machine.
    #[serde(default)]
    pub watch_cpu_ms: u64,
}

impl ServerTimes {
    /// What was added since an earlier reading. A crash sets counters back.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            wal_bytes: self.wal_bytes.saturating_sub(earlier.wal_bytes),
            checkpoints_timed: self.checkpoints_timed.saturating_sub(earlier.checkpoints_timed),
            checkpoints_requested: self
                .checkpoints_requested
                .saturating_sub(earlier.checkpoints_requested),
            cpu_ms: self.cpu_ms.saturating_sub(earlier.cpu_ms),
            watch_cpu_ms: self.watch_cpu_ms.saturating_sub(earlier.watch_cpu_ms),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            new_log_bytes: self.new_log_bytes.saturating_sub(earlier.new_log_bytes),
        }
    }
}

/// Settings of the server that matter to advice, by name, as the server shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    pub values: BTreeMap<String, String>,
    /// The server runs on this machine and shares its processors.
    pub is_here: bool,
    /// All rows go by one session, which alone can fill a new table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_one_session: bool,
    /// Where its files are, if that is this machine and the role may know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Volumes>,
}

/// The volumes of a server's files, each by its mount point and device: `/mnt/a (/dev/vdb)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volumes {
    pub data: String,
    /// Of the write-ahead log.
    pub wal: Option<String>,
    /// By the name of the tablespace.
    pub tablespaces: BTreeMap<String, String>,
}

/// A destination that can be observed while it is loaded.
pub trait Observed {
    /// Somebody who watches the server; `None` where there is nothing to see.
    fn watch(&self) -> Result<Option<Box<dyn Watch + '_>>>;
    /// What the kernel says of the streams' connections now, by number of stream. Asked about ten
    /// times a second; of what is no TCP connection nothing is said.
    fn sockets(&self) -> Vec<(usize, SocketNow)>;
}

/// Watches what a server does for the streams of a run.
pub trait Watch: Send {
    fn settings(&mut self) -> Result<Settings>;
    /// What the streams' backends do now. Asked about ten times a second: it must be cheap.
    fn waits(&mut self) -> Result<Vec<Wait>>;
    fn counters(&mut self) -> Result<ServerTimes>;
}
