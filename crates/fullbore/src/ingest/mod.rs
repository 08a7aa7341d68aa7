//! Ingest without end: what appears in the sources is loaded in batches, each exactly once, into a table whose partitions
//! are merged meanwhile (`fullbore_postgres::levels`).
//!
//! [`stream`] makes files of a stream, which may come by a [`socket`]; [`watch`] finds files, [`batch`] loads those of a
//! batch by an ordinary load, [`upkeep`] merges and drops partitions in threads of its own. Whatever ends the process leaves
//! nothing in doubt: a batch that was claimed is found and finished, by the next process or by another that works on the
//! same table.

mod batch;
mod record_ends;
mod socket;
mod stream;
mod streams;
mod table;
mod upkeep;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_load::job::Job;
use fullbore_pgwire::ConnectionOptions;
use fullbore_postgres::levels::batches::{Batch, Batches, Left, Source};
use fullbore_postgres::levels::policy::Policy;
use fullbore_postgres::levels::{Table, connect};
use fullbore_read::discover::{is_object, version_of};
use fullbore_read::error::{Error, Result};

use crate::destinations;
use crate::load::{Audience, LoadOptions};
pub use batch::LoadedBatch;
use batch::{Keeping, load_batch};
use upkeep::Upkeep;
use watch::{Batching, Watch};

/// How often the sources are looked at, at most and at least.
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_millis(100);
/// Merges at a time: small ones go on while a large one is in progress.
const MERGES: usize = 2;
/// With so many partitions more than wanted no batch is begun until merges have come that far.
const BEHIND: usize = 8;
/// With fewer more than wanted merges wait while batches follow one another.
const PRESSED: usize = 4;
/// How often files of dropped batches are forgotten.
const FORGET: Duration = Duration::from_secs(3600);
/// How often batches are looked for that others have left.
const LEFT: Duration = Duration::from_secs(60);
/// How long a server that is gone is left alone between two attempts, at first and at most.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// What becomes of a file once its rows are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum After {
    #[default]
    Keep,
    Delete,
    /// Moved to this folder.
    Archive(PathBuf),
}

/// What is ingested, and how.
#[derive(Debug, Clone)]
pub struct Ingest {
    /// The job of each batch: one table, whose sources are watched.
    pub job: Job,
    /// The longest that a file waits for others to make a batch with.
    pub every: Duration,
    /// Bytes of files that make a batch at once.
    pub batch_bytes: u64,
    /// The same of records, where a stream is cut.
    pub batch_rows: Option<u64>,
    /// How long a file must not have changed to be taken for whole.
    pub settle: Duration,
    pub after: After,
    /// Rows that arrived longer ago are dropped, a partition at a time.
    pub keep: Option<Duration>,
    /// Columns by which rows of merged partitions are put in order.
    pub order_by: Vec<String>,
    /// Columns by which rows replace older ones.
    pub key: Vec<String>,
    pub policy: Policy,
    /// Take a plain table over.
    pub adopt: bool,
    /// End once nothing is left to load or to merge.
    pub once: bool,
    /// Give these batches up, whose files are gone.
    pub forget: Vec<u64>,
    /// A stream begins again from its first byte whenever it is opened.
    pub replays: bool,
}

/// Who hears of what happens.
pub trait Progress: Sync {
    fn begins(&self, table: &str);
    fn loaded(&self, batch: &LoadedBatch);
    /// So many partitions became one of so many rows; how many there are now.
    fn merged(&self, parts: usize, rows: u64, left: usize, took: Duration);
    /// So many rows were dropped for their age.
    fn expired(&self, rows: u64);
    /// A sender ended within a record, of which so many bytes were not taken.
    fn left_out(&self, bytes: u64);
    /// Something failed that is tried again.
    fn trouble(&self, of: Duty, error: &Error);
    /// All that there was to do is done.
    fn rests(&self, of: Duty);
}

/// What an ingest does side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Loading,
    /// Archives or deletes files that were loaded.
    PuttingAway,
    /// Merges partitions, and drops old ones.
    Merging,
}

/// Ingests until it is interrupted, or until nothing is left where `once` is asked for. `audience` hears of each load.
pub fn ingest(
    asked: &Ingest,
    options: &LoadOptions,
    audience: &dyn Audience,
    progress: &dyn Progress,
) -> Result<()> {
    check_sources(asked)?;
    let connection = destinations::connection(asked.job.to.as_deref())?;
    let stream = streams::of(asked, &connection)?;
    let asked = stream.as_ref().map_or(asked, |stream| &stream.asked);
    let over = AtomicBool::new(stream.is_none());
    let ended = AtomicBool::new(false);
    let stop = || options.interrupted.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let reader =
            stream.as_ref().map(|stream| scope.spawn(|| stream.run(&over, &stop, progress)));
        // Whatever makes an end of it, nothing is read any more.
        let ends = Ends(&ended);
        let done = work(asked, options, audience, progress, &connection, &over, &ended);
        drop(ends);
        let read = reader.map_or(Ok(()), |reader| reader.join().unwrap_or(Ok(())));
        done.and(read)
    })
}

