//! Servers that take no writes for a moment, and sessions that are ended while rows are published: both are
//! waited for, and what is published is published once.

use std::time::{Duration, Instant};

use fullbore_testing::replica::Copied;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip};

use crate::common::held::{Held, end_of, session, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{APPEND, ATOMIC, PARTITIONS, REPLACE, UPSERT, Way, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

/// Lets the whole server take writes, or none.
fn set_read_only(database: &TestDatabase<'_>, is_read_only: bool) {
    let value = if is_read_only { "on" } else { "off" };
    let mut session = session(database.url());
    session.execute("SET default_transaction_read_only = off").expect("set");
    session
        .execute(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}"))
        .expect("set");
    session.query("SELECT pg_reload_conf()").expect("loaded");
    wait_for("setting to be taken", || {
        database.psql("SHOW default_transaction_read_only") == value
    });
}

#[test]
fn a_server_that_is_read_only_for_a_moment_is_waited_for() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    // The transaction that stands there writes on; the next one may not.
    for (way, at) in [
        (&APPEND, Moment::BeginCommits),
        (&APPEND, Moment::PieceCommits(0)),
        (&ATOMIC, Moment::PieceCommits(2)),
        (&UPSERT, Moment::PieceCommits(2)),
        (&REPLACE, Moment::PieceCommits(1)),
        (&REPLACE, Moment::PieceCommits(2)),
        (&PARTITIONS, Moment::PieceCommits(2)),
        (&PARTITIONS, Moment::PublishCommits),
    ] {
        println!("{} at {at:?}", way.name);
        way.make(&database);
        let mut gate = Gate::at(&database, at);
        let args = [&way.args()[..], &["--retry-for", "40"]].concat();
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        set_read_only(&database, true);
        gate.release();
        std::thread::sleep(Duration::from_secs(3));
        set_read_only(&database, false);
        assert_loaded(&end_of(child));
        gate.open(&database);
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        database.psql(&format!("DROP TABLE {}", way.name));
    }
    // What is read-only to begin with is refused.
    APPEND.make(&database);
    set_read_only(&database, true);
    let output = files.load(&database, &file, "append", &APPEND.args());
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("default_transaction_read_only is on"), "{}", output.stderr);
    set_read_only(&database, false);
}

/// Sessions that begin while the database only reads stay so: they are opened again.
#[test]
fn sessions_that_were_opened_while_the_database_only_read_are_opened_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let name = database.name();
    for (way, at) in [(&APPEND, Moment::PieceBegins(1)), (&REPLACE, Moment::Publishes)] {
        println!("{} at {at:?}", way.name);
        way.make(&database);
        let mut gate = Gate::at(&database, at);
        let args = [&way.args()[..], &["--retry-for", "40"]].concat();
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        let mut other = session(database.url());
        other
            .execute(&format!(
                "ALTER DATABASE {name} SET default_transaction_read_only = on;
                 SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = '{name}' AND pid <> pg_backend_pid()
                    AND query !~ '^(DO|SELECT pg_advisory_lock)'"
            ))
            .expect("set, and the load's sessions ended");
        gate.release();
        std::thread::sleep(Duration::from_secs(3));
        other
            .execute(&format!("ALTER DATABASE {name} RESET default_transaction_read_only"))
            .expect("reset");
        // Those that were opened meanwhile are still there, and only read.
        assert_loaded(&end_of(child));
        gate.open(&database);
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
    }
}

#[test]
fn a_standby_is_refused_before_a_row_moves() {
    let cluster = start_or_skip!(TestServer::Embedded18, &[("wal_level", "replica")]);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("few.csv", "1\n2\n");
    // A ledger is there, and can't be read on a standby where its tables are unlogged.
    assert_loaded(&files.load(&database, &file, "t", &["--header", "none"]));
    let standby = cluster.begin_backup(&["--wal-method=stream"]).start(&Copied::Standby);
    let url = standby.cluster().url(database.name());
    for command in ["plan", "load"] {
        let output =
            files.fullbore(&[command, &file, "--to", &url, "--table", "t", "--header", "none"]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        for words in ["the server is a standby", "target_session_attrs=read-write"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    }
}

#[test]
fn a_session_that_is_ended_again_and_again_while_it_publishes_is_opened_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&REPLACE, &ATOMIC] {
        way.make(&database);
        let mut gate = Gate::at(&database, Moment::Publishes);
        let args = [&way.args()[..], &["--retry-for", "40"]].concat();
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            gate.terminate_waiting();
            std::thread::sleep(Duration::from_millis(20));
        }
        gate.open(&database);
        assert_loaded(&end_of(child));
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
    }
}

/// Ends every session of a load that runs such a statement, once.
fn terminate(database: &TestDatabase<'_>, statement: &str) {
    let mut session = session(database.url());
    let ended = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ~ '{statement}'
            AND state = 'active' AND wait_event_type = 'Lock'"
    );
    wait_for(&format!("session that runs {statement}"), || {
        !session.query(&ended).expect("asked").is_empty()
    });
}

#[test]
fn sessions_that_are_ended_while_indexes_are_built_are_opened_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    // An index whose every entry waits for a lock.
    database.psql(
        "CREATE FUNCTION slow(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_catalog.pg_advisory_xact_lock_shared(815); RETURN n; END $$",
    );
    let ways: [(&Way, &str); 3] =
        [(&REPLACE, "CREATE INDEX"), (&REPLACE, "ANALYZE"), (&PARTITIONS, "CREATE INDEX")];
    for (way, statement) in ways {
        println!("{} at {statement}", way.name);
        way.make(&database);
        let index = format!("CREATE INDEX ON {} (slow(n))", way.name);
        database.psql(&index);
        let mut held = Held::begin(database.url(), "SELECT pg_advisory_xact_lock(815)");
        let args: Vec<&str> =
            way.args().into_iter().filter(|arg| *arg != "--statistics=none").collect();
        let child = files.start_load(database.url(), &file, way.name, &args);
        if statement == "ANALYZE" {
            // It is let through the build, and held again behind it.
            wait_for("build", || {
                let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND objid = 815";
                database.psql(waits) != "0"
            });
            held.release();
            held = Held::begin(database.url(), "SELECT pg_advisory_xact_lock(815)");
        }
        terminate(&database, statement);
        held.release();
        assert_loaded(&end_of(child));
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        database.psql(&format!("DROP TABLE {}", way.name));
    }
}
