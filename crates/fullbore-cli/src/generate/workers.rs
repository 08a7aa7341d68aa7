//! The threads that make chunks, and the files they put them in.
//!
//! Every thread has one buffer, which it fills, writes and uses again. Chunks are handed out in
//! the order they are written in, so the thread with the earliest chunk never waits, and waiting
//! for one's turn cannot lock up. Files are written at known places, side by side; stdout is
//! written in order, by whose turn it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use indicatif::ProgressBar;

use super::GenError;
use super::plan::{Target, work_order};

/// Where chunks go.
#[derive(Debug)]
pub enum Output {
    /// A file per target in this folder.
    Folder(PathBuf),
    /// The one target, in order.
    Stdout,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Files.
    pub files: usize,
}

/// How far a target is.
#[derive(Debug, Default)]
struct Progress {
    /// The chunk whose turn it is.
    next: u32,
    /// Where it goes.
    offset: u64,
    /// Chunks written, not necessarily the first ones.
    written: u32,
    file: Option<Arc<File>>,
}

#[derive(Debug)]
struct Sink<'a> {
    target: &'a Target,
    progress: Mutex<Progress>,
    turn: Condvar,
}

/// Why a thread ends before the work does.
#[derive(Debug)]
enum Stop {
    /// Another thread failed, and said why.
    Told,
    /// Nobody reads our stdout any more, as with `| head`.
    NobodyReads,
    Failed(GenError),
}

struct Shared<'a> {
    sinks: Vec<Sink<'a>>,
    output: &'a Output,
    stop: AtomicBool,
    failure: Mutex<Option<GenError>>,
}

/// Makes all targets with this many threads.
pub fn produce(
    targets: Vec<Target>,
    scale: f64,
    output: &Output,
    threads: usize,
    progress: &ProgressBar,
) -> Result<Totals, GenError> {
    let shared = Shared {
        sinks: targets.iter().map(Sink::new).collect(),
        output,
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let order = Mutex::new(work_order(&targets, threads.max(1)));
    let (rows, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let _alarm = StopOnPanic(&shared);
        let mut buffer = Vec::new();
        loop {
            // A statement of its own: as the condition of a loop it would hold the lock, and all
            // other threads, until the chunk is made.
            let claimed = lock(&order).next();
            let Some((index, chunk)) = claimed else {
                return;
            };
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            let target = &targets[index];
            buffer.clear();
            // The plan made sure that parts can be counted.
            let part = target.first_part + chunk.cast_signed();
            let made = target.table.write_part(scale, part, target.part_count, &mut buffer);
            match shared.write(index, chunk, &buffer) {
                Ok(()) => {}
                Err(Stop::Told) => return,
                Err(Stop::NobodyReads) => return shared.stop_all(None),
                Err(Stop::Failed(error)) => return shared.stop_all(Some(error)),
            }
            rows.fetch_add(made, Ordering::Relaxed);
            bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            progress.inc(1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    if shared.stop.load(Ordering::Relaxed) {
        shared.remove_unfinished();
    }
    match lock(&shared.failure).take() {
        Some(error) => Err(error),
        None => {
            Ok(Totals { rows: rows.into_inner(), bytes: bytes.into_inner(), files: targets.len() })
        }
    }
}

impl<'a> Sink<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, progress: Mutex::default(), turn: Condvar::new() }
    }
}

impl Shared<'_> {
    fn write(&self, index: usize, chunk: u32, bytes: &[u8]) -> Result<(), Stop> {
        let sink = &self.sinks[index];
        let mut progress = lock(&sink.progress);
        while progress.next != chunk {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Stop::Told);
            }
            progress = sink.turn.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stop::Told);
        }
        let file = match &progress.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(progress.file.insert(Arc::new(self.open(sink.target)?))),
        };
        let offset = progress.offset;
        progress.offset += bytes.len() as u64;
        progress.next += 1;

        if matches!(self.output, Output::Stdout) {
            // Holding the lock: the next chunk's turn comes when this one is out.
            (&*file).write_all(bytes).map_err(|source| match source.kind() {
                io::ErrorKind::BrokenPipe => Stop::NobodyReads,
                _ => self.failed(sink.target, source),
            })?;
            sink.turn.notify_all();
            return Ok(());
        }
        drop(progress);
        sink.turn.notify_all();
        file.write_all_at(bytes, offset).map_err(|source| self.failed(sink.target, source))?;

        let mut progress = lock(&sink.progress);
        progress.written += 1;
        if progress.written == sink.target.chunks {
            fs::rename(self.unfinished_path(sink.target), self.path(sink.target))
                .map_err(|source| self.failed(sink.target, source))?;
            progress.file = None;
        }
        Ok(())
    }

    fn open(&self, target: &Target) -> Result<File, Stop> {
        match self.output {
            Output::Folder(_) => File::create(self.unfinished_path(target)),
            // A descriptor of its own, past the standard library's line buffer.
            Output::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        }
        .map_err(|source| self.failed(target, source))
    }

    fn failed(&self, target: &Target, source: io::Error) -> Stop {
        let path = self.path(target);
        Stop::Failed(GenError::Write { path, source })
    }

    fn path(&self, target: &Target) -> PathBuf {
        match self.output {
            Output::Folder(folder) => folder.join(&target.name),
            Output::Stdout => "stdout".into(),
        }
    }

    /// Hidden, so that `lineitem.tbl.*` does not find what is still being written.
    fn unfinished_path(&self, target: &Target) -> PathBuf {
        self.path(target).with_file_name(format!(".{}.tmp", target.name))
    }

    /// Keeps the first failure, and wakes whoever waits for a turn that will not come.
    fn stop_all(&self, error: Option<GenError>) {
        if let Some(error) = error {
            lock(&self.failure).get_or_insert(error);
        }
        self.stop.store(true, Ordering::Relaxed);
        for sink in &self.sinks {
            // With the lock taken, nobody is between looking at `stop` and going to wait.
            let _progress = lock(&sink.progress);
            sink.turn.notify_all();
        }
    }

    fn remove_unfinished(&self) {
        if let Output::Stdout = self.output {
            return;
        }
        for sink in &self.sinks {
            if lock(&sink.progress).file.take().is_some() {
                let _ = fs::remove_file(self.unfinished_path(sink.target));
            }
        }
    }
}

/// A thread that panics must not leave the others waiting for its turn.
struct StopOnPanic<'a, 'b>(&'a Shared<'b>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop_all(None);
        }
    }
}

/// A panic while the lock was held is reported by its own thread; the data are still sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
