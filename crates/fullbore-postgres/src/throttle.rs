//! What `--pause-when` asks of a server: how far replicas, slots and the archive are behind, and what is
//! free on the disks that can be seen from here.
//!
//! A replica's lag is the time since the server's log was at the replica's position. The server's
//! `replay_lag` is updated only when the replica reports, and not at all while it is idle.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fullbore_load::job::PauseWhen;
use fullbore_load::plan::Plan;
use fullbore_load::sink::Overload;
use fullbore_pgwire::{Row, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_server::tuning::free_bytes;

use crate::error::{failed_while, refuse};
use crate::ledger::locks;
use crate::postgres::Postgres;
use crate::server::Server;
use crate::throttle_memory::ThrottleMemory;

/// Places of the log that are remembered, a second apart at first. When they are so many every other
/// one goes, so that the first one stays: a lag may be of any length.
const PLACES_MAX: usize = 3600;

/// The end of the log, then how far each replica has replayed it and from where each slot retains it.
const STATE: &str = "
    WITH now AS MATERIALIZED (SELECT pg_current_wal_lsn() AS log)
    SELECT 'log' AS kind, NULL AS name, pg_wal_lsn_diff(log, '0/0') AS place FROM now
    UNION ALL
    SELECT 'replica', coalesce(nullif(application_name, ''), host(client_addr), 'process ' || pid),
           pg_wal_lsn_diff(replay_lsn, '0/0')
      FROM pg_stat_replication WHERE replay_lsn IS NOT NULL
    UNION ALL
    SELECT slot_type, slot_name, pg_wal_lsn_diff(restart_lsn, '0/0')
      FROM pg_replication_slots WHERE restart_lsn IS NOT NULL
     ORDER BY 1, 2";

const ARCHIVE: &str =
    "SELECT count(*) AS n FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'";

/// Folders that rows and log are written to.
const FOLDERS: &str = "
    SELECT setting AS folder FROM pg_settings WHERE name = 'data_directory'
    UNION ALL
    SELECT setting || '/pg_wal' FROM pg_settings WHERE name = 'data_directory'
    UNION ALL
    SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE pg_tablespace_location(oid) <> ''";

impl Server {
    /// Refuses limits that this role could not see passed. Nothing is touched.
    pub fn check_limits(&self, limits: &PauseWhen) -> Result<()> {
        let sees_all = limits.replica_lag.is_some() || limits.archive_backlog.is_some();
        let mut session = self.control();
        let asked =
            session.query("SELECT pg_has_role('pg_monitor', 'USAGE') AS may, current_user AS role");
        let rows = asked.map_err(|error| failed_while(error, "--pause-when"))?;
        let is = |name: &str| rows.first().is_some_and(|row| row.flag(name));
        if sees_all && !is("may") {
            let role = rows.first().and_then(|row| row.get("role")).unwrap_or("?").to_owned();
            return Err(refuse(
                format!(
                    "--pause-when: role {role} lacks the privileges of pg_monitor to see \
                     replication and archive lag"
                ),
                format!("as a superuser: GRANT pg_monitor TO \"{role}\""),
            ));
        }
        if limits.free_disk.is_some() && self.options().is_this_machine() {
            let seen = session.query(FOLDERS).map_err(|e| failed_while(e, "--pause-when"))?;
            if seen.is_empty() {
                let role = rows.first().and_then(|row| row.get("role")).unwrap_or("?").to_owned();
                return Err(refuse(
                    format!(
                        "--pause-when: role {role} lacks privilege to see the server's data \
                         directory"
                    ),
                    format!("as a superuser: GRANT pg_read_all_settings TO \"{role}\""),
                ));
            }
        }
        Ok(())
    }
}

impl Postgres {
    /// The limits that are exceeded.
    pub(crate) fn look_for_overload(&self, plan: &Plan, limits: &PauseWhen) -> Result<Overload> {
        let mut watch =
            self.throttle_memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let looked = watch.look(self, plan, limits);
        if looked.is_err() {
            watch.session = None;
        }
        looked
    }
}

impl ThrottleMemory {
    fn look(&mut self, postgres: &Postgres, plan: &Plan, limits: &PauseWhen) -> Result<Overload> {
        let mut passed = Vec::new();
        let mut needs_commits = false;
        if let Some(least) = limits.free_disk {
            passed.extend(full(&plan.run_dir, least, "of this machine"));
            passed.extend(full(&plan.reject_dir, least, "of this machine"));
        }
        let doing = |error| failed_while(error, "asking for what --pause-when is about");
        let session = match &mut self.session {
            Some(session) => session,
            None => {
                let mut session = postgres.session_now()?;
                locks::settle(&mut session, None).map_err(doing)?;
                self.session.insert(session)
            }
        };
        if limits.replica_lag.is_some() || limits.slot_backlog.is_some() {
            let rows = session.query(STATE).map_err(doing)?;
            let (words, of_decoding) = behind(&mut self.places, &rows, limits)?;
            passed.extend(words);
            needs_commits = of_decoding;
        }
        if let Some(most) = limits.archive_backlog {
            let rows = session.query(ARCHIVE).map_err(doing)?;
            let waiting: u64 =
                rows.first().and_then(|row| row.number("n")).ok_or_else(no_answer)?;
            if waiting > most {
                passed.push(format!("{waiting} WAL segments wait for the archive (limit {most})"));
            }
        }
        if let Some(least) = limits.free_disk {
            // Its disk can be seen without it; whether it is there at all, nobody else looks meanwhile.
            session.execute("SELECT").map_err(doing)?;
            if self.folders.is_none() {
                self.folders = Some(folders_here(postgres, session));
            }
            for folder in self.folders.iter().flatten() {
                passed.extend(full(folder, least, "of the server"));
            }
        }
        passed.sort();
        passed.dedup();
        Ok(Overload { reasons: passed, needs_commits })
    }
}

fn no_answer() -> Error {
    Error::Destination {
        message: "the server did not report its WAL position".into(),
        hint: None,
        kind: DestinationFailure::Other,
    }
}

fn remember(places: &mut VecDeque<(Instant, u64)>, now: Instant, log: u64) {
    places.push_back((now, log));
    if places.len() > PLACES_MAX {
        let mut is_kept = false;
        places.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }
}

/// Replicas and slots that are too far behind, in words; whether a slot of logical decoding is among them,
/// which retains all log since the oldest transaction that is open: ours, perhaps.
fn behind(
    places: &mut VecDeque<(Instant, u64)>,
    rows: &[Row],
    limits: &PauseWhen,
) -> Result<(Vec<String>, bool)> {
    let kind = |row: &Row| row.get("kind").unwrap_or_default().to_owned();
    let end = rows.iter().find(|row| kind(row) == "log").and_then(|row| row.number("place"));
    let (end, now) = (end.ok_or_else(no_answer)?, Instant::now());
    remember(places, now, end);
    let (mut passed, mut of_decoding) = (Vec::new(), false);
    for row in rows {
        let name = row.get("name").unwrap_or_default();
        let Some(place) = row.number("place") else { continue };
        match (kind(row).as_str(), limits.replica_lag, limits.slot_backlog) {
            ("replica", Some(most), _) => {
                // The first place that it has not reached: it is behind since then.
                let since = places.iter().find(|(_, known)| *known > place).map(|(at, _)| *at);
                let lag = since.map_or_else(Default::default, |at| now.duration_since(at));
                if lag > most {
                    passed.push(format!(
                        "replica {name:?} is {:.1} s behind (limit {:.1} s)",
                        lag.as_secs_f64(),
                        most.as_secs_f64()
                    ));
                }
            }
            (kind @ ("physical" | "logical"), _, Some(most)) => {
                let kept = end.saturating_sub(place);
                if kept > most {
                    of_decoding |= kind == "logical";
                    passed.push(format!(
                        "slot {name:?} retains {} (limit {})",
                        size(kept),
                        size(most)
                    ));
                }
            }
            _ => {}
        }
    }
    Ok((passed, of_decoding))
}

/// A size of three digits or more: `105 MB`, `1.05 GB`.
fn size(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| bytes as f64 >= *unit).unwrap_or((1.0, "B"));
    let number = bytes as f64 / unit;
    let digits = match number {
        _ if number.fract() == 0.0 => 0,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {name}")
}

/// What is wrong with a folder's disk, if it can be seen and has too little room.
fn full(folder: &Path, least: u64, whose: &str) -> Option<String> {
    let free = free_bytes(folder)?;
    (free < least).then(|| {
        format!(
            "the disk {whose} that holds {} has {} free (limit {})",
            folder.display(),
            size(free),
            size(least)
        )
    })
}

/// The server's folders, where it is this machine that has them.
fn folders_here(postgres: &Postgres, session: &mut Session) -> Vec<PathBuf> {
    if !postgres.options().is_this_machine() {
        return Vec::new();
    }
    let rows = session.query(FOLDERS).unwrap_or_default();
    let folders: Vec<PathBuf> =
        rows.iter().filter_map(|row| row.get("folder").map(PathBuf::from)).collect();
    folders.into_iter().filter(|folder| free_bytes(folder).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, words) in [
            (5, "5 B"),
            (1_024, "1.02 kB"),
            (104_857_600, "105 MB"),
            (100_000_000, "100 MB"),
            (10_485_760, "10.5 MB"),
            (20_000_000_000, "20 GB"),
        ] {
            assert_eq!(size(bytes), words);
        }
    }

    #[test]
    fn a_lag_of_many_hours_is_measured() {
        let (mut places, began) = (VecDeque::new(), Instant::now());
        for second in 0..50_000_u64 {
            remember(&mut places, began + Duration::from_secs(second), second * 16);
            assert!(places.len() <= PLACES_MAX);
        }
        assert_eq!(places.front(), Some(&(began, 0)));
        assert!(places.iter().is_sorted());
        // What is recent is known to the second or so, what is old to the minute.
        let (last, _) = places[places.len() - 2];
        assert!(last >= began + Duration::from_secs(49_990));
    }
}
