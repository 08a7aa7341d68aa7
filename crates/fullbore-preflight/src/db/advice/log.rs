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
                "rows of tables created in the same transaction are not WAL-logged",
            ),
            Some(_) => match self.log_readers().as_slice() {
                [] => self.change_all(
                    // Without the second the server would not start.
                    &[("wal_level", "minimal"), ("max_wal_senders", "0")],
                    "rows of tables created in the same transaction (replace, partitions) are then \
                     not WAL-logged",
                    "no standbys or online backups until it is reverted, and earlier backups can't \
                     be rolled forward past the load: make a new backup afterwards",
                ),
                readers => {
                    let why = format!(
                        "{} need it: all rows of the load are WAL-logged",
                        readers.join(", ")
                    );
                    self.keep("wal_level", &why);
                }
            },
            None => {}
        }
    }

    pub(super) fn archive(&mut self) {
        let why = match self.value("archive_mode") {
            Some("off") | None => "good as it is",
            Some(_) => "all WAL of the load goes to the archive: check its space and speed",
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
            "a checkpoint starts whenever this much WAL is written, and the next change of each \
             page is then logged as a full page",
            "this much disk space in pg_wal, and a longer recovery after a crash",
        );
        self.at_least(
            "min_wal_size",
            (advised / 16.0).floor(),
            &text(advised / 8.0),
            "WAL segments kept for reuse need not be filled with zeros first",
            "this much disk space in pg_wal permanently",
        );
    }

    pub(super) fn checkpoints(&mut self) {
        self.at_least(
            "checkpoint_timeout",
            900.0,
            "30min",
            "after each checkpoint, the next change of each page is logged as a full page",
            "a longer recovery after a crash",
        );
    }
}
