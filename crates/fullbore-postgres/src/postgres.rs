//! The destination of a run: a server, the run's tables, its ledger, and what it knows of itself.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fullbore_load::run::retry::Backoff;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::{Event, Recorder};

use crate::catalog::Relation;
use crate::direct::known::Filled;
use crate::encode_direct::packing::Packing;
use crate::endpoints::Endpoints;
use crate::error::failed;
use crate::ledger::Ledger;
use crate::ledger::locks;
use crate::publish::replace::kept::{Baseline, Guard};
use crate::server::Server;
use crate::statistics::known::Gathered;
use crate::target::PostgresTable;
use crate::throttle_memory::ThrottleMemory;
use crate::verify::state::State;
use crate::watch::sockets::Sockets;

/// Who is told of what a run does, what stops it, and how long a server that is gone is waited for.
pub struct Attended {
    pub recorder: Arc<Recorder>,
    pub interrupted: Arc<AtomicBool>,
    pub patience: Duration,
}

/// A PostgreSQL server as the destination of one run.
///
/// What the server can be asked without a run is [`Server`]'s. This is made once the plan is finished, so
/// that none of it can be used before its tables and its ledger are known.
pub struct Postgres {
    server: Arc<Server>,
    /// The targets of the plan's tables, in the plan's order.
    targets: Vec<PostgresTable>,
    ledger: Option<Ledger>,
    pub(crate) attended: Option<Attended>,
    /// The targets that the run made itself, by number of table.
    made: Mutex<BTreeMap<usize, Relation>>,
    /// Rows were taken out after publishing had failed: some of its work is done.
    pub(crate) removed: AtomicBool,
    /// The backend of the session that holds the targets against other runs.
    pub(crate) holder: AtomicI32,
    /// What the run proves of its rows.
    pub(crate) verification: State,
    pub(crate) waits_for: Mutex<Vec<String>>,
    /// Sessions that keep others from merging rows into targets.
    pub(crate) turns: Mutex<Vec<Session>>,
    /// What tables were that are to be replaced, by number of table, as this process began the run.
    baselines: Mutex<BTreeMap<usize, Baseline>>,
    pub(crate) guard: Mutex<Option<Guard>>,
    /// Processes that a swap waits for without being in the server's queue.
    pub(crate) looked_at: Mutex<Vec<i32>>,
    pub(crate) throttle_memory: Mutex<ThrottleMemory>,
    /// How frames are packed.
    pub(crate) packing: Arc<Packing>,
    /// What the streams are connected by.
    pub(crate) sockets: Sockets,
    /// The backends of the streams, by number of stream.
    backends: Mutex<BTreeMap<usize, i32>>,
    /// The indexes of the targets, by number of table, once a piece has asked.
    filled: Mutex<BTreeMap<usize, Arc<Filled>>>,
    /// What is known of rows that were loaded, by number of table.
    gathered: Mutex<BTreeMap<usize, Gathered>>,
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Postgres {
    /// The destination of a run that loads into `targets`, which are the plan's tables in the plan's order.
    /// Without a ledger it can't be resumed; without `attended` nobody is told what it waits for.
    pub fn new(
        server: Arc<Server>,
        targets: Vec<PostgresTable>,
        ledger: Option<Ledger>,
        attended: Option<Attended>,
    ) -> Self {
        Self {
            server,
            targets,
            ledger,
            attended,
            made: Mutex::default(),
            removed: AtomicBool::new(false),
            holder: AtomicI32::new(0),
            verification: State::default(),
            waits_for: Mutex::default(),
            turns: Mutex::default(),
            baselines: Mutex::default(),
            guard: Mutex::default(),
            looked_at: Mutex::default(),
            throttle_memory: Mutex::default(),
            packing: Arc::default(),
            sockets: Sockets::default(),
            backends: Mutex::default(),
            filled: Mutex::default(),
            gathered: Mutex::default(),
        }
    }

    /// What has to do with a run that is over: undoing it, comparing it with its sources.
    pub fn of_past_runs(server: Arc<Server>) -> Self {
        Self::new(server, Vec::new(), None, None)
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn targets(&self) -> &[PostgresTable] {
        &self.targets
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// A further session; where there are too many connections, one is waited for.
    pub(crate) fn session(&self) -> Result<Session> {
        self.waited_for(|| self.session_now())
    }

    /// Tries again as long as there are too many connections, for as long as a server that is gone would be
    /// waited for.
    fn waited_for<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        let limit = self.attended.as_ref().map_or(Duration::ZERO, |attended| attended.patience);
        let mut backoff = Backoff::new(limit);
        loop {
            let error = match open() {
                Err(error) if error.is_crowded() && !backoff.is_over() => error,
                result => return result,
            };
            let notice = format!("waits for a connection: {error}");
            match backoff.is_first() {
                true => self.report(Event::Notice { notice }),
                false => tracing::warn!("{notice}"),
            }
            self.pause(&mut backoff)?;
        }
    }

    /// A session that works for the run: whoever resumes it ends what is left of such.
    pub(crate) fn marked_session(&self) -> Result<Session> {
        self.waited_for(|| self.marked_session_now())
    }

    /// The same, unless there are too many connections.
    pub(crate) fn marked_session_now(&self) -> Result<Session> {
        self.marked(self.session_now()?)
    }

    /// A stream's session by an endpoint, which is down where it is not had.
    pub(crate) fn session_by_way(&self, endpoints: &Endpoints, at: usize) -> Result<Session> {
        let mut session = self.session_by(endpoints, at).inspect_err(|error| {
            if error.is_lost() && !error.is_crowded() {
                endpoints.lose(at, &error.to_string());
            }
        })?;
        endpoints.find(at);
        self.check_identity(&mut session, endpoints, at)?;
        self.marked(session)
    }

    fn marked(&self, session: Session) -> Result<Session> {
        let mut session = session;
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

    /// Truncates a table: then it is as new in this transaction as if it were made in it.
    pub(crate) fn truncate(&self, session: &mut Session, table: &QualifiedName) -> Result<()> {
        let name = quote_literal(&table.to_string()).map_err(failed)?;
        let truncate = format!("TRUNCATE {table}; SELECT pg_relation_filenode({name}) AS file");
        let rows = session.query(&truncate).map_err(failed)?;
        if let Some(file) = rows.first().and_then(|row| row.get("file")?.parse().ok()) {
            self.verification.note_file(table, file);
        }
        Ok(())
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

    pub(crate) fn lock_backends(&self) -> MutexGuard<'_, BTreeMap<usize, i32>> {
        self.backends.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn filled(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Filled>>> {
        self.filled.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn lock_gathered(&self) -> MutexGuard<'_, BTreeMap<usize, Gathered>> {
        self.gathered.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
