//! Room for a load: memory, sessions, and disks.

use super::MIB;
use super::lines::Lines;

impl Lines<'_> {
    pub(super) fn memory(&mut self) {
        self.at_least(
            "shared_buffers",
            512.0 * MIB,
            "2GB",
            "COPY needs little, but the indexes that are kept up to date need more; a quarter of the \
             machine's memory at the most",
            "memory, for as long as the server runs",
        );
        self.at_least(
            "maintenance_work_mem",
            256.0 * MIB,
            "1GB",
            "memory for each sort when indexes are built",
            "this much memory per concurrent index build and per autovacuum worker",
        );
        self.at_least(
            "max_locks_per_transaction",
            256.0,
            "256",
            "partitions are published in one transaction, with locks on each of them and their indexes",
            &self.price_of_more("a few MB of shared memory"),
        );
    }

    /// A standby that has less than its primary of what transactions are counted by stops.
    fn price_of_more(&self, price: &str) -> String {
        match self.facts.standbys {
            Some(0) => price.into(),
            _ => format!("{price}; raise it on the standbys first and restart them, or they stop"),
        }
    }

    pub(super) fn sessions(&mut self) {
        let reserved = self.number("superuser_reserved_connections").unwrap_or(0.0)
            + self.number("reserved_connections").unwrap_or(0.0);
        let Some(most) = self.number("max_connections") else { return };
        let free = most - reserved - self.facts.sessions as f64;
        if free < 16.0 {
            let advised = format!("{}", (most + 32.0) as u64);
            let why = format!("{} session(s) are free, and each stream takes one", free.max(0.0));
            let price = self.price_of_more("a few MB of memory");
            self.change("max_connections", &advised, why, &price);
        } else {
            self.keep("max_connections", &format!("{free} sessions are free"));
        }
    }

    pub(super) fn places(&mut self) {
        let size = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        for tablespace in &self.facts.tablespaces.clone() {
            let value = tablespace.bytes.map_or("size unknown".into(), size);
            self.note(
                &format!("tablespace {}", tablespace.name),
                value,
                "--tablespaces A,B spreads new tables over several",
            );
        }
        let Some(place) = self.facts.place.clone() else {
            self.note(
                "free disk",
                "not known",
                "the server is on another machine, or the role lacks privilege to see its data \
                 directory",
            );
            return;
        };
        let why = format!("in {}", place.data.path.display());
        self.note("free disk", size(place.data.free_bytes), why);
        if let (Some(own), Some(wal)) = (place.has_own_wal_device(), &place.wal) {
            let value = if own { "a device of its own" } else { "the data's device" };
            let why = if own {
                format!("good as it is; {} free there", size(wal.free_bytes))
            } else {
                "a WAL-logged load writes all data twice to this device; `initdb --waldir` or a \
                 symbolic link moves pg_wal to another"
                    .to_owned()
            };
            self.note("write-ahead log", value, why);
        }
    }
}
