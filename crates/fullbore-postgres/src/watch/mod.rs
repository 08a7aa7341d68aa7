//! Watching the server while streams load: one more session, asked about ten times a second what our
//! backends wait for, and about once a second for counters.
//!
//! Only statistics views that every role may read are asked; what a role may not see of a view is
//! NULL and counts as nothing.

mod class;
pub mod sockets;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;
use fullbore_record::observe::host::process_cpu_ms;
use fullbore_record::observe::{ServerTimes, Settings, Wait, WaitClass, Watch};

use crate::error::failed;
use crate::local::backend_here;
use crate::place::place;
use crate::postgres::Postgres;
use crate::target::PostgresTable;
use crate::timeouts;

/// Settings that advice looks at.
const SETTINGS: [&str; 17] = [
    "archive_mode",
    "autovacuum",
    "checkpoint_timeout",
    "data_checksums",
    "fsync",
    "full_page_writes",
    "maintenance_work_mem",
    "max_connections",
    "max_wal_senders",
    "max_wal_size",
    "min_wal_size",
    "server_version_num",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_compression",
    "wal_level",
];

/// How long the server may take to answer. A load whose server is gone must not wait for its observer.
const PATIENCE: Duration = Duration::from_secs(5);

const BLOCKER_INTERVAL: Duration = Duration::from_secs(1);

/// A session that watches the backends of a run's streams.
pub struct PostgresWatch<'a> {
    postgres: &'a Postgres,
    session: Session,
    is_here: bool,
    /// The backend of this session, where it is on this machine.
    own_pid: Option<i32>,
    /// When it was last asked who blocks a backend.
    blocker_asked: Option<Instant>,
    /// CPU time of the server's processes when last looked at, and of all of them since the beginning.
    processes: BTreeMap<i32, u64>,
    cpu_ms: u64,
}

/// The backend that a stream's session has: asked for, since what a pooler says is not it.
pub fn backend_of(session: &mut Session) -> std::result::Result<i32, ConnectionError> {
    let rows = session.query("SELECT pg_backend_pid() AS pid")?;
    Ok(rows.first().and_then(|row| row.number("pid")).unwrap_or_default())
}

impl<'a> PostgresWatch<'a> {
    pub fn open(postgres: &'a Postgres) -> Result<Self> {
        let mut options = postgres.ways();
        let patience = options.connect_timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE));
        options.connect_timeout = Some(patience);
        let mut session = timeouts::connect(&options).map_err(failed)?;
        session.set_read_timeout(Some(PATIENCE));
        let own_pid = backend_here(&mut session).map_err(failed)?;
        Ok(Self {
            postgres,
            session,
            is_here: own_pid.is_some(),
            own_pid,
            blocker_asked: None,
            processes: BTreeMap::new(),
            cpu_ms: 0,
        })
    }
}

impl PostgresWatch<'_> {
    /// Who holds what a backend of ours waits for.
    fn blocker_of(&mut self, pid: i32) -> Result<Option<String>> {
        // It takes the lock manager's own locks: once a second is enough to know who it is.
        if self.blocker_asked.is_some_and(|asked| asked.elapsed() < BLOCKER_INTERVAL) {
            return Ok(None);
        }
        self.blocker_asked = Some(Instant::now());
        let sql = format!(
            "SELECT format('process %s, %s, %s, begun %s', pid, usename,
                           coalesce(nullif(application_name, ''), 'no application name'),
                           xact_start) AS blocker
               FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids({pid})) LIMIT 1"
        );
        let rows = self.session.query(&sql).map_err(failed)?;
        Ok(rows.first().and_then(|row| row.get("blocker")).map(str::to_owned))
    }

    /// Adds the CPU time that the server's own processes took since the last look. The sessions of
    /// others are not the server's work for us, and our streams' are counted with their moments.
    fn count_cpu(&mut self) -> Result<()> {
        let sql =
            "SELECT pid FROM pg_stat_get_activity(NULL) WHERE backend_type <> 'client backend'";
        let rows = self.session.query(sql).map_err(failed)?;
        let pids = rows.iter().filter_map(|row| row.number::<i32>("pid"));
        let now: BTreeMap<i32, u64> =
            pids.filter_map(|pid| Some((pid, process_cpu_ms(pid)?))).collect();
        for (pid, ms) in &now {
            // What it did before it was first seen is not counted.
            let before = self.processes.get(pid).unwrap_or(ms);
            self.cpu_ms += ms.saturating_sub(*before);
        }
        self.processes = now;
        Ok(())
    }
}

