//! Merges partitions while batches are loaded, and drops them once they are old.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fullbore_pgwire::{ConnectionOptions, Session};
use fullbore_postgres::levels::batches::partitions;
use fullbore_postgres::levels::detached;
use fullbore_postgres::levels::expire::{check, expire};
use fullbore_postgres::levels::merge::{Merged, Merger};
use fullbore_postgres::levels::{Table, connect};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::Method;

use super::{Duty, Ingest, MERGES, PRESSED, Progress, wait};
use crate::ordered::sort_keys;

/// How often the partitions are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often old ones are looked for, at most.
const EXPIRE: Duration = Duration::from_secs(60);
/// How often what was left of partitions that were taken away is dropped, at most.
const DROP: Duration = Duration::from_secs(60);
/// How long a server that is gone, or a merge that fails, is left alone.
const PATIENCE: Duration = Duration::from_secs(5);
/// Merges in vain after which somebody is told.
const IN_VAIN: u32 = 3;

pub struct Upkeep<'a> {
    asked: &'a Ingest,
    connection: &'a ConnectionOptions,
    table: &'a Table,
    merger: Merger,
    /// Batches follow one another without a pause.
    is_pressed: AtomicBool,
    /// Merges one after the other for which no moment was found.
    in_vain: AtomicU32,
    /// When what was left of partitions was dropped last.
    dropped: Mutex<Option<Instant>>,
}

impl<'a> Upkeep<'a> {
    pub fn new(
        asked: &'a Ingest,
        connection: &'a ConnectionOptions,
        table: &'a Table,
    ) -> Result<Self> {
        let may_be_direct = asked.job.method != Method::Copy;
        let mut session = connect(connection)?;
        let order = sort_keys(&asked.order_by)?;
        let merger = Merger::new(&mut session, connection, table, &order, may_be_direct)?;
        if asked.keep.is_some() {
            check(&mut session, table)?;
        }
        let (is_pressed, dropped) = (AtomicBool::new(false), Mutex::new(None));
        let in_vain = AtomicU32::new(0);
        Ok(Self { asked, connection, table, merger, is_pressed, in_vain, dropped })
    }

    /// Says whether batches follow one another without a pause.
    pub fn press(&self, is_pressed: bool) {
        self.is_pressed.store(is_pressed, Ordering::Relaxed);
    }

    /// Until the loads have ended; where they end by themselves, until nothing is left to merge. One of those that do so
    /// at a time drops old partitions.
    pub fn run(&self, expires: bool, ended: &AtomicBool, progress: &dyn Progress) {
        let mut session = None;
        let mut expired: Option<Instant> = None;
        loop {
            let is_last = ended.load(Ordering::Relaxed);
            let expired = expires.then_some(&mut expired);
            match self.round(&mut session, expired, ended, progress) {
                Ok(true) => continue,
                Ok(false) if is_last => return,
                Ok(false) => {
                    if self.in_vain.load(Ordering::Relaxed) == 0 {
                        progress.rests(Duty::Merging);
                    }
                    wait(LOOK, ended);
                }
                Err(error) => {
                    // Until a merge is done, or none is due.
                    self.in_vain.fetch_max(1, Ordering::Relaxed);
                    progress.trouble(Duty::Merging, &error);
                    session = None;
                    if is_last {
                        return;
                    }
                    wait(PATIENCE, ended);
                }
            }
        }
    }

    /// How long a merge of so many bytes takes at least: all that merge at a time keep to `--max-rate` together.
    fn pause(&self, bytes: u64) -> Duration {
        let rate =
            self.asked.job.max_rate.map(|rate| rate.bytes_per_second() as f64 / MERGES as f64);
        rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate.max(1.0)))
    }

    fn expire(
        &self,
        session: &mut Session,
        keep: Duration,
        expired: &mut Option<Instant>,
        progress: &dyn Progress,
    ) -> Result<()> {
        if expired.is_none_or(|last| last.elapsed() >= EXPIRE.min(keep / 4)) {
            *expired = Some(Instant::now());
            if let Some((_, rows)) = expire(session, self.table, keep.as_secs())? {
                progress.expired(rows);
                self.drop_detached(session, progress)?;
            }
        }
        Ok(())
    }

    /// Drops the tables of partitions that were taken away.
    fn drop_detached(&self, session: &mut Session, progress: &dyn Progress) -> Result<()> {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if let Some(error) = detached::drop_all(session, self.table)? {
            progress.trouble(Duty::Merging, &error);
        }
        Ok(())
    }

    /// Whether somebody who is gone may have left such tables; what cannot be dropped is not tried all the time.
    fn is_left(&self, detached: &[(u64, u64)]) -> bool {
        let dropped = *self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        !detached.is_empty() && dropped.is_none_or(|last| last.elapsed() >= DROP)
    }

    /// The table can't be merged while others have its locks.
    fn is_in_use(&self) -> Error {
        Error::Destination {
            message: format!(
                "partitions of {} can't be merged: other sessions use them all the time",
                self.table.shown()
            ),
            hint: Some(
                "updates, deletes and long transactions on the table prevent merges from ending"
                    .into(),
            ),
            kind: DestinationFailure::Locked,
        }
    }

    /// One merge, and what has expired by then; whether there may be another.
    fn round(
        &self,
        session: &mut Option<Session>,
        expired: Option<&mut Option<Instant>>,
        ended: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<bool> {
        let session = match session {
            Some(session) => session,
            none => none.insert(connect(self.connection)?),
        };
        if let (Some(keep), Some(expired)) = (self.asked.keep, expired) {
            self.expire(session, keep, expired, progress)?;
        }
        // Whoever is in a hurry leaves merges to the next process.
        if ended.load(Ordering::Relaxed) && !self.asked.once {
            return Ok(false);
        }
        let of = partitions(session, self.table)?;
        if self.is_left(&of.detached) {
            self.drop_detached(session, progress)?;
        }
        let enough = self.asked.policy.parts_max + PRESSED;
        if self.is_pressed.load(Ordering::Relaxed) && of.own() < enough {
            return Ok(false);
        }
        // What seems to be merged may be left of somebody who is gone.
        if of.merging.is_empty() && self.asked.policy.next(&of).is_none() {
            self.in_vain.store(0, Ordering::Relaxed);
            return Ok(false);
        }
        let began = Instant::now();
        let never = AtomicBool::new(false);
        let stop = if self.asked.once { &never } else { ended };
        match self.merger.merge(session, &self.asked.policy, stop)? {
            Merged::Done { parts, rows, bytes } => {
                self.in_vain.store(0, Ordering::Relaxed);
                let left = partitions(session, self.table)?.shown.len();
                progress.merged(parts, rows, left, began.elapsed());
                self.drop_detached(session, progress)?;
                wait(self.pause(bytes).saturating_sub(began.elapsed()), ended);
                Ok(true)
            }
            Merged::Busy if !stop.load(Ordering::Relaxed) => {
                if self.in_vain.fetch_add(1, Ordering::Relaxed) + 1 >= IN_VAIN {
                    return Err(self.is_in_use());
                }
                wait(PATIENCE, ended);
                Ok(false)
            }
            Merged::Busy => Ok(false),
            Merged::Nothing => Ok(false),
        }
    }
}
