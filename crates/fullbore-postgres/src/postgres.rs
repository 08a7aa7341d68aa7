//! The server of a run, its sessions, and what is known of the run's tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use fullbore_load::constants::{RETRY_PAUSE_FIRST_MS, RETRY_PAUSE_MAX_MS};
use fullbore_pgwire::{ConnectionOptions, Kept, Session, quote_identifier};
use fullbore_read::error::Result;
use fullbore_record::{Event, Recorder};

use crate::catalog::Relation;
use crate::error::{failed, refused};
use crate::ledger::Ledger;
use crate::ledger::locks::{self, Backend};
use crate::ledger::trust::Trusted;
use crate::publish::replace::kept::{Baseline, Guard};
use crate::session_settings::{self, SessionSettings};
use crate::target::Target;
use crate::throttle_seen::Watch;
use crate::timeouts;
use crate::verify::state::State;
use crate::watch::sockets::Sockets;

/// Settings of the destination that are the job's.
#[derive(Debug, Clone)]
pub struct Settings {
    pub tablespaces: Vec<String>,
    pub allow_publication: bool,
    /// Direct loads are allowed where `wal_level` is logical.
    pub skip_logical_decoding: bool,
    /// Gather statistics once the rows are shown.
    pub analyze: bool,
    /// Files that other runs have appended are loaded all the same.
    pub loads_again: bool,
}

/// Who is told of what a run does, what stops it, and how long a server that is gone is waited for.
pub(crate) struct Attended {
    pub recorder: Arc<Recorder>,
    pub interrupted: &'static AtomicBool,
    pub patience: Duration,
}

/// A PostgreSQL server and the tables of one run.
pub struct Postgres {
    pub(crate) options: ConnectionOptions,
    pub settings: Settings,
    pub(crate) control: Mutex<Session>,
    pub(crate) targets: OnceLock<Vec<Target>>,
    /// The targets that the run made itself, by number of table.
    pub(crate) made: Mutex<BTreeMap<usize, Relation>>,
    pub(crate) ledger: OnceLock<Ledger>,
    /// The session by which the load was planned.
    pub(crate) first: OnceLock<Backend>,
    /// Rows were taken out after publishing had failed: some of its work is done.
    pub(crate) removed: AtomicBool,
    /// The backend of the session that holds the targets against other runs.
    pub(crate) holder: AtomicI32,
    /// Ledgers that were looked at.
    pub(crate) trusted: Trusted,
    /// What the run proves of its rows.
    pub(crate) verification: State,
    pub(crate) waits_for: Mutex<Vec<String>>,
    /// What tables were that are to be replaced, by number of table, as this process began the run.
    pub(crate) baselines: Mutex<BTreeMap<usize, Baseline>>,
    pub(crate) guard: Mutex<Option<Guard>>,
    /// Processes that a swap waits for without being in the server's queue.
    pub(crate) looked_at: Mutex<Vec<i32>>,
    pub(crate) attended: OnceLock<Attended>,
    pub(crate) watch: Mutex<Watch>,
    pub(crate) server_version: u32,
    /// A pooler is in between: a session may be another client's the next moment.
    pub(crate) is_pooled: bool,
    /// How its sessions read text.
    pub(crate) reading: Mutex<SessionSettings>,
    /// The connection as it may be kept on disk.
    pub(crate) kept: Kept,
    /// What the streams are connected by.
    pub(crate) sockets: Sockets,
    /// The backends of the streams, by number of stream.
    pub(crate) backends: Mutex<BTreeMap<usize, i32>>,
}

impl Postgres {
    /// Connects; the session is kept for the catalog and for publishing.
    pub fn connect(options: ConnectionOptions, settings: Settings) -> Result<Self> {
        let mut options = options;
        let kept = options.kept();
        timeouts::limit(&mut options);
        let mut control = timeouts::connect(&options).map_err(refused)?;
        session_settings::style(&mut control, &options).map_err(refused)?;
        let reading = SessionSettings::of(&mut control).map_err(refused)?;
        let is_pooled = locks::is_pooled(&mut control).map_err(refused)?;
        if !is_pooled {
            locks::unhurry(&mut control).map_err(refused)?;
        }
        tracing::info!(
            to = options.redacted(),
            version = control.server_version_num(),
            "connected"
        );
        Ok(Self {
            server_version: control.server_version_num(),
            is_pooled,
            reading: Mutex::new(reading),
            kept,
            options,
            settings,
            control: Mutex::new(control),
            targets: OnceLock::new(),
            made: Mutex::default(),
            ledger: OnceLock::new(),
            first: OnceLock::new(),
            sockets: Sockets::default(),
            backends: Mutex::default(),
            removed: AtomicBool::new(false),
            holder: AtomicI32::new(0),
            trusted: Trusted::default(),
            verification: State::default(),
            waits_for: Mutex::default(),
            baselines: Mutex::default(),
            guard: Mutex::default(),
            looked_at: Mutex::default(),
            attended: OnceLock::new(),
            watch: Mutex::default(),
        })
    }

