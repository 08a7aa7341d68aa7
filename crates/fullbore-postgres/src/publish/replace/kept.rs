//! What a run keeps of tables that are to be replaced.

use fullbore_pgwire::Session;
use serde::{Deserialize, Serialize};

/// What is known of a table that is to be replaced as its run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The number that the next transaction gets.
    pub next: u64,
    /// Transactions before it that are at work.
    pub running: Vec<u64>,
    /// Numbers that were not looked at, from the first to before the second: too many were given out since
    /// the oldest transaction began. What they have written counts as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<(u64, u64)>,
    /// The table's file.
    pub file: u32,
    pub is_empty: bool,
}

/// A session that keeps writers out of all tables that are to be replaced (`--lock-writers`), by the
/// locks of a transaction that stays open. It makes the swap, too: nobody else could.
pub struct Guard {
    pub session: Session,
    /// Nothing can have been written since the run began, or it was looked for.
    pub is_sure: bool,
}

impl Guard {
    pub(crate) fn is_alive(&mut self) -> bool {
        self.session.execute("").is_ok()
    }
}
