//! Work that several sessions do at once.

use std::sync::Mutex;

use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use crate::postgres::Postgres;

/// Runs `work` on so many threads, each with its number from 0 and with what says whether another one has
/// failed; the first error of any of them.
pub fn side_by_side(
    workers: usize,
    work: impl Fn(usize, &dyn Fn() -> bool) -> Result<()> + Sync,
) -> Result<()> {
    let failure = Mutex::new(None);
    let has_failed = || failure.lock().unwrap_or_else(|p| p.into_inner()).is_some();
    std::thread::scope(|scope| {
        for number in 0..workers {
            let (work, failure, has_failed) = (&work, &failure, &has_failed);
            scope.spawn(move || {
                if let Err(error) = work(number, has_failed) {
                    failure.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(error);
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(|p| p.into_inner()).map_or(Ok(()), Err)
}

impl Postgres {
    /// Does work on up to so many sessions at once, each of which takes what is next; the first error ends the rest.
    /// One of them does all of it where there are connections for no more.
    pub(crate) fn share_out<T: Send>(
        &self,
        sessions: usize,
        items: Vec<T>,
        work: impl Fn(&mut Session, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let workers = sessions.min(items.len());
        let items = Mutex::new(items.into_iter());
        let next = || items.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
        side_by_side(workers, |number, has_failed| {
            let mut session = match number {
                0 => self.marked_session()?,
                _ => match self.marked_session_now() {
                    Err(error) if error.is_crowded() => return Ok(()),
                    opened => opened?,
                },
            };
            while !has_failed() {
                let Some(item) = next() else { break };
                work(&mut session, item)?;
            }
            Ok(())
        })
    }
}
