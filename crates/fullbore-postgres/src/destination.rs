//! The PostgreSQL destination: what the data path calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use fullbore_load::constants::{RETRY_PAUSE_FIRST_MS, RETRY_PAUSE_MAX_MS};
use fullbore_load::destination::{
    Committed, Destination, Encoder, Proven, Retrace, Standing, Strain, Summer, Writer,
};
use fullbore_load::plan::Plan;
use fullbore_parse::Lane;
use fullbore_pgwire::{ConnectionOptions, Kept, Session, quote_identifier};
use fullbore_read::error::{Error, Result};
use fullbore_record::observe::socket::SocketNow;
use fullbore_record::observe::{Observed, Watch};
use fullbore_record::{Event, Phase, Recorder};

use crate::catalog::Relation;
use crate::direct::choice::Direct;
use crate::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use crate::encode_direct::DirectEncoder;
use crate::error::{failed, refused};
use crate::ledger::locks::Backend;
use crate::ledger::schema;
use crate::ledger::trust::Trusted;
use crate::ledger::{Begun, Ledger, locks, meanwhile, parts, runs};
use crate::patience;
use crate::publish;
use crate::publish::replace::{Baseline, Guard};
use crate::reading::{self, Reading};
use crate::strain;
use crate::target::Target;
use crate::verify;
use crate::watch::sockets::Sockets;
use crate::watch::{self, PostgresWatch};
use crate::writer::PostgresWriter;

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
    options: ConnectionOptions,
    pub settings: Settings,
    control: Mutex<Session>,
    targets: OnceLock<Vec<Target>>,
    /// The targets that the run made itself, by number of table.
    made: Mutex<BTreeMap<usize, Relation>>,
    pub(crate) ledger: OnceLock<Ledger>,
    /// The session by which the load was planned.
    pub(crate) first: OnceLock<Backend>,
    /// Rows were sifted after publishing had failed: some of its work is done.
    pub(crate) sifted: AtomicBool,
    /// The backend of the session that holds the targets against other runs.
    pub(crate) holder: AtomicI32,
    /// Ledgers that were looked at.
    pub(crate) trusted: Trusted,
    /// What the run proves of its rows.
    pub(crate) verification: verify::State,
    pub(crate) waits_for: Mutex<Vec<String>>,
    /// What tables were that are to be replaced, by number of table, as this process began the run.
    baselines: Mutex<BTreeMap<usize, Baseline>>,
    pub(crate) guard: Mutex<Option<Guard>>,
    /// Processes that a swap waits for without being in the server's queue.
    pub(crate) looked_at: Mutex<Vec<i32>>,
    pub(crate) attended: OnceLock<Attended>,
    pub(crate) watch: Mutex<strain::Watch>,
    server_version: u32,
    /// A pooler is in between: a session may be another client's the next moment.
    pub(crate) is_pooled: bool,
    /// How its sessions read text.
    pub(crate) reading: Mutex<Reading>,
    /// The connection as it may be kept on disk.
    kept: Kept,
    /// What the streams are connected by.
    pub(crate) sockets: Sockets,
    /// The backends of the streams, by number of stream.
    backends: Mutex<BTreeMap<usize, i32>>,
}

