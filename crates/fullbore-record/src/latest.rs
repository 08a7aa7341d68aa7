//! The latest samples that the record of a long run omits, in a small file next to it.
//!
//! A record omits ever more samples to stay small, but viewers need every second. So the latest omitted
//! samples are in `latest.jsonl`, which is always replaced as a whole, and is removed once the record has
//! caught up. After a kill it has the final state of the run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::event::Entry;
use super::store::entries_of;

/// The file that holds the newest samples of a run.
#[derive(Debug)]
pub struct Latest {
    path: PathBuf,
    is_there: bool,
}

impl Latest {
    pub fn of(run_dir: &Path) -> Self {
        Self { path: path(run_dir), is_there: false }
    }

    /// Replaces what it holds; without lines it is taken away.
    pub fn replace(&mut self, lines: &[&[u8]]) -> std::io::Result<()> {
        if lines.is_empty() {
            if std::mem::take(&mut self.is_there) {
                fs::remove_file(&self.path)?;
            }
            return Ok(());
        }
        // A reader sees the old lines or the new ones, never a part.
        let beside = self.path.with_extension("new");
        fs::write(&beside, lines.concat())?;
        fs::rename(&beside, &self.path)?;
        self.is_there = true;
        Ok(())
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("latest.jsonl")
}

/// The newest samples of a run that its record does not have.
pub fn read(run_dir: &Path) -> Vec<Entry> {
    entries_of(&fs::read(path(run_dir)).unwrap_or_default()).collect()
}

/// Puts what a run that was killed has left there into its record, before it is gone on with.
pub fn settle(run_dir: &Path, record: &mut fs::File) -> std::io::Result<()> {
    let path = path(run_dir);
    match fs::read(&path) {
        Ok(lines) => {
            record.write_all(&lines)?;
            fs::remove_file(path)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
