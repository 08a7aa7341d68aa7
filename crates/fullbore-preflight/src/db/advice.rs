//! What to set before a load, and what to leave alone. Pure: facts in, lines out.
//!
//! Nothing is ever advised that could lose what a finished load reported.

use serde::Serialize;

use super::ask::Facts;

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    Nothing,
    Reload,
    Restart,
}

/// One setting: in effect, advised, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub setting: String,
    pub value: String,
    /// `None`: it is good as it is, or nothing can be done about it.
    pub advised: Option<String>,
    pub why: String,
    /// What it costs later.
    pub price: Option<String>,
    /// The statement to set it, and the one to go back.
    pub set: Option<String>,
    pub undo: Option<String>,
    pub needs: Needs,
}

/// All lines, in the order of the way of a load: the log, memory, sessions, files, what is in between.
pub fn advise(facts: &Facts) -> Vec<Line> {
    let mut lines = Lines { facts, lines: Vec::new() };
    lines.version();
    lines.between();
    lines.extension();
    lines.wal_level();
    lines.archive();
    lines.wal_size();
    lines.checkpoints();
    lines.durability();
    lines.memory();
    lines.sessions();
    lines.autovacuum();
    lines.places();
    lines.lines
}

struct Lines<'a> {
    facts: &'a Facts,
    lines: Vec<Line>,
}