impl Postgres {
    /// Connects; the session is kept for the catalog and for publishing.
    pub fn connect(options: ConnectionOptions, settings: Settings) -> Result<Self> {
        let mut options = options;
        let kept = options.kept();
        patience::limit(&mut options);
        let mut control = patience::connect(&options).map_err(refused)?;
        reading::style(&mut control, &options).map_err(refused)?;
        let reading = Reading::of(&mut control).map_err(refused)?;
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
            sifted: AtomicBool::new(false),
            holder: AtomicI32::new(0),
            trusted: Trusted::default(),
            verification: verify::State::default(),
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
        let mut session = patience::connect(&self.options).map_err(failed)?;
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
            if runs::is_anothers(&mut session, ledger) {
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

    fn lock_backends(&self) -> MutexGuard<'_, BTreeMap<usize, i32>> {
        self.backends.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The backends of the streams, by number of stream.
    pub(crate) fn backends(&self) -> BTreeMap<usize, i32> {
        self.lock_backends().clone()
    }

    /// Refuses to begin where a target is no longer what it was as the load was planned.
    pub(crate) fn check_targets(&self, session: &mut Session) -> Result<()> {
        let there = self.targets().iter().enumerate().filter(|(_, target)| target.create.is_none());
        for (number, _) in there {
            self.planned(number).check_before(session)?;
        }
        Ok(())
    }

    /// Begins the run in the ledger, and makes what its pieces need.
    fn begin(&self, session: &mut Session, plan: &Plan) -> Result<()> {
        if let Some(ledger) = self.ledger() {
            runs::begin(session, ledger, plan, self)?;
            match &plan.continuity.part {
                Some(part) => parts::begin(session, &ledger.schema, &ledger.run_id, part)?,
                None => meanwhile::check(session, self, ledger, plan)?,
            }
        }
        self.check_verifiable(session, plan)?;
        for (table, target) in self.targets().iter().enumerate() {
            if let Some(create) = &target.create {
                publish::made::make(self, session, plan, table, create)?;
            }
        }
        self.lock_writers_out(plan, true)?;
        for (table, target) in self.targets().iter().enumerate() {
            publish::prepare(self, session, plan, table, target)?;
        }
        // What was made like a target is like the one that was planned for.
        self.check_targets(session)?;
        match self.ledger() {
            Some(ledger) => runs::prepared(session, ledger),
            None => Ok(()),
        }
    }

    /// The parts of the load that were not loaded when this one was, in words.
    pub fn waits_for(&self) -> Vec<String> {
        self.waits_for.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn element_oid(&self, table: usize, column: &str) -> u32 {
        let columns = &self.targets()[table].relation.columns;
        let found = columns.iter().find(|candidate| candidate.name == column);
        found.and_then(|column| column.catalog_type.element.as_ref()).map_or(0, |(_, oid)| *oid)
    }
}

impl Observed for Postgres {
    fn watch(&self) -> Result<Option<Box<dyn Watch + '_>>> {
        Ok(Some(Box::new(PostgresWatch::open(self)?)))
    }

    fn sockets(&self) -> Vec<(usize, SocketNow)> {
        self.sockets.look()
    }
}

impl Destination for Postgres {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let mut session = self.control();
        self.hold_targets(&mut session)?;
        // A run that was waited for may have replaced one.
        self.check_targets(&mut session)?;
        if let Some(ledger) = self.ledger() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
            schema::make(&mut session, &ledger.schema, &self.trusted)?;
        }
        let begun = match (&plan.continuity.part, self.ledger()) {
            (Some(part), Some(ledger)) => {
                parts::enter(&mut session, ledger, part, self.targets(), |session| {
                    self.begin(session, plan)
                })
            }
            _ => self.begin(&mut session, plan),
        };
        drop(session);
        begun.map_err(|error| publish::not_begun(self, error))
    }

    fn attempt(&self, plan: &Plan) -> Result<Standing> {
        let Some(ledger) = self.ledger() else { return Ok(Standing::default()) };
        let mut session = self.locked_control(ledger)?;
        self.hold_targets(&mut session)?;
        if ledger.control().is_none() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
        }
        let standing = runs::attempt(&mut session, ledger)?;
        if !standing.is_published {
            self.lock_writers_out(plan, false)?;
        }
        publish::check_staged(&mut session, plan, self.targets(), &standing)?;
        self.check_verifiable(&mut session, plan)?;
        Ok(standing)
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        if lane == Lane::Text {
            return Ok(Box::new(TextEncoder::default()));
        }
        let columns = plan.tables[table]
            .shape
            .columns
            .iter()
            .map(|column| SentColumn {
                field_type: column.field_type.clone(),
                element_oid: self.element_oid(table, &column.name),
            })
            .collect();
        let copy = BinaryEncoder::new(columns);
        Ok(match &self.targets()[table].direct {
            Some(Direct { layout, codec, .. }) => {
                Box::new(DirectEncoder::new(layout.clone(), copy, *codec))
            }
            None => Box::new(copy),
        })
    }

    fn summer(&self, plan: &Plan, table: usize) -> Result<Option<Box<dyn Summer>>> {
        self.batch_summer(plan, table)
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, stream: usize) -> Result<Box<dyn Writer + 'a>> {
        let mut session = self.marked_session_now()?;
        let backend = watch::backend_of(&mut session).map_err(failed)?;
        self.lock_backends().insert(stream, backend);
        Ok(Box::new(PostgresWriter::new(self, plan.clone(), session, stream)))
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }

    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>> {
        publish::publish(self, plan, committed)
    }

    fn sift(
        &self,
        plan: &Plan,
        committed: &[Committed],
        retrace: &mut dyn Retrace,
    ) -> Result<bool> {
        self.sift_tables(plan, committed, retrace)
    }

    fn verified(&self) -> Proven {
        self.verification.proven()
    }

    fn explain(&self, error: Error) -> Error {
        publish::explained(self, error)
    }

    fn is_published(&self) -> Option<bool> {
        let Some(ledger) = self.ledger() else { return Some(false) };
        let is_known = ledger.is_published() == ledger.may_be_published();
        is_known.then(|| ledger.is_published())
    }

    fn strain(&self, plan: &Plan) -> Result<Strain> {
        match &plan.continuity.pause_when {
            Some(limits) => self.look_for_strain(plan, limits),
            None => Ok(Strain::default()),
        }
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        publish::abort(self, plan)
    }

    fn leave(&self, _: &Plan) {
        let Some(ledger) = self.ledger().filter(|ledger| ledger.begun() == Begun::Yes) else {
            return;
        };
        let left =
            self.locked_control(ledger).and_then(|mut session| runs::left(&mut session, ledger));
        if let Err(error) = left {
            tracing::warn!("the stop could not be recorded in the ledger: {error}");
        }
    }
}
