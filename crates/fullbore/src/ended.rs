//! How a load ended, as the command's exit code says it.

use std::process::ExitCode;

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
