//! `--pause-when`: a load holds still while a limit is passed, and goes on after it.

use std::io::{BufRead, BufReader};
use std::process::Child;

use crate::common;
use crate::common::moments::{Gate, Moment, assert_loaded, signal};
use crate::common::ways::{REPLACE, prepared};
use crate::common::{Files, assert_same};
use fullbore_testing::replica::Copied;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip};

/// A load that says when it pauses.
struct Paused {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Paused {
    fn begin(database: &TestDatabase<'_>, files: &Files, file: &str, limit: &str) -> Self {
        let mut args = REPLACE.args();
        args.extend(["--pause-when", limit, "--json"]);
        let mut child = files.start_load(database.url(), file, "replaced", &args);
        let said = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, said }
    }

    /// Returns once it says so; fails if it ends before.
    fn wait_for(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.said.read_line(&mut line).expect("read");
            assert!(read > 0, "it never said {words:?}, but: {all}");
            all += &line;
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The end of a load that went on, having stood still.
    fn end(mut self) {
        self.wait_for("resumed after a pause");
        let output = self.child.wait_with_output().expect("fullbore ends");
        assert!(output.status.success());
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(said["paused_seconds"].as_f64().is_some_and(|s| s > 0.0), "{said}");
    }
}

#[test]
fn a_replica_that_lags_holds_a_load_up() {
    let settings = [("wal_level", "replica")];
    let primary = start_or_skip!(TestServer::Embedded18, &settings);
    let standby = primary.begin_backup(&["--wal-method=stream"]).start(&Copied::Standby);
    let database = primary.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let mut load = Paused::begin(&database, &files, &file, "replica-lag=1s");
    gate.wait();
    standby.psql("SELECT pg_wal_replay_pause()");
    // So that there is something to be behind with.
    database.psql("CREATE TABLE missing AS SELECT 1 AS a");
    let line = load.wait_for("paused: ");
    assert!(line.contains("replica \"fullbore-test\" is"), "{line}");
    assert!(line.contains(" s behind (limit 1.0 s)"), "{line}");
    gate.release();
    assert_eq!(database.psql("SELECT count(*) FROM replaced"), "0");
    standby.psql("SELECT pg_wal_replay_resume()");
    load.end();
    assert_same(&database, "replaced", "plain");
    let shown = files.fullbore(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("continued after a pause"), "{shown}");
    gate.open(&database);
}

#[test]
fn a_slot_and_an_archive_that_are_behind_hold_a_load_up() {
    let settings =
        [("wal_level", "replica"), ("archive_mode", "on"), ("archive_command", "/bin/false")];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    database.psql("SELECT pg_create_physical_replication_slot('behind', true)");
    let mut load = Paused::begin(&database, &files, &file, "slot-backlog=1kB");
    let line = load.wait_for("paused: ");
    assert!(line.contains("slot \"behind\" retains "), "{line}");
    assert!(line.contains("(limit 1 kB)"), "{line}");
    database.psql("SELECT pg_drop_replication_slot('behind')");
    load.end();
    assert_same(&database, "replaced", "plain");

    REPLACE.make(&database);
    database.psql("SELECT pg_switch_wal()");
    let mut load = Paused::begin(&database, &files, &file, "archive-backlog=0");
    let line = load.wait_for("paused: ");
    assert!(line.contains("wait for the archive"), "{line}");
    database.psql("ALTER SYSTEM SET archive_command = '/bin/true'");
    database.psql("SELECT pg_reload_conf()");
    load.end();
    assert_same(&database, "replaced", "plain");
}

/// A consumer of a logical slot that takes all that there is, again and again.
fn consume(url: String, is_over: &'static std::sync::atomic::AtomicBool) {
    let mut session = common::held::session(&url);
    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
        let taken = session.query(
            "SELECT count(*) FROM pg_logical_slot_get_binary_changes(
                        'cdc', NULL, NULL, 'proto_version', '1', 'publication_names', 'few')",
        );
        taken.expect("taken");
        // A slot moves on where the log says which transactions run.
        session.query("SELECT pg_log_standby_snapshot()").expect("logged");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_slot_that_waits_for_the_load_is_not_waited_for() {
    static IS_OVER: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let cluster = start_or_skip!(TestServer::Embedded18, &[("wal_level", "logical")]);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    database.psql(
        "CREATE PUBLICATION few FOR TABLE first;
         SELECT pg_create_logical_replication_slot('cdc', 'pgoutput')",
    );
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let mut load = Paused::begin(&database, &files, &file, "slot-backlog=1MB");
    gate.wait();
    // The transaction of the second piece is open, so the slot retains what others log from here on.
    let url = database.url().to_owned();
    let consumer = std::thread::spawn(move || consume(url, &IS_OVER));
    database
        .psql("CREATE TABLE noise AS SELECT repeat('x', 1000) AS v FROM generate_series(1, 9000)");
    let line = load.wait_for("slot \"cdc\" retains ");
    assert!(line.contains("paused: ") && line.contains("(limit 1 MB)"), "{line}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    gate.open(&database);
    let mut child = load.child;
    let mut code = None;
    for _ in 0..600 {
        code = child.try_wait().expect("asked");
        if code.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    IS_OVER.store(true, std::sync::atomic::Ordering::Relaxed);
    consumer.join().expect("it ends");
    if code.is_none() {
        child.kill().expect("killed");
        panic!("the load waits for a slot that waits for the load");
    }
    assert!(code.is_some_and(|code| code.success()), "{code:?}");
    assert_same(&database, "replaced", "plain");
}

#[test]
fn a_disk_without_room_holds_a_load_up_until_a_signal() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut load = Paused::begin(&database, &files, &file, "free-disk=9000PB");
    let line = load.wait_for("paused: ");
    assert!(line.contains("the disk of") && line.contains("free (limit 9000000 TB)"), "{line}");
    signal(&load.child, "-INT");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut load.said, &mut rest).expect("read");
    assert!(!rest.contains("resumed after a pause"), "{rest}");
    let output = load.child.wait_with_output().expect("fullbore ends");
    assert!(matches!(output.status.code(), Some(1 | 4)), "{:?}", output.status);
    let shown = files.fullbore(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("paused: ") && !shown.contains("continued after"), "{shown}");
    assert_loaded(&files.load(&database, &file, "replaced", &REPLACE.args()));
    assert_same(&database, "replaced", "plain");
}

#[test]
fn a_server_that_goes_away_during_a_pause_ends_it() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut args = REPLACE.args();
    args.extend(["--pause-when", "free-disk=9000PB", "--retry-for", "2"]);
    let mut child = files.start_load(database.url(), &file, "replaced", &args);
    let mut load = Paused { said: BufReader::new(child.stderr.take().expect("piped")), child };
    load.wait_for("paused: ");
    // Nobody reads what it says from here on.
    drop(load.said);
    drop(database);
    drop(cluster);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while load.child.try_wait().expect("asked").is_none() {
        if std::time::Instant::now() > until {
            load.child.kill().expect("killed");
            panic!("it waits for a server that is gone");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let code = load.child.wait().expect("ended").code();
    assert!(matches!(code, Some(1 | 4)), "{code:?}");
}

#[test]
fn limits_that_can_not_be_seen_are_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("few.csv", "1,2\n");
    database.psql(
        "DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN;
         CREATE TABLE t (a int, b int); ALTER TABLE t OWNER TO blind;",
    );
    let url = database.url().replace("postgres@", "blind@");
    let args = ["--header", "none", "--pause-when", "replica-lag=1s"];
    let output = files.load_at(&url, &file, "t", &args);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("GRANT pg_monitor"), "{}", output.stderr);
    let args =
        ["load", &file, "--to", "null:", "--header", "none", "--pause-when", "free-disk=1GB"];
    let output = files.fullbore(&args);
    assert_eq!(output.code, 2, "{}", output.stderr);
    let args = ["--header", "none", "--pause-when", "lag=1"];
    let output = files.load(&database, &file, "t", &args);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("replica-lag=10s"), "{}", output.stderr);
}
