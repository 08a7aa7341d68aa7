//! How a long run stands now: the samples that were left out of its record, in a small file beside it.
//!
//! A record leaves out ever more samples, so that it stays small. Whoever watches the run wants to
//! see each second of it. So the last of those that were left out stand in `latest.jsonl`, which is
//! replaced as a whole, and is gone once the record has caught up. Of a run that was killed it says
//! how it stood at the end.

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
