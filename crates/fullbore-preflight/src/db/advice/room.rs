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
            let why = self.where_it_is(&tablespace.name);
            self.note(&format!("tablespace {}", tablespace.name), value, why);
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
        let why = format!("in {}, on {}", place.data.path.display(), place.data.volume);
        self.note("free disk", size(place.data.free_bytes), why);
        if let (Some(own), Some(wal)) = (place.has_own_wal_device(), &place.wal) {
            let value = if own { "a device of its own" } else { "the data's device" };
            let why = if own {
                format!("good as it is: {}, {} free", wal.volume, size(wal.free_bytes))
            } else {
                format!(
                    "a WAL-logged load writes all data twice to {}; `initdb --waldir` or a symbolic \
                     link moves pg_wal to another device",
                    wal.volume
                )
            };
            self.note("write-ahead log", value, why);
        }
    }

    /// The volume of a tablespace, and what it is good for.
    fn where_it_is(&self, name: &str) -> String {
        let place = self.facts.place.as_ref();
        let found = place.and_then(|place| {
            let (_, folder) = place.tablespaces.iter().find(|(known, _)| known == name)?;
            Some((place, folder))
        });
        match found {
            Some((place, folder)) if folder.device == place.data.device => {
                format!("on {}, as the data: new tables there are no faster", folder.volume)
            }
            Some((place, folder)) => format!(
                "on {}: `fullbore preflight disk {} {}` measures it and the data's at once, \
                 --tablespaces spreads new tables",
                folder.volume,
                folder.path.display(),
                place.data.path.display()
            ),
            None => "--tablespaces A,B spreads new tables over several".into(),
        }
    }
}
