//! State of the server's log and directories, kept between two checks.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use fullbore_pgwire::Session;

/// What is kept between two looks.
#[derive(Default)]
pub struct ThrottleMemory {
    pub session: Option<Session>,
    /// When the server's log had come how far.
    pub places: VecDeque<(Instant, u64)>,
    /// Folders of the server, where it runs on this machine.
    pub folders: Option<Vec<PathBuf>>,
}
