//! Merges partitions while batches are loaded, and drops them once they are old.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_pgwire::{ConnectionOptions, Session};
use fullbore_postgres::levels::batches::parts;
use fullbore_postgres::levels::expire::expire;
use fullbore_postgres::levels::merge::{Merged, Merger};
use fullbore_postgres::levels::{Table, connect};
use fullbore_read::error::Result;

use super::{Ingest, Progress, wait};

/// How often the partitions are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often old ones are looked for, at most.
const EXPIRE: Duration = Duration::from_secs(60);
/// How long a server that is gone, or a merge that fails, is left alone.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Upkeep<'a> {
    asked: &'a Ingest,
    connection: &'a ConnectionOptions,
    table: &'a Table,
    merger: Merger,
}

impl<'a> Upkeep<'a> {
    pub fn new(
        asked: &'a Ingest,
        connection: &'a ConnectionOptions,
        table: &'a Table,
    ) -> Result<Self> {
        let merger = Merger::new(connection, table, &asked.order_by)?;
        Ok(Self { asked, connection, table, merger })
    }

    /// Until the loads have ended; where they end by themselves, until nothing is left to merge.
    pub fn run(&self, ended: &AtomicBool, progress: &dyn Progress) {
        let mut session = None;
        let mut expired = None;
        loop {
            let is_last = ended.load(Ordering::Relaxed);
            match self.round(&mut session, &mut expired, ended, progress) {
                Ok(true) => continue,
                Ok(false) if is_last => return,
                Ok(false) => wait(LOOK, ended),
                Err(error) => {
                    progress.trouble(&error);
                    session = None;
                    if is_last {
                        return;
                    }
                    wait(PATIENCE, ended);
                }
            }
        }
    }

    /// One merge; whether there may be another.
    fn round(
        &self,
        session: &mut Option<Session>,
        expired: &mut Option<Instant>,
        ended: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<bool> {
        let session = match session {
            Some(session) => session,
            none => none.insert(connect(self.connection)?),
        };
        if let Some(keep) = self.asked.keep
            && expired.is_none_or(|last| last.elapsed() >= EXPIRE.min(keep / 4))
        {
            *expired = Some(Instant::now());
            if let Some((_, rows)) = expire(session, self.table, keep.as_secs())? {
                progress.expired(rows);
            }
        }
        // Whoever is in a hurry leaves merges to the next process.
        if ended.load(Ordering::Relaxed) && !self.asked.once {
            return Ok(false);
        }
        let (parts, loading) = parts(session, self.table)?;
        let Some(group) = self.asked.policy.next(&parts, &loading) else { return Ok(false) };
        let began = Instant::now();
        let never = AtomicBool::new(false);
        let stop = if self.asked.once { &never } else { ended };
        match self.merger.merge(&parts[group.clone()], stop)? {
            Merged::Done(part) => {
                let left = parts.len() - group.len() + 1;
                progress.merged(group.len(), part.rows, left, began.elapsed());
                Ok(true)
            }
            Merged::Busy => {
                wait(PATIENCE, ended);
                Ok(false)
            }
        }
    }
}
