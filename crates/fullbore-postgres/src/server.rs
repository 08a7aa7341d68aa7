//! A server that is connected to: what is asked of it while a load is planned, and of runs that have
//! been.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use fullbore_load::job::{Endpoint, EndpointPolicy};
use fullbore_pgwire::{ConnectionOptions, Session, StoredConnection, quote_identifier};
use fullbore_read::error::Result;
use fullbore_record::terms::Statistics;

use crate::endpoints::{Endpoints, Guard, server_of};
use crate::error::{failed, refuse, refused};
use crate::ledger::locks::{self, Backend};
use crate::ledger::trust::Trusted;
use crate::session_settings::{self, SessionSettings};
use crate::timeouts;

/// Settings of the destination that are the job's.
#[derive(Debug, Clone)]
pub struct Settings {
    pub tablespaces: Vec<String>,
    pub allow_publication: bool,
    /// Direct loads are allowed where `wal_level` is logical.
    pub skip_logical_decoding: bool,
    /// Who makes statistics of what is loaded.
    pub statistics: Statistics,
    /// Files that other runs have appended are loaded all the same.
    pub loads_again: bool,
    /// The addresses that streams connect to; without any, that of the connection.
    pub endpoints: Vec<Endpoint>,
    pub endpoint_policy: EndpointPolicy,
}

/// A PostgreSQL server, by the session that plans, prepares and publishes.
pub struct Server {
    pub(crate) options: ConnectionOptions,
    pub settings: Settings,
    pub(crate) control: Mutex<Session>,
    /// The session by which the load was planned.
    pub(crate) first: OnceLock<Backend>,
    /// Ledgers that were looked at.
    pub(crate) trusted: Trusted,
    pub(crate) version: u32,
    /// A pooler is in between: a session may be another client's the next moment.
    pub(crate) is_pooled: bool,
    /// How its sessions read text.
    pub(crate) reading: Mutex<SessionSettings>,
    /// The connection as it may be kept on disk.
    kept: StoredConnection,
    /// Where there are several ways to it, or one of its own for streams.
    pub(crate) endpoints: Option<Arc<Endpoints>>,
    guard: Option<Guard>,
    /// Which server the endpoints lead to; changes when it is started again.
    identity: Mutex<String>,
}

impl Settings {
    /// Whether there are to be statistics at all.
    pub fn makes_statistics(&self) -> bool {
        self.statistics != Statistics::None
    }
}

impl Server {
    /// Connects; the session is kept for the catalog and for publishing.
    pub fn connect(options: ConnectionOptions, settings: Settings) -> Result<Self> {
        let kept = options.kept();
        let endpoints = Endpoints::new(&settings.endpoints, settings.endpoint_policy, &options);
        let guard = match &endpoints {
            Some(endpoints) => Guard::start(endpoints)
                .map_err(|error| refuse(format!("no thread for endpoints: {error}"), ""))?,
            None => None,
        };
        let mut control =
            timeouts::connect(&by_any(endpoints.as_deref(), &options)).map_err(refused)?;
        let identity = match &endpoints {
            Some(_) => server_of(&mut control).map_err(refused)?,
            None => String::new(),
        };
        if let Some(guard) = &guard {
            guard.watch(&control, None);
        }
        session_settings::style(&mut control, &options).map_err(refused)?;
        let reading = SessionSettings::of(&mut control).map_err(refused)?;
        let is_pooled = locks::is_pooled(&mut control).map_err(refused)?;
        if !is_pooled {
            locks::unhurry(&mut control).map_err(refused)?;
        }
        let version = control.server_version_num();
        tracing::info!(to = options.redacted(), version, "connected");
        Ok(Self {
            options: by_any(None, &options),
            settings,
            control: Mutex::new(control),
            first: OnceLock::new(),
            trusted: Trusted::default(),
            version,
            is_pooled,
            reading: Mutex::new(reading),
            kept,
            endpoints,
            guard,
            identity: Mutex::new(identity),
        })
    }

    /// The server's version, as `server_version_num` has it.
    pub fn version(&self) -> u32 {
        self.version
    }

    pub fn options(&self) -> &ConnectionOptions {
        &self.options
    }

    /// The connection as it may be kept on disk.
    pub fn kept(&self) -> &StoredConnection {
        &self.kept
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Session> {
        self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The connection's options, with all ways that there are.
    pub(crate) fn ways(&self) -> ConnectionOptions {
        by_any(self.endpoints.as_deref(), &self.options)
    }

    /// A further session that reads text as the others do.
    pub(crate) fn session_now(&self) -> Result<Session> {
        let session = timeouts::connect(&self.ways()).map_err(failed)?;
        self.like_the_others(session, None)
    }

    /// The same by one of the endpoints; nothing is known of where that leads.
    pub(crate) fn session_by(&self, endpoints: &Endpoints, at: usize) -> Result<Session> {
        let mut options = endpoints.options(at).clone();
        timeouts::limit(&mut options);
        let session = timeouts::connect(&options).map_err(failed)?;
        self.like_the_others(session, Some(at))
    }

    /// Refuses a session whose endpoint leads to another server.
    pub(crate) fn check_identity(
        &self,
        session: &mut Session,
        endpoints: &Endpoints,
        at: usize,
    ) -> Result<()> {
        let known = || self.identity.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let there = server_of(session).map_err(failed)?;
        if there == *known() {
            return Ok(());
        }
        // Or was it started again? The session that was there before may have noticed.
        let by_control = server_of(&mut self.control()).ok();
        let now = match by_control {
            Some(now) => now,
            None => {
                let mut options = endpoints.base();
                timeouts::limit(&mut options);
                server_of(&mut timeouts::connect(&options).map_err(failed)?).map_err(failed)?
            }
        };
        *known() = now.clone();
        if there == now {
            return Ok(());
        }
        Err(refuse(
            format!(
                "endpoint {} leads to another server than {}",
                endpoints.name(at),
                self.options.redacted()
            ),
            "name addresses of one server with --endpoint; several servers are not loaded at once",
        ))
    }

    fn like_the_others(&self, session: Session, at: Option<usize>) -> Result<Session> {
        let mut session = session;
        if let Some(guard) = &self.guard {
            guard.watch(&session, at);
        }
        self.reading().apply(&mut session).map_err(failed)?;
        if !self.is_pooled {
            locks::unhurry(&mut session).map_err(failed)?;
        }
        Ok(session)
    }

    /// The tablespace clause for the n-th table of a run.
    pub(crate) fn tablespace(&self, number: usize) -> Result<String> {
        if self.settings.tablespaces.is_empty() {
            return Ok(String::new());
        }
        let name = &self.settings.tablespaces[number % self.settings.tablespaces.len()];
        Ok(format!(" TABLESPACE {}", quote_identifier(name).map_err(failed)?))
    }
}

/// The options of a session for which any way will do.
fn by_any(endpoints: Option<&Endpoints>, options: &ConnectionOptions) -> ConnectionOptions {
    let mut options = match endpoints {
        Some(endpoints) => endpoints.any(),
        None => options.clone(),
    };
    timeouts::limit(&mut options);
    options
}
