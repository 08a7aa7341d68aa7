//! Makes the sessions of a run read text as it was begun.

use std::sync::PoisonError;

use fullbore_read::error::{Error, Result};

use crate::error::{failed, refuse};
use crate::ledger::runs::LedgerRun;
use crate::server::Server;
use crate::session_settings::SessionSettings;

impl Server {
    pub(crate) fn reading(&self) -> SessionSettings {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes all sessions, from here on, read as a run was begun; what of it is otherwise for new runs,
    /// in words.
    pub fn read_as(&self, run: &LedgerRun) -> Result<Vec<String>> {
        // Those of one run are the same for all its tables.
        let Some(then) = run.tables.iter().find_map(|table| table.settings.clone()) else {
            return Ok(Vec::new());
        };
        let now = self.reading();
        then.apply(&mut self.control()).map_err(|error| match failed(error) {
            Error::Destination { message, .. } => refuse(
                format!(
                    "run {} was started with settings that can no longer be set: {message}",
                    run.run_id
                ),
                format!(
                    "roll the run back with `fullbore runs abort {}` and load again",
                    run.run_id
                ),
            ),
            other => other,
        })?;
        let notes = then.differences(&now).into_iter().map(|(name, now, then)| {
            format!("{name} is now {now}; the run is resumed with its original {then}")
        });
        let notes = notes.collect();
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = then;
        Ok(notes)
    }
}
