//! A write by tasks of an engine: each stages its rows in a table of its own, and one load publishes what the
//! engine names.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::run_id::RunId;

/// What is to be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// What names it, and the tables that its tasks have staged.
    pub id: RunId,
    /// One for each task that the engine counts on; what others have staged is dropped.
    pub staged: Vec<Staged>,
}

/// What one task has staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staged {
    /// The table, quoted.
    pub table: String,
    pub rows: u64,
    pub rejected: u64,
    /// Bytes of Arrow data.
    pub bytes: u64,
}

impl Write {
    /// The identity of the load that publishes it. It is all that a later one of the same is known by.
    pub fn identity(id: &RunId) -> String {
        super::identity::hash_of(format!("fullbore write {}", &**id).as_bytes())
    }

    /// The id of the write that a stream makes of a batch: the same if the batch is written again.
    pub fn id_of_batch(query: &str, batch: u64, table: &str) -> RunId {
        let name = format!("fullbore batch {batch} of {query} into {table}");
        RunId::of_hash(&Sha256::digest(name))
    }
}
