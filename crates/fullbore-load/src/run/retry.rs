//! Retries with growing pauses, up to a limit of time.

use std::time::{Duration, Instant};

use fullbore_read::error::{Error, Result};
use fullbore_record::observe::clock::{self, Activity};

use crate::constants::{RETRY_PAUSE_FIRST_MS, RETRY_PAUSE_MAX_MS};

/// How often a pause looks whether it is to be cut short.
const LOOK: Duration = Duration::from_millis(20);

/// Sleeps; false if something ended it early.
pub fn pause(pause: Duration, has_ended: impl Fn() -> bool) -> bool {
    let until = Instant::now() + pause;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if has_ended() {
            return false;
        }
        std::thread::sleep(left.min(LOOK));
    }
    true
}

/// The pauses between the attempts at one thing: each is twice as long as the one before.
pub struct Backoff {
    began: Instant,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    pub fn new(limit: Duration) -> Self {
        let next = Duration::from_millis(RETRY_PAUSE_FIRST_MS);
        Self { began: Instant::now(), limit, next }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next pause.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Whether it was never paused yet.
    pub fn is_first(&self) -> bool {
        self.next == Duration::from_millis(RETRY_PAUSE_FIRST_MS)
    }

    /// Whether the next pause would exceed the limit.
    pub fn is_over(&self) -> bool {
        self.elapsed() + self.next > self.limit
    }

    /// Sleeps; false if something ended it early.
    pub fn pause(&mut self, has_ended: impl Fn() -> bool) -> bool {
        let next = self.next;
        self.next = (next * 2).min(Duration::from_millis(RETRY_PAUSE_MAX_MS));
        pause(next, has_ended)
    }
}

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
        let mut backoff = Backoff::new(self.limit);
        loop {
            let error = match work() {
                Err(error) if error.is_lost() && !(self.but_for)(&error) => error,
                result => return result,
            };
            if backoff.is_over() {
                return Err(given_up(error, backoff.elapsed()));
            }
            let pause_s = backoff.next().as_secs_f64();
            tracing::warn!(pause_s, "retrying after a pause: {error}");
            // No work of anybody's, and no fault of the server's work either.
            clock::enter(Activity::Held);
            if !backoff.pause(self.has_ended) {
                return Err(error);
            }
        }
    }
}

pub fn given_up(error: Error, after: Duration) -> Error {
    match error {
        Error::Destination { message, hint, kind } if after.as_secs() > 0 => Error::Destination {
            message: format!("{message} (retried for {} s)", after.as_secs()),
            hint,
            kind,
        },
        error => error,
    }
}
