//! Follows the record of a running load: returns what was written since it was last asked.
//!
//! It only reads, and never asks the run itself, so it costs the run nothing, and follows one of
//! another process as well as one of its own.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use fullbore_read::error::{Error, Result};

use super::event::{Entry, Event};
use super::latest;

/// Bytes read at a time: a record of ten hours must not be in memory as a whole.
const STEP_BYTES: u64 = 1 << 20;

/// A line that is longer is not one of ours, and is passed over.
const LINE_BYTES_MAX: usize = 32 << 20;

/// A record that is read as it grows.
#[derive(Debug)]
pub struct Follower {
    run_dir: PathBuf,
    path: PathBuf,
    file: File,
    /// The begin of a line whose end is not written yet.
    begun: Vec<u8>,
    /// The line that was begun is too long: what comes up to its end belongs to it.
    skips: bool,
    /// The newest moments of samples and observations that were given out.
    newest: [f64; 2],
}

impl Follower {
    /// Begins at the begin of the record in a run's folder.
    pub fn open(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join("record.jsonl");
        let file =
            File::open(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let run_dir = run_dir.to_owned();
        let newest = [f64::NEG_INFINITY; 2];
        Ok(Self { run_dir, path, file, begun: Vec::new(), skips: false, newest })
    }

    /// The entries of the next step, and whether there may be more at once. At the end of the record
    /// the newest samples that it leaves out come too.
    pub fn next_entries(&mut self) -> Result<(Vec<Entry>, bool)> {
        let mut text = std::mem::take(&mut self.begun);
        let before = text.len();
        let read = Read::by_ref(&mut self.file)
            .take(STEP_BYTES)
            .read_to_end(&mut text)
            .map_err(|source| Error::Read { path: self.path.clone(), source })?;
        debug_assert_eq!(read, text.len() - before);
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut entries = Vec::new();
        for line in text[..end].split(|byte| *byte == b'\n') {
            if !std::mem::take(&mut self.skips)
                && let Ok(entry) = serde_json::from_slice(line)
            {
                entries.push(entry);
            }
        }
        self.begun = text.split_off(end);
        if self.begun.len() > LINE_BYTES_MAX {
            self.begun.clear();
            self.skips = true;
        }
        let has_more = read as u64 == STEP_BYTES;
        entries.iter().for_each(|entry| self.note(entry));
        if !has_more {
            for entry in latest::read(&self.run_dir) {
                if kind(&entry.event).is_some_and(|kind| entry.at > self.newest[kind]) {
                    self.note(&entry);
                    entries.push(entry);
                }
            }
        }
        Ok((entries, has_more))
    }

    fn note(&mut self, entry: &Entry) {
        match kind(&entry.event) {
            Some(kind) => self.newest[kind] = entry.at,
            // Moments are counted anew.
            None if matches!(entry.event, Event::RunResumed { .. }) => {
                self.newest = [f64::NEG_INFINITY; 2];
            }
            None => {}
        }
    }
}

fn kind(event: &Event) -> Option<usize> {
    match event {
        Event::Sample { .. } => Some(0),
        Event::Observed { .. } => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sample(at: f64) -> Vec<u8> {
        let event = Event::Sample { tables: Vec::new(), streams_active: 1 };
        let mut line = serde_json::to_vec(&Entry { at, event }).expect("JSON");
        line.push(b'\n');
        line
    }

    fn moments(follower: &mut Follower) -> Vec<f64> {
        let mut moments = Vec::new();
        loop {
            let (entries, has_more) = follower.next_entries().expect("read");
            moments.extend(entries.iter().map(|entry| entry.at));
            if !has_more {
                return moments;
            }
        }
    }

    #[test]
    fn a_record_is_read_as_it_grows_and_no_line_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = File::create(folder.path().join("record.jsonl")).expect("made");
        let mut follower = Follower::open(folder.path()).expect("there");
        assert!(moments(&mut follower).is_empty());
        let line = sample(1.0);
        file.write_all(&line[..10]).expect("written");
        assert!(moments(&mut follower).is_empty(), "it is not whole yet");
        file.write_all(&line[10..]).expect("written");
        file.write_all(b"not JSON\n").expect("written");
        file.write_all(&sample(2.0)).expect("written");
        assert_eq!(moments(&mut follower), [1.0, 2.0]);
        let mut latest = latest::Latest::of(folder.path());
        latest.replace(&[&sample(3.0)]).expect("written");
        assert_eq!(moments(&mut follower), [3.0], "what the record leaves out");
        assert!(moments(&mut follower).is_empty());
        latest.replace(&[]).expect("removed");
        file.write_all(&sample(4.0)).expect("written");
        assert_eq!(moments(&mut follower), [4.0]);
    }

    #[test]
    fn long_records_are_read_in_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let lines: Vec<u8> = (0..60_000).flat_map(|at| sample(f64::from(at))).collect();
        assert!(lines.len() as u64 > 2 * STEP_BYTES);
        std::fs::write(folder.path().join("record.jsonl"), &lines).expect("written");
        let mut follower = Follower::open(folder.path()).expect("there");
        let (first, has_more) = follower.next_entries().expect("read");
        assert!(has_more && first.len() < 60_000);
        assert_eq!(first.len() + moments(&mut follower).len(), 60_000);
    }
}