impl Watch for PostgresWatch<'_> {
    fn settings(&mut self) -> Result<Settings> {
        let names = SETTINGS.map(|name| format!("('{name}')")).join(", ");
        let sql = format!(
            "SELECT name, current_setting(name, true) AS value FROM (VALUES {names}) AS s (name)"
        );
        let rows = self.session.query(&sql).map_err(failed)?;
        let values = rows
            .iter()
            .filter_map(|row| Some((row.get("name")?.to_owned(), row.get("value")?.to_owned())));
        let values = values.collect();
        // A role that may not ask loses the names, not the settings.
        let place = if self.is_here { place(&mut self.session).ok().flatten() } else { None };
        let volumes = place.map(|place| place.volumes());
        let targets = self.postgres.targets();
        let has_one_session =
            !targets.is_empty() && targets.iter().all(PostgresTable::has_one_session);
        Ok(Settings { values, is_here: self.is_here, has_one_session, volumes })
    }

    fn waits(&mut self) -> Result<Vec<Wait>> {
        let streams = self.postgres.backends();
        if streams.is_empty() {
            return Ok(Vec::new());
        }
        // The function behind pg_stat_activity: the view adds names that cost ten times as much.
        let pids = streams.values().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT pid, wait_event_type AS kind, wait_event AS event
               FROM pg_stat_get_activity(NULL) WHERE pid IN ({pids})"
        );
        let rows = self.session.query(&sql).map_err(failed)?;
        let by_pid: BTreeMap<i32, usize> = streams.into_iter().map(|(n, pid)| (pid, n)).collect();
        let mut waits = Vec::new();
        for row in &rows {
            let Some(pid) = row.number("pid") else { continue };
            let Some(stream) = by_pid.get(&pid) else { continue };
            let (kind, event) = (row.get("kind"), row.get("event"));
            let class = class::of(kind, event);
            let name = kind.map(|kind| format!("{kind}:{}", event.unwrap_or_default()));
            waits.push(Wait {
                stream: *stream,
                class,
                name: name.unwrap_or_default(),
                blocker: match class {
                    WaitClass::Lock => self.blocker_of(pid)?,
                    _ => None,
                },
                local_pid: self.is_here.then_some(pid),
            });
        }
        Ok(waits)
    }

    fn counters(&mut self) -> Result<ServerTimes> {
        let version = self.postgres.version();
        let checkpoints = match version {
            170_000.. => {
                "SELECT num_timed AS timed, num_requested AS requested, buffers_written FROM pg_stat_checkpointer"
            }
            _ => {
                "SELECT checkpoints_timed AS timed, checkpoints_req AS requested, buffers_checkpoint + buffers_clean + buffers_backend AS buffers_written FROM pg_stat_bgwriter"
            }
        };
        // Of 16 and later all writers are known; before, blocks are counted, of the usual size.
        let written = match version {
            180_000.. => {
                "(SELECT sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) FROM pg_stat_io WHERE object = 'relation')"
            }
            160_000.. => {
                "(SELECT sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes) FROM pg_stat_io WHERE object = 'relation')"
            }
            _ => "buffers_written * 8192",
        };
        let new_log = match version {
            180_000.. => {
                "(SELECT sum(write_bytes) FROM pg_stat_io WHERE object = 'wal' AND context = 'init')"
            }
            _ => "0",
        };
        let sql = format!(
            "SELECT timed, requested, {written}::bigint AS written, {new_log}::bigint AS new_log,
                    (pg_current_wal_insert_lsn() - '0/0')::bigint AS wal
               FROM ({checkpoints}) c"
        );
        if self.is_here {
            self.count_cpu()?;
        }
        let rows = self.session.query(&sql).map_err(failed)?;
        let value = |name: &str| rows.first().and_then(|row| row.number(name)).unwrap_or_default();
        Ok(ServerTimes {
            wal_bytes: value("wal"),
            checkpoints_timed: value("timed"),
            checkpoints_requested: value("requested"),
            written_bytes: value("written"),
            new_log_bytes: value("new_log"),
            cpu_ms: self.cpu_ms,
            watch_cpu_ms: self.own_pid.and_then(process_cpu_ms).unwrap_or_default(),
        })
    }
}