impl Lines<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.facts.settings.get(name).map(|setting| setting.value.as_str())
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.facts.settings.get(name)?.number
    }

    /// Something that is known but is no setting, or that stays as it is.
    fn note(&mut self, setting: &str, value: impl Into<String>, why: impl Into<String>) {
        self.lines.push(Line {
            setting: setting.into(),
            value: value.into(),
            advised: None,
            why: why.into(),
            price: None,
            set: None,
            undo: None,
            needs: Needs::Nothing,
        });
    }

    /// A setting that stays as it is, if the server has it.
    fn keep(&mut self, name: &str, why: &str) {
        if let Some(value) = self.value(name).map(str::to_owned) {
            self.note(name, value, why);
        }
    }

    fn change(&mut self, name: &str, advised: &str, why: impl Into<String>, price: &str) {
        let Some(setting) = self.facts.settings.get(name) else { return };
        let needs = match setting.context.as_str() {
            "postmaster" => Needs::Restart,
            "sighup" => Needs::Reload,
            _ => Needs::Nothing,
        };
        let after =
            if needs == Needs::Restart { " (then restart)" } else { "; SELECT pg_reload_conf()" };
        let quoted = |value: &str| value.replace('\'', "''");
        let undo = match setting.source.as_str() {
            "default" => format!("ALTER SYSTEM RESET {name}{after}"),
            _ => format!("ALTER SYSTEM SET {name} = '{}'{after}", quoted(&setting.value)),
        };
        let line = Line {
            setting: name.into(),
            value: setting.value.clone(),
            advised: Some(advised.into()),
            why: why.into(),
            price: Some(price.into()),
            set: Some(format!("ALTER SYSTEM SET {name} = '{}'{after}", quoted(advised))),
            undo: Some(undo),
            needs,
        };
        self.lines.push(line);
    }

    fn at_least(&mut self, name: &str, least: f64, advised: &str, why: &str, price: &str) {
        match self.number(name) {
            Some(number) if number < least => self.change(name, advised, why, price),
            _ => self.keep(name, "large enough"),
        }
    }

    fn version(&mut self) {
        let why = match self.facts.version_num / 10_000 {
            0..14 => "Fullbore knows 14 to 18",
            14..16 => {
                "from 16 on several sessions fill one table without waiting for each other at its \
                 end; here load by partitions, each session into a table of its own"
            }
            16 => "from 17 on COPY skips bad rows by itself, so that files with many load faster",
            _ => "good as it is",
        };
        self.note("version", self.facts.version.clone(), why);
        if self.facts.is_standby {
            self.note("standby", "yes", "nothing can be loaded into a standby: give its primary");
        }
    }

    fn between(&mut self) {
        let (value, why) = if self.facts.is_pooled {
            ("a pooler", "connect to the server itself: through a pooler a load can't be resumed")
        } else {
            ("nothing", "good as it is")
        };
        self.note("in between", value, why);
    }

    fn extension(&mut self) {
        if self.facts.direct_lacks.is_empty() {
            self.note("extension fullbore", "there", "direct loads can be done");
        }
        for (what, remedy) in &self.facts.direct_lacks.clone() {
            self.lines.push(Line {
                setting: "extension fullbore".into(),
                value: what.clone(),
                advised: Some("there".into()),
                why: "by the direct method a load costs the server a fraction of COPY's CPU".into(),
                price: Some("a library in the server, and nothing where it is not called".into()),
                set: Some(remedy.clone()),
                undo: Some("DROP EXTENSION fullbore".into()),
                needs: Needs::Nothing,
            });
        }
    }

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
        readers
    }

    fn wal_level(&mut self) {
        match self.value("wal_level") {
            Some("minimal") => self.keep(
                "wal_level",
                "rows of tables that are new in their transaction are not logged at all",
            ),
            Some(_) => match self.log_readers().as_slice() {
                [] => self.change(
                    "wal_level",
                    "minimal",
                    "rows of tables that are new in their transaction (replace, partitions) are not \
                     logged then; it needs max_wal_senders = 0 too",
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

    fn archive(&mut self) {
        let why = match self.value("archive_mode") {
            Some("off") | None => "good as it is",
            Some(_) => {
                "all of the load goes to the archive: see that it has the room and is as fast"
            }
        };
        self.keep("archive_mode", why);
    }

    fn wal_size(&mut self) {
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

    fn checkpoints(&mut self) {
        self.at_least(
            "checkpoint_timeout",
            900.0,
            "30min",
            "each checkpoint makes the next change of every page log it whole",
            "a longer recovery after a crash",
        );
    }

    fn durability(&mut self) {
        let waits = self.value("synchronous_standby_names").is_some_and(|names| !names.is_empty());
        let why = if waits {
            "the last commit of a load waits for the standbys that are named in \
             synchronous_standby_names; all before it do not wait"
        } else {
            "good as it is: pieces don't wait for it, the commit that shows the rows does"
        };
        self.keep("synchronous_commit", why);
        self.keep(
            "full_page_writes",
            match self.value("full_page_writes") {
                Some("off") => "on a file system that can tear pages a crash destroys data",
                _ => "leave it on: without it a crash can destroy data",
            },
        );
        match self.value("fsync") {
            Some("off") => self.change(
                "fsync",
                "on",
                "a crash of the machine destroys the whole cluster, however well the load went",
                "commits wait for the disk",
            ),
            _ => self.keep("fsync", "leave it on"),
        }
        let why = match self.value("data_checksums") {
            Some("on") => "leave them on: they cost a load less than 0.1 CPU seconds a GB",
            _ => {
                "damage by disks goes unnoticed; `pg_checksums --enable` on a stopped server adds them"
            }
        };
        self.keep("data_checksums", why);
    }

    fn memory(&mut self) {
        self.at_least(
            "shared_buffers",
            512.0 * MIB,
            "2GB",
            "COPY needs little, but the indexes that are kept beside it need more; a quarter of the \
             machine's memory at the most",
            "memory, for as long as the server runs",
        );
        self.at_least(
            "maintenance_work_mem",
            256.0 * MIB,
            "1GB",
            "indexes are sorted in so much at a time",
            "so much memory for each index that is built at a time, and for each worker of autovacuum",
        );
        self.at_least(
            "max_locks_per_transaction",
            256.0,
            "256",
            "partitions are shown in one transaction, with locks on each of them and their indexes",
            "a few MB of shared memory",
        );
    }

    fn sessions(&mut self) {
        let reserved = self.number("superuser_reserved_connections").unwrap_or(0.0)
            + self.number("reserved_connections").unwrap_or(0.0);
        let Some(most) = self.number("max_connections") else { return };
        let free = most - reserved - self.facts.sessions as f64;
        if free < 16.0 {
            let advised = format!("{}", (most + 32.0) as u64);
            let why = format!("{} session(s) are free, and each stream takes one", free.max(0.0));
            self.change("max_connections", &advised, why, "a few MB of memory");
        } else {
            self.keep("max_connections", &format!("{free} sessions are free"));
        }
    }

    fn autovacuum(&mut self) {
        self.keep(
            "autovacuum",
            "leave it on: a load gathers statistics itself, and new tables are not in its way",
        );
    }

    fn places(&mut self) {
        let size = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        for tablespace in &self.facts.tablespaces.clone() {
            let value = tablespace.bytes.map_or("size not told".into(), size);
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
                "the server is on another machine, or the role may not see where its files are",
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
                "a load that is logged writes everything twice to one device; `initdb --waldir` or a \
                 link in its place puts the log elsewhere"
                    .to_owned()
            };
            self.note("write-ahead log", value, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::Setting;
    use super::*;

    fn setting(value: &str, number: Option<f64>, context: &str, source: &str) -> Setting {
        Setting {
            value: value.into(),
            number,
            context: context.into(),
            source: source.into(),
            pending_restart: false,
        }
    }

    /// A server as it comes out of initdb.
    fn fresh() -> Facts {
        let of = |value: &str, number: f64, context: &str| {
            setting(value, Some(number), context, "default")
        };
        let settings = [
            ("wal_level", setting("replica", None, "postmaster", "default")),
            ("archive_mode", setting("off", None, "postmaster", "default")),
            ("max_wal_size", of("1GB", GIB, "sighup")),
            ("min_wal_size", of("80MB", 80.0 * MIB, "sighup")),
            ("checkpoint_timeout", of("5min", 300.0, "sighup")),
            ("shared_buffers", of("128MB", 128.0 * MIB, "postmaster")),
            ("maintenance_work_mem", of("64MB", 64.0 * MIB, "user")),
            ("max_connections", of("100", 100.0, "postmaster")),
            ("fsync", setting("on", None, "sighup", "default")),
        ];
        let settings = settings.map(|(name, setting)| (name.to_owned(), setting)).into();
        let counts = (Some(0), Some(0));
        Facts {
            version_num: 180_006,
            settings,
            standbys: counts.0,
            slots: counts.1,
            ..Facts::default()
        }
    }

    fn line<'a>(lines: &'a [Line], name: &str) -> &'a Line {
        lines
            .iter()
            .find(|line| line.setting == name)
            .unwrap_or_else(|| panic!("{name}: {lines:?}"))
    }

    #[test]
    fn a_fresh_server_is_told_of_its_log() {
        let lines = advise(&fresh());
        let wal = line(&lines, "wal_level");
        assert_eq!(wal.advised.as_deref(), Some("minimal"));
        assert_eq!(wal.needs, Needs::Restart);
        assert_eq!(wal.undo.as_deref(), Some("ALTER SYSTEM RESET wal_level (then restart)"));
        assert!(wal.price.as_ref().expect("a price").contains("backup"));
        assert_eq!(line(&lines, "max_wal_size").advised.as_deref(), Some("16384MB"));
        assert_eq!(line(&lines, "checkpoint_timeout").needs, Needs::Reload);
        assert_eq!(line(&lines, "fsync").advised, None);
        assert_eq!(line(&lines, "max_connections").advised, None);
    }

    #[test]
    fn who_lives_on_the_log_keeps_it() {
        let mut archived = fresh();
        archived
            .settings
            .insert("archive_mode".into(), setting("on", None, "postmaster", "default"));
        let unknown = Facts { standbys: None, ..fresh() };
        for (facts, who) in [
            (archived, "the archive"),
            (Facts { standbys: Some(1), ..fresh() }, "standbys"),
            (Facts { slots: Some(1), ..fresh() }, "replication slots"),
            (unknown, "maybe standbys"),
        ] {
            let lines = advise(&facts);
            let wal = line(&lines, "wal_level");
            assert_eq!(wal.advised, None, "{who}");
            assert!(wal.why.contains(who), "{}", wal.why);
        }
    }

    #[test]
    fn nothing_trades_safety_for_speed() {
        for line in advise(&fresh()) {
            let unsafe_ones = ["fsync", "full_page_writes", "synchronous_commit", "autovacuum"];
            if unsafe_ones.contains(&line.setting.as_str()) {
                assert_eq!(line.advised, None, "{line:?}");
            }
        }
    }

    #[test]
    fn the_way_back_is_what_was_set() {
        let mut facts = fresh();
        let value = setting("2GB", Some(2.0 * GIB), "sighup", "configuration file");
        facts.settings.insert("max_wal_size".into(), value);
        let lines = advise(&facts);
        assert_eq!(
            line(&lines, "max_wal_size").undo.as_deref(),
            Some("ALTER SYSTEM SET max_wal_size = '2GB'; SELECT pg_reload_conf()")
        );
    }
}