    pub fn server_version(&self) -> u32 {
        self.server_version
    }

    pub fn options(&self) -> &ConnectionOptions {
        &self.options
    }

    /// The connection as it may be kept on disk.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Session> {
        self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A further session; where there are too many connections, one is waited for.
    pub(crate) fn session(&self) -> Result<Session> {
        self.waited_for(|| self.session_now())
    }

    /// Tries again as long as there are too many connections, for as long as a server that is gone would be
    /// waited for.
    fn waited_for<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        let limit = self.attended.get().map_or(Duration::ZERO, |attended| attended.patience);
        let (began, mut pause) = (Instant::now(), Duration::from_millis(RETRY_PAUSE_FIRST_MS));
        loop {
            let error = match open() {
                Err(error) if error.is_crowded() && began.elapsed() + pause <= limit => error,
                result => return result,
            };
            if pause > Duration::from_millis(RETRY_PAUSE_FIRST_MS) {
                tracing::warn!("waits for a connection: {error}");
            } else {
                self.report(Event::Notice { notice: format!("waits for a connection: {error}") });
            }
            self.rest(pause)?;
            pause = (pause * 2).min(Duration::from_millis(RETRY_PAUSE_MAX_MS));
        }
    }

    /// A further session that reads text as the others do.
    pub(crate) fn session_now(&self) -> Result<Session> {
        let mut session = timeouts::connect(&self.options).map_err(failed)?;
        self.reading().apply(&mut session).map_err(failed)?;
        if !self.is_pooled {
            locks::unhurry(&mut session).map_err(failed)?;
        }
        Ok(session)
    }

    /// A session that works for the run: whoever goes on with it ends what is left of such.
    pub(crate) fn marked_session(&self) -> Result<Session> {
        self.waited_for(|| self.marked_session_now())
    }

    /// The same, unless there are too many connections.
    pub(crate) fn marked_session_now(&self) -> Result<Session> {
        let mut session = self.session_now()?;
        if let Some(ledger) = self.ledger() {
            let run_id = &ledger.run_id;
            let marked = locks::settle(&mut session, Some(run_id));
            marked.map_err(|error| locks::not_marked(&mut session, error, run_id))?;
            // Whoever has gone on with the run before the mark could not see it.
            if ledger.was_taken_over(&mut session) {
                return Err(ledger.taken_over());
            }
        }
        Ok(session)
    }

    /// Says which targets the plan's tables are, in the plan's order.
    ///
    /// # Panics
    /// If called twice.
    pub fn adopt(&self, targets: Vec<Target>) {
        self.targets.set(targets).expect("targets are adopted once");
    }

    pub fn targets(&self) -> &[Target] {
        self.targets.get().map_or(&[], Vec::as_slice)
    }

    /// The targets that the run made itself, by number of table.
    pub(crate) fn made(&self) -> MutexGuard<'_, BTreeMap<usize, Relation>> {
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn note_made(&self, table: usize, relation: Relation) {
        self.made().insert(table, relation);
    }

    pub(crate) fn baselines(&self) -> MutexGuard<'_, BTreeMap<usize, Baseline>> {
        self.baselines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The tablespace clause for the n-th table of a run.
    pub(crate) fn tablespace(&self, number: usize) -> Result<String> {
        if self.settings.tablespaces.is_empty() {
            return Ok(String::new());
        }
        let name = &self.settings.tablespaces[number % self.settings.tablespaces.len()];
        Ok(format!(" TABLESPACE {}", quote_identifier(name).map_err(failed)?))
    }

    pub(crate) fn lock_backends(&self) -> MutexGuard<'_, BTreeMap<usize, i32>> {
        self.backends.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The backends of the streams, by number of stream.
    pub(crate) fn backends(&self) -> BTreeMap<usize, i32> {
        self.lock_backends().clone()
    }

    /// The parts of the load that were not loaded when this one was, in words.
    pub fn waits_for(&self) -> Vec<String> {
        self.waits_for.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