/// Objects stay where they are.
fn check_sources(asked: &Ingest) -> Result<()> {
    let mut sources = asked.job.tables.iter().flat_map(|table| &table.sources);
    if asked.after != After::Keep && sources.any(|source| is_object(source)) {
        return Err(Error::usage_with_hint(
            "--archive and --delete are for files, not for objects of a store",
            "omit them: what is loaded is known by the ledger",
        ));
    }
    Ok(())
}

/// Loads, with the upkeep beside it, until it is stopped or nothing is left. `over`: nothing more comes of a stream.
fn work(
    asked: &Ingest,
    options: &LoadOptions,
    audience: &dyn Audience,
    progress: &dyn Progress,
    connection: &ConnectionOptions,
    over: &AtomicBool,
    ended: &AtomicBool,
) -> Result<()> {
    let mut watch = Watch::new(&asked.job, asked.settle)?;
    let Some(table) = table::open(asked, options, audience, connection, &mut watch, over)? else {
        return Ok(());
    };
    progress.begins(&table.shown().to_string());
    let upkeep = Upkeep::new(asked, connection, &table)?;
    std::thread::scope(|scope| {
        let upkeep = &upkeep;
        for number in 0..MERGES {
            scope.spawn(move || {
                let _alarm = Alarm(&options.interrupted);
                upkeep.run(number == 0, ended, progress);
            });
        }
        let mut work = Work {
            asked,
            options,
            audience,
            progress,
            connection,
            upkeep,
            keeping: Keeping::default(),
            forget: asked.forget.clone(),
            forgot: None,
            looked: Instant::now(),
            unknown: None,
            fails: Vec::new(),
            watch,
            over,
        };
        // What may be merged is merged before the end, unless there is a hurry.
        let _ends = Ends(ended);
        work.run(&table, &options.interrupted)
    })
}

/// Has what goes on beside the loads come to its end with them, also where these panic: it is waited for.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Stops the loads where a merge panics: without merges, partitions would become many.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The loop that loads.
struct Work<'a> {
    asked: &'a Ingest,
    options: &'a LoadOptions,
    audience: &'a dyn Audience,
    progress: &'a dyn Progress,
    connection: &'a ConnectionOptions,
    upkeep: &'a Upkeep<'a>,
    keeping: Keeping,
    /// Batches to give up.
    forget: Vec<u64>,
    /// When files of dropped batches were forgotten last.
    forgot: Option<Instant>,
    /// When batches that others had left were looked for last, and why one of them is left alone.
    looked: Instant,
    unknown: Option<Error>,
    /// Those that failed here.
    fails: Vec<u64>,
    watch: Watch,
    /// Nothing more comes of a stream.
    over: &'a AtomicBool,
}

