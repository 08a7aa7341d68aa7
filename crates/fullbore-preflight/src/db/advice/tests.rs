use super::*;
use crate::db::ask::Setting;

fn setting(value: &str, number: Option<f64>, context: &str, source: &str) -> Setting {
    Setting {
        value: value.into(),
        number,
        context: context.into(),
        source: source.into(),
        file: None,
        pending_restart: false,
    }
}

/// A server as it comes out of initdb.
fn fresh() -> Facts {
    let of =
        |value: &str, number: f64, context: &str| setting(value, Some(number), context, "default");
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
    lines.iter().find(|line| line.setting == name).unwrap_or_else(|| panic!("{name}: {lines:?}"))
}

#[test]
fn a_fresh_server_is_told_of_its_log() {
    let lines = advise(&fresh());
    let wal = line(&lines, "wal_level");
    assert_eq!(wal.advised.as_deref(), Some("minimal"));
    assert_eq!(wal.needs, Needs::Restart);
    // The server would not start with one of them alone.
    assert_eq!(
        wal.set.as_deref(),
        Some(
            "ALTER SYSTEM SET wal_level = 'minimal'; ALTER SYSTEM SET max_wal_senders = '0' (then \
             restart)"
        )
    );
    assert_eq!(
        wal.undo.as_deref(),
        Some("ALTER SYSTEM RESET wal_level; ALTER SYSTEM RESET max_wal_senders (then restart)")
    );
    assert!(wal.price.as_ref().expect("a price").contains("backup"));
    assert_eq!(line(&lines, "max_wal_size").advised.as_deref(), Some("16384MB"));
    assert_eq!(line(&lines, "checkpoint_timeout").needs, Needs::Reload);
    assert_eq!(line(&lines, "fsync").advised, None);
    assert_eq!(line(&lines, "max_connections").advised, None);
}

#[test]
fn who_lives_on_the_log_keeps_it() {
    let mut archived = fresh();
    archived.settings.insert("archive_mode".into(), setting("on", None, "postmaster", "default"));
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

#[test]
fn the_way_back_leads_to_the_file_that_a_setting_is_from() {
    let undo = |file: &str| {
        let mut facts = fresh();
        let size = setting("1GB", Some(GIB), "sighup", "configuration file");
        let size = Setting { file: Some(file.into()), ..size };
        facts.settings.insert("max_wal_size".into(), size);
        line(&advise(&facts), "max_wal_size").undo.clone().expect("a way back")
    };
    assert!(undo("/data/postgresql.conf").starts_with("ALTER SYSTEM RESET max_wal_size;"));
    assert!(
        undo("/data/postgresql.auto.conf").starts_with("ALTER SYSTEM SET max_wal_size = '1GB';")
    );
}

#[test]
fn standbys_are_raised_first() {
    let mut facts = fresh();
    let locks = setting("64", Some(64.0), "postmaster", "default");
    facts.settings.insert("max_locks_per_transaction".into(), locks);
    let price = |facts: &Facts| {
        line(&advise(facts), "max_locks_per_transaction").price.clone().expect("a price")
    };
    assert!(!price(&facts).contains("standbys"));
    for standbys in [None, Some(1)] {
        assert!(price(&Facts { standbys, ..facts.clone() }).contains("on the standbys first"));
    }
}
