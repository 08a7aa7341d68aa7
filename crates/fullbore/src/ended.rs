//! How a load ended, as the command's exit code says it.

use std::process::ExitCode;

use fullbore_postgres::ledger::runs::LedgerRun;

/// How a load ended: the command's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// 0: loaded.
    Loaded,
    /// 1: failed, nothing kept.
    Failed,
    /// 2: wrong usage or job, nothing touched.
    Usage,
    /// 3: loaded, with rejects within the limit.
    LoadedWithRejects,
    /// 4: stopped or failed with committed pieces kept.
    Stopped,
}

/// A run that has loaded the same before: what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBefore {
    pub run_id: String,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub pieces: u64,
}

impl RunBefore {
    pub fn of(run: &LedgerRun) -> Self {
        Self {
            run_id: run.run_id.to_string(),
            rows: run.rows_committed,
            rejected: run.rejected,
            bytes: run.bytes_committed,
            pieces: run.pieces_committed,
        }
    }
}

impl Ended {
    pub fn code(self) -> u8 {
        match self {
            Self::Loaded => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::LoadedWithRejects => 3,
            Self::Stopped => 4,
        }
    }
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(ended.code())
    }
}
