//! Retries lost connections with growing pauses, up to a limit.

use std::time::{Duration, Instant};

use fullbore_read::error::{Error, Result};
use fullbore_record::observe::clock::{self, Activity};

use crate::constants::{RETRY_PAUSE_FIRST_MS, RETRY_PAUSE_MAX_MS};

/// How often a pause looks whether it is to be cut short.
pub const LOOK_MS: u64 = 20;

/// The patience of one thread.
pub struct Patience<'a> {
    limit: Duration,
    has_ended: &'a dyn Fn() -> bool,
    /// What is not waited for.
    but_for: fn(&Error) -> bool,
}

impl<'a> Patience<'a> {
    /// `has_ended` says that nobody waits for the result any more.
    pub fn new(limit: Duration, has_ended: &'a dyn Fn() -> bool) -> Self {
        Self { limit, has_ended, but_for: |_| false }
    }

    /// The same for all but some losses.
    #[must_use]
    pub fn but_for(self, but_for: fn(&Error) -> bool) -> Self {
        Self { but_for, ..self }
    }

    /// Does the work until it succeeds, or fails with something else than a lost connection.
    pub fn insist<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(RETRY_PAUSE_FIRST_MS);
        loop {
            let error = match work() {
                Err(error) if error.is_lost() && !(self.but_for)(&error) => error,
                result => return result,
            };
            if began.elapsed() + pause > self.limit {
                return Err(given_up(error, began.elapsed()));
            }
            tracing::warn!(pause_s = pause.as_secs_f64(), "tried again after a pause: {error}");
            // No work of anybody's, and no fault of the server's work either.
            clock::enter(Activity::Held);
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if (self.has_ended)() {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(LOOK_MS));
            }
            pause = (pause * 2).min(Duration::from_millis(RETRY_PAUSE_MAX_MS));
        }
    }
}

pub fn given_up(error: Error, after: Duration) -> Error {
    match error {
        Error::Destination { message, hint, kind } if after.as_secs() > 0 => Error::Destination {
            message: format!("{message} (tried again for {} s)", after.as_secs()),
            hint,
            kind,
        },
        error => error,
    }
}
