//! Running PostgreSQL's programs, and reading what they leave.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::ServerError;

/// Of what a failed program said, the end is what explains it.
const OUTPUT_TAIL_BYTES: usize = 2 * 1024;
const LOG_TAIL_BYTES: u64 = 4 * 1024;

/// Runs a command to its end; its output, or an error with the end of what it said.
pub fn run(mut command: Command) -> Result<String, ServerError> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(ServerError::io("run", &program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said =
        String::from_utf8_lossy(&said[said.len().saturating_sub(OUTPUT_TAIL_BYTES)..]).into_owned();
    Err(ServerError::Program {
        program,
        status: output.status.to_string(),
        output: said.trim().to_owned(),
    })
}

/// The last lines of a log.
pub fn read_tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
