//! What a server is asked about itself.

use std::collections::BTreeMap;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_postgres::direct::check::{self, Missing};
use fullbore_postgres::place::{Place, place};
use serde::Serialize;

/// Settings that matter to a load; those that a version does not have are left out.
const SETTINGS: &str = "'wal_level', 'max_wal_size', 'min_wal_size', 'checkpoint_timeout',
    'shared_buffers', 'maintenance_work_mem', 'synchronous_commit', 'synchronous_standby_names',
    'full_page_writes', 'fsync', 'data_checksums', 'archive_mode', 'max_connections',
    'superuser_reserved_connections', 'reserved_connections', 'autovacuum', 'max_wal_senders',
    'max_locks_per_transaction', 'wal_buffers', 'summarize_wal', 'max_parallel_maintenance_workers'";

/// Nobody's function or table is to stand in for the server's.
const ONLY_THE_SERVERS: &str = "SET LOCAL search_path = pg_catalog, pg_temp";

/// A setting in effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// As SHOW prints it.
    pub value: String,
    /// In bytes or seconds, where it is of those; the plain number where it is one.
    pub number: Option<f64>,
    /// When a change takes effect: `postmaster` at the next start, `sighup` when told to reload ...
    pub context: String,
    /// Where it was set: `default`, `configuration file`, `command line` ...
    pub source: String,
    /// The file that it is from, where the role may know that.
    pub file: Option<String>,
    /// Another value is written down and waits for a restart.
    pub pending_restart: bool,
}

/// A tablespace, with its size where that may be known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tablespace {
    pub name: String,
    pub bytes: Option<u64>,
}

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Facts {
    pub target: String,
    pub version: String,
    pub version_num: u32,
    pub database: String,
    pub role: String,
    pub is_superuser: bool,
    pub is_standby: bool,
    /// Somebody is between us and the server.
    pub is_pooled: bool,
    pub settings: BTreeMap<String, Setting>,
    /// Standbys that stream just now, and slots that wait for somebody; `None`: the role may not know.
    pub standbys: Option<u64>,
    pub slots: Option<u64>,
    /// Sessions of all databases.
    pub sessions: u64,
    pub tablespaces: Vec<Tablespace>,
    /// What direct loads lack, with the remedy; empty where they can be done.
    pub direct_lacks: Vec<Missing>,
    /// Where its files are, if that is this machine.
    pub place: Option<Place>,
}

/// Collects them; nothing is touched, nor left on the session: it may be one that a pooler lends to
/// others.
pub fn facts(session: &mut Session) -> Result<Facts, ConnectionError> {
    session.execute("BEGIN READ ONLY")?;
    let facts = session.execute(ONLY_THE_SERVERS).and_then(|_| collected(session));
    session.execute("ROLLBACK")?;
    facts
}

fn collected(session: &mut Session) -> Result<Facts, ConnectionError> {
    let mut facts = Facts {
        target: session.target().to_owned(),
        version_num: session.server_version_num(),
        ..Facts::default()
    };
    let backend_pid = session.backend_pid().to_string();
    for row in session.query(
        "SELECT current_setting('server_version') AS version, current_database() AS database,
                current_user AS role, pg_is_in_recovery() AS is_standby,
                pg_backend_pid() AS pid, (SELECT rolsuper FROM pg_roles
                  WHERE rolname = current_user) AS is_superuser,
                (SELECT sum(numbackends) FROM pg_stat_database) AS sessions,
                CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE')
                     THEN (SELECT count(*) FROM pg_stat_replication) END AS standbys,
                (SELECT count(*) FROM pg_replication_slots) AS slots",
    )? {
        facts.version = row.text("version");
        facts.database = row.text("database");
        facts.role = row.text("role");
        facts.is_superuser = row.flag("is_superuser");
        facts.is_standby = row.flag("is_standby");
        // A pooler tells its own number for the process that serves us.
        facts.is_pooled = row.get("pid") != Some(&backend_pid);
        facts.sessions = row.number("sessions").unwrap_or(0);
        facts.standbys = row.number("standbys");
        facts.slots = row.number("slots");
    }
    facts.settings = settings(session)?;
    facts.tablespaces = session
        .query(
            "SELECT spcname AS name,
                    CASE WHEN has_tablespace_privilege(oid, 'CREATE')
                           OR pg_has_role('pg_read_all_stats', 'USAGE')
                         THEN pg_tablespace_size(oid) END AS bytes
               FROM pg_tablespace WHERE spcname <> 'pg_global' ORDER BY spcname",
        )?
        .iter()
        .map(|row| Tablespace { name: row.text("name"), bytes: row.number("bytes") })
        .collect();
    facts.direct_lacks = check::missing(session)?;
    facts.place = place(session)?;
    Ok(facts)
}

fn settings(session: &mut Session) -> Result<BTreeMap<String, Setting>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT name, current_setting(name) AS value, setting, unit, context, source,
                sourcefile, pending_restart
           FROM pg_settings WHERE name IN ({SETTINGS})"
    ))?;
    Ok(rows
        .iter()
        .map(|row| {
            let setting = Setting {
                value: row.text("value"),
                number: row.get("setting").and_then(|text| in_units(text, row.get("unit"))),
                context: row.text("context"),
                source: row.text("source"),
                file: row.get("sourcefile").map(str::to_owned),
                pending_restart: row.flag("pending_restart"),
            };
            (row.text("name"), setting)
        })
        .collect())
}

/// A setting's number in bytes or seconds: units are like `8kB`, `MB`, `ms`.
fn in_units(setting: &str, unit: Option<&str>) -> Option<f64> {
    let number: f64 = setting.parse().ok()?;
    let unit = unit.unwrap_or_default();
    let digits = unit.find(|c: char| !c.is_ascii_digit()).unwrap_or(unit.len());
    let count: f64 = unit[..digits].parse().unwrap_or(1.0);
    let scale = match &unit[digits..] {
        "" | "B" | "s" => 1.0,
        "kB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Some(number * count * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(in_units("16384", Some("8kB")), Some(134_217_728.0));
        assert_eq!(in_units("1024", Some("MB")), Some(1_073_741_824.0));
        assert_eq!(in_units("300", Some("s")), Some(300.0));
        assert_eq!(in_units("5", Some("min")), Some(300.0));
        assert_eq!(in_units("100", None), Some(100.0));
        assert_eq!(in_units("on", None), None);
        assert_eq!(in_units("1", Some("parsecs")), None);
    }
}