impl Work<'_> {
    /// Loads until it is told to stop; a server that is gone is waited for.
    fn run(&mut self, table: &Table, stop: &AtomicBool) -> Result<()> {
        let mut patience = PATIENCE;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let ended = Batches::open(self.connection, table)
                .and_then(|mut batches| self.work(&mut batches, stop));
            match ended {
                Ok(()) => return Ok(()),
                Err(error) if may_pass(&error) && !stop.load(Ordering::Relaxed) => {
                    self.progress.trouble(Duty::Loading, &error);
                }
                Err(error) => return Err(error),
            }
            if began.elapsed() > PATIENCE_MAX {
                patience = PATIENCE;
            }
            wait(patience, stop);
            patience = (patience * 2).min(PATIENCE_MAX);
        }
        Ok(())
    }

    /// The same with one session.
    fn work(&mut self, batches: &mut Batches, stop: &AtomicBool) -> Result<()> {
        while let Some(number) = self.forget.pop() {
            batches.release(number)?;
        }
        self.watch.doubt();
        self.watch.look()?;
        self.go_on_with_left(batches, true)?;
        let mut follows_another = false;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // Before looking: what comes after that is seen the next time.
            let is_last = self.asked.once && self.over.load(Ordering::Relaxed);
            self.watch.look()?;
            let standings = batches.standings(&self.watch.unsure())?;
            for source in &self.watch.settle(&standings) {
                self.put_away(source);
            }
            self.forget_dropped(batches)?;
            if self.looked.elapsed() >= LEFT {
                self.go_on_with_left(batches, false)?;
            }
            let batching = Batching {
                every: self.asked.every,
                bytes: self.asked.batch_bytes,
                at_once: is_last,
            };
            if self.watch.is_waiting() && self.is_behind(batches)? {
                wait(LOOK_MIN, stop);
                continue;
            }
            match self.watch.batch(&batching) {
                Some(sources) => {
                    let claimed = batches.claim(&sources)?;
                    let its = claimed.as_ref().map_or(&[][..], |batch| &batch.sources);
                    self.watch.ask_again(sources.iter().filter(|source| !its.contains(source)));
                    if let Some(batch) = claimed {
                        self.upkeep.press(follows_another);
                        self.load(batches, &batch)?;
                        follows_another = true;
                    }
                }
                None => {
                    self.upkeep.press(false);
                    follows_another = false;
                    if self.unknown.is_none() && self.fails.is_empty() {
                        self.progress.rests(Duty::Loading);
                    }
                    if is_last && !self.watch.is_waiting() {
                        if self.unknown.is_some() {
                            // It may have come to its end meanwhile.
                            self.go_on_with_left(batches, false)?;
                        }
                        return self.unknown.take().map_or(Ok(()), Err);
                    }
                    wait((self.asked.every / 4).clamp(LOOK_MIN, LOOK_MAX), stop);
                }
            }
        }
    }

    /// Whether merges are in progress without which there are too many partitions. Where none can be, because somebody
    /// reads for long, rows are loaded all the same.
    fn is_behind(&self, batches: &mut Batches) -> Result<bool> {
        let of = batches.partitions()?;
        Ok(!of.merging.is_empty() && of.own() >= self.asked.policy.parts_max + BEHIND)
    }

    /// Files of batches that were dropped need not be known any more, where loaded files are put away.
    fn forget_dropped(&mut self, batches: &mut Batches) -> Result<()> {
        let is_wanted = self.asked.keep.is_some() && self.asked.after != After::Keep;
        if is_wanted && self.forgot.is_none_or(|last| last.elapsed() >= FORGET) {
            self.forgot = Some(Instant::now());
            batches.forget(&|name| self.watch.finds(name), &self.watch.sources())?;
        }
        Ok(())
    }

    /// Finishes batches that were claimed by somebody who is gone. Of one whose files are not here somebody is told once; one
    /// that fails ends the work only as it begins, or it would end that of every process.
    fn go_on_with_left(&mut self, batches: &mut Batches, begins: bool) -> Result<()> {
        let Left { batches: left, unknown } = batches.left(&self.watch.sources())?;
        let words = |error: &Option<Error>| error.as_ref().map(ToString::to_string);
        if let Some(error) = unknown.as_ref().filter(|_| words(&unknown) != words(&self.unknown)) {
            self.progress.trouble(Duty::Loading, error);
        }
        self.unknown = unknown;
        for batch in &left {
            if !self.fails.contains(&batch.number) {
                match self.load(batches, batch) {
                    Err(error) if !begins && !may_pass(&error) => {
                        self.progress.trouble(Duty::Loading, &error);
                    }
                    loaded => {
                        loaded?;
                        continue;
                    }
                }
                self.fails.push(batch.number);
            }
            batches.unlock(batch.number)?;
        }
        self.looked = Instant::now();
        Ok(())
    }

    fn load(&mut self, batches: &mut Batches, batch: &Batch) -> Result<()> {
        if batch.sources.iter().any(has_changed) {
            // What there is now is another file, which is claimed as such.
            batches.release(batch.number)?;
            self.watch.ask_again(batch.sources.iter());
            return Ok(());
        }
        let leaf = batches.leaf(batch.number)?;
        let loaded = load_batch(self.asked, &leaf, batch, self.options, self.audience);
        // A server that is gone is refused in many ways.
        let loaded = loaded.or_else(|error| connect(self.connection).and(Err(error)))?;
        batches.attach(batch, &loaded.run_id, loaded.rows, loaded.bytes)?;
        self.keeping.loaded(&loaded);
        self.progress.loaded(&loaded);
        for source in &batch.sources {
            self.put_away(source);
        }
        Ok(())
    }

    /// Does with a file whose rows are shown what is asked for; one that has taken its place stays. A file that can't be
    /// moved is no reason to stop: it is taken.
    fn put_away(&self, source: &Source) {
        if has_changed(source) {
            return;
        }
        let name = source.name.as_str();
        let done = match &self.asked.after {
            After::Keep => Ok(()),
            After::Delete => std::fs::remove_file(name),
            After::Archive(folder) => archive(name.as_ref(), folder),
        };
        if let Err(source) = done.or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }) {
            let error = Error::Write { path: name.into(), source };
            self.progress.trouble(Duty::PuttingAway, &error);
        }
    }
}

/// Whether a server may be as it was by itself, or by who looks after it: it is gone, or its disk is full.
fn may_pass(error: &Error) -> bool {
    error.is_lost() || error.is_full()
}

/// Whether a file is not what it was, or is gone. Objects are compared when they are listed.
fn has_changed(source: &Source) -> bool {
    !is_object(&source.name) && version_of(source.name.as_ref()).as_ref() != Some(&source.version)
}

/// Moves a file into a folder, where one of its name is not overwritten.
fn archive(path: &std::path::Path, folder: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut to = folder.join(&name);
    for number in 1.. {
        if !to.exists() {
            break;
        }
        to = folder.join(format!("{name}.{number}"));
    }
    std::fs::rename(path, &to).or_else(|error| match error.kind() {
        // Another file system.
        std::io::ErrorKind::CrossesDevices => {
            let partial = folder.join(format!(".{name}.partial"));
            std::fs::copy(path, &partial)?;
            std::fs::rename(&partial, &to)?;
            std::fs::remove_file(path)
        }
        _ => Err(error),
    })
}

/// Waits, but not for long once it is told to stop.
fn wait(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK_MIN));
    }
}
