//! The write-ahead log: how much of a load is logged, who reads it, and how often checkpoints occur.

use super::lines::Lines;
use super::{GIB, MIB};

impl Lines<'_> {
    /// Whether somebody lives on the log: a standby, a slot, an archive.
    fn log_readers(&self) -> Vec<&'static str> {
        let facts = self.facts;
        let mut readers = Vec::new();
        if facts.standbys.is_none() || facts.standbys > Some(0) {
            readers.push(if facts.standbys.is_some() { "standbys" } else { "maybe standbys" });
        }
        if facts.slots > Some(0) {
            readers.push("replication slots");
        }
        if self.value("archive_mode").is_some_and(|mode| mode != "off") {
            readers.push("the archive");
        }
        if self.value("summarize_wal") == Some("on") {
            readers.push("incremental backups (summarize_wal)");
        }
        readers
    }

    pub(super) fn wal_level(&mut self) {
        match self.value("wal_level") {
            Some("minimal") => self.keep(
                "wal_level",
                "rows of tables that are new in their transaction are not logged at all",
            ),
            Some(_) => match self.log_readers().as_slice() {
                [] => self.change_all(
                    // Without the second the server would not start.
                    &[("wal_level", "minimal"), ("max_wal_senders", "0")],
                    "rows of tables that are new in their transaction (replace, partitions) are not \
                     logged then",
                    "no standby and no online backup until it is back, and a backup made before \
                     can't be rolled forward past the load: make a new one afterwards",
                ),
                readers => {
                    let why = format!("{} need it: the load is logged in full", readers.join(", "));
                    self.keep("wal_level", &why);
                }
            },
            None => {}
        }
    }

    pub(super) fn archive(&mut self) {
        let why = match self.value("archive_mode") {
            Some("off") | None => "good as it is",
            Some(_) => {
                "all of the load goes to the archive: see that it has the room and is as fast"
            }
        };
        self.keep("archive_mode", why);
    }

    pub(super) fn wal_size(&mut self) {
        let room = self
            .facts
            .place
            .as_ref()
            .map(|place| place.wal.as_ref().unwrap_or(&place.data).free_bytes as f64);
        // A full disk under the log stops the server: a tenth of what is free, 16 GB at the most.
        let advised = room.map_or(16.0 * GIB, |room| (room / 10.0).clamp(GIB, 16.0 * GIB));
        let text = |bytes: f64| format!("{}MB", (bytes / MIB) as u64);
        self.at_least(
            "max_wal_size",
            (advised / 2.0).floor(),
            &text(advised),
            "each time that so much is logged a checkpoint begins, and after it each changed page \
             is logged whole again",
            "so much disk under pg_wal, and a longer recovery after a crash",
        );
        self.at_least(
            "min_wal_size",
            (advised / 16.0).floor(),
            &text(advised / 8.0),
            "files of the log that are kept for use again need not be filled with zeros first",
            "so much disk under pg_wal for good",
        );
    }

    pub(super) fn checkpoints(&mut self) {
        self.at_least(
            "checkpoint_timeout",
            900.0,
            "30min",
            "each checkpoint makes the next change of every page log it whole",
            "a longer recovery after a crash",
        );
    }
}
