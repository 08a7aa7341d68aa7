//! A server that is connected to: what is asked of it while a load is planned, and of runs that have
//! been.

use std::sync::{Mutex, MutexGuard, OnceLock};

use fullbore_pgwire::{ConnectionOptions, Session, StoredConnection, quote_identifier};
use fullbore_read::error::Result;

use crate::error::{failed, refused};
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
    /// Gather statistics once the rows are published.
    pub analyze: bool,
    /// Files that other runs have appended are loaded all the same.
    pub loads_again: bool,
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
}

impl Server {
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
        let version = control.server_version_num();
        tracing::info!(to = options.redacted(), version, "connected");
        Ok(Self {
            options,
            settings,
            control: Mutex::new(control),
            first: OnceLock::new(),
            trusted: Trusted::default(),
            version,
            is_pooled,
            reading: Mutex::new(reading),
            kept,
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

    /// A further session that reads text as the others do.
    pub(crate) fn session_now(&self) -> Result<Session> {
        let mut session = timeouts::connect(&self.options).map_err(failed)?;
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
