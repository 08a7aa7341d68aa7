//! The threads of a round.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use fullbore_read::error::Error;

use super::schedule::Schedule;

/// Starts the threads of a round.
#[derive(Clone, Copy)]
pub struct Threads<'scope, 'env, 'a> {
    pub scope: &'scope Scope<'scope, 'env>,
    pub schedule: &'a Schedule<'a>,
}

impl<'scope> Threads<'scope, '_, '_> {
    /// Starts one that the round can't do without. Where the machine has none to give, the round ends as it does by any failure: the
    /// threads that are there must hear of it, or they would be waited for in vain.
    pub fn start<T: Send + 'scope>(
        &self,
        name: String,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, T>> {
        self.try_start(name, work).map_err(|error| self.schedule.fail(not_started(&error))).ok()
    }

    /// Starts one, if the machine has one to give.
    pub fn try_start<T: Send + 'scope>(
        &self,
        name: String,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
        Builder::new().name(name).spawn_scoped(self.scope, work)
    }
}

/// What is said where the machine has no thread to give.
pub fn not_started(error: &std::io::Error) -> Error {
    Error::Client {
        message: format!("another thread can't be started: {error}"),
        hint: Some(
            "load with fewer --streams and --parsers, or raise the process and memory limits \
             (ulimit -u, ulimit -v, the container's)"
                .into(),
        ),
    }
}
