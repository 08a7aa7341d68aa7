//! Writes the record of a run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use fullbore_read::error::{Error, Result};

use crate::event::{Entry, Event};
use crate::folder::make_private;
use crate::latest::{self, Latest};
use crate::thin::Thinning;

/// Somebody who wants to see each event as it is recorded.
pub type Listener = Box<dyn Fn(&Entry) + Send + Sync>;

/// Writes the record.
pub struct Recorder {
    began: Instant,
    file: Option<Mutex<RecordFile>>,
    listener: Option<Listener>,
}

/// The file of a record, and what is left out of it.
struct RecordFile {
    file: File,
    thinning: Thinning,
    latest: Latest,
}

impl Recorder {
    /// A recorder that goes on with the record in the run's folder, or begins one.
    pub fn append(run_dir: &Path, listener: Option<Listener>) -> Result<Self> {
        Self::open(run_dir, File::options().append(true).create(true), listener)
    }

    /// A recorder that begins `record.jsonl` in the run's folder.
    pub fn create(run_dir: &Path, listener: Option<Listener>) -> Result<Self> {
        Self::open(run_dir, File::options().write(true).create(true).truncate(true), listener)
    }

    fn open(run_dir: &Path, how: &OpenOptions, listener: Option<Listener>) -> Result<Self> {
        let path = run_dir.join("record.jsonl");
        let opened = || {
            make_private(run_dir)?;
            let mut file = how.open(&path)?;
            end_last_line(&path, &mut file)?;
            latest::settle(run_dir, &mut file)?;
            Ok(file)
        };
        let file = opened().map_err(|source| Error::Write { path, source })?;
        let latest = Latest::of(run_dir);
        Ok(Self {
            began: Instant::now(),
            file: Some(Mutex::new(RecordFile { file, thinning: Thinning::default(), latest })),
            listener,
        })
    }

    /// A recorder that keeps nothing, and tells.
    pub fn told_to(listener: Listener) -> Self {
        Self { began: Instant::now(), file: None, listener: Some(listener) }
    }

    /// A recorder that keeps nothing.
    pub fn nowhere() -> Self {
        Self { began: Instant::now(), file: None, listener: None }
    }

    /// Records an event; of those that come often not all are written down. A record that can't be
    /// written must not end a load: it is logged.
    pub fn record(&self, event: Event) {
        self.record_at(self.began.elapsed().as_secs_f64(), event);
    }

    /// Records an event by another clock, in seconds since the run began.
    pub fn record_at(&self, at: f64, event: Event) {
        let entry = Entry { at, event };
        if let Some(listener) = &self.listener {
            listener(&entry);
        }
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Err(error) = file.write(&entry) {
                tracing::warn!(%error, "the run record can't be written");
            }
        }
    }
}

impl RecordFile {
    fn write(&mut self, entry: &Entry) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(entry).expect("plain data becomes JSON");
        line.push(b'\n');
        for line in self.thinning.take(entry.at, &entry.event, line) {
            self.file.write_all(&line)?;
        }
        // Once a second is enough for those who watch; and after the last one nothing is left out.
        match entry.event {
            Event::Sample { .. } | Event::PieceHalved { .. } | Event::PieceCommitted { .. } => {
                Ok(())
            }
            _ => self.latest.replace(&self.thinning.left_out()),
        }
    }
}

/// Ends a line that a crash or a full disk has cut off: what is written next must not become part of it.
fn end_last_line(path: &Path, file: &mut File) -> std::io::Result<()> {
    let mut record = File::open(path)?;
    let mut last = [b'\n'];
    if record.metadata()?.len() > 0 {
        record.seek(SeekFrom::End(-1))?;
        record.read_exact(&mut last)?;
    }
    if last != [b'\n'] { file.write_all(b"\n") } else { Ok(()) }
}
