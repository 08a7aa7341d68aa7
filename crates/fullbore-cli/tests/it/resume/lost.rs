//! Connections that are lost and servers that crash under a load: the run goes on by itself, and what
//! it loads is what COPY loads.

use fullbore_server::StopMode;
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, start_or_skip};

use crate::common::held::{end_of, session};
use crate::common::moments::{Gate, Moment, assert_loaded, ledger};
use crate::common::ways::{
    APPEND, ATOMIC, PARTITIONS, PARTITIONS_DIRECT, REPLACE, UPSERT, Way, prepared,
};
use crate::common::{Files, assert_no_leftovers, assert_same, packed};

fn assert_whole(database: &TestDatabase<'_>, way: &Way) {
    assert_same(database, way.name, "plain");
    assert_no_leftovers(database);
    assert!(ledger(database, way.name).starts_with("finished|"), "{}", ledger(database, way.name));
}

/// Ends the session that stands at a moment; the load must end well without being called again.
fn terminate_at(database: &TestDatabase<'_>, files: &Files, file: &str, way: &Way, at: Moment) {
    println!("{} loses a session at {at:?}", way.name);
    way.make(database);
    let mut gate = Gate::at(database, at);
    let child = files.start_load(database.url(), file, way.name, &way.args());
    gate.wait();
    gate.terminate_waiting();
    gate.open(database);
    assert_loaded(&end_of(child));
    assert_whole(database, way);
    let shown = files.fullbore(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("restarted after a lost connection"), "{shown}");
    database.psql(&format!("DROP TABLE {}", way.name));
}

/// Ways and moments for the newest server, and a few of them for the oldest.
fn at_moments(
    all: &[(&'static Way, Moment)],
    few: &[(&'static Way, Moment)],
) -> [(TestServer, Vec<(&'static Way, Moment)>); 2] {
    [(TestServer::Embedded18, all.to_vec()), (TestServer::Pg14, few.to_vec())]
}

#[test]
fn terminated_sessions_are_opened_again() {
    let all = [
        (&APPEND, Moment::BeginCommits),
        (&APPEND, Moment::PieceBegins(1)),
        (&APPEND, Moment::PieceCommits(2)),
        (&APPEND, Moment::PublishCommits),
        (&ATOMIC, Moment::IsPrepared),
        (&ATOMIC, Moment::PieceCommits(1)),
        (&ATOMIC, Moment::Publishes),
        (&REPLACE, Moment::PieceBegins(2)),
        (&REPLACE, Moment::Publishes),
        (&PARTITIONS, Moment::Begins),
        (&PARTITIONS, Moment::IsPrepared),
        (&PARTITIONS, Moment::PieceCommits(0)),
        (&PARTITIONS, Moment::PublishCommits),
        (&UPSERT, Moment::PieceCommits(1)),
        (&UPSERT, Moment::Publishes),
        (&UPSERT, Moment::PublishCommits),
    ];
    let few = [
        (&ATOMIC, Moment::PieceBegins(1)),
        (&REPLACE, Moment::IsPrepared),
        (&REPLACE, Moment::PublishCommits),
    ];
    for (server, moments) in at_moments(&all, &few) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        for (way, at) in moments {
            terminate_at(&database, &files, &file, way, at);
        }
    }
}

#[test]
fn terminated_sessions_are_opened_again_under_the_direct_method() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let file = prepared(&database, &files);
    for at in [Moment::PieceBegins(1), Moment::PieceCommits(2)] {
        terminate_at(&database, &files, &file, &PARTITIONS_DIRECT, at);
    }
}

#[test]
fn a_lost_control_session_is_opened_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
    gate.wait();
    gate.terminate_control();
    gate.open(&database);
    assert_loaded(&end_of(child));
    assert_whole(&database, &REPLACE);
}

#[test]
fn crashes_of_the_server_are_survived() {
    let all = [
        (&APPEND, Moment::PieceBegins(2)),
        (&APPEND, Moment::PublishCommits),
        (&ATOMIC, Moment::PieceBegins(2)),
        (&ATOMIC, Moment::Publishes),
        (&REPLACE, Moment::PieceBegins(0)),
        (&REPLACE, Moment::PieceCommits(2)),
        (&REPLACE, Moment::PublishCommits),
        (&PARTITIONS, Moment::PieceBegins(1)),
        (&PARTITIONS, Moment::PieceCommits(2)),
        (&UPSERT, Moment::Publishes),
        (&UPSERT, Moment::PublishCommits),
    ];
    let few = [(&ATOMIC, Moment::PieceCommits(2)), (&PARTITIONS, Moment::PublishCommits)];
    for (server, moments) in at_moments(&all, &few) {
        let cluster = start_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        for (way, at) in moments {
            println!("{} meets a crash at {at:?}", way.name);
            way.make(&database);
            let mut gate = Gate::at(&database, at);
            // Nobody waited for the log of the last pieces: a crash rolls them back.
            let child = files.start_load(database.url(), &file, way.name, &way.args());
            gate.wait();
            cluster.crash_and_restart();
            gate.forget(&database);
            assert_loaded(&end_of(child));
            assert_whole(&database, way);
            database.psql(&format!("DROP TABLE {}", way.name));
        }
    }
}

#[test]
fn a_server_that_stays_away_leaves_a_run_to_be_resumed() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    PARTITIONS.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let mut args = PARTITIONS.args();
    args.extend(["--retry-for", "1"]);
    let child = files.start_load(database.url(), &file, "parted", &args);
    gate.wait();
    cluster.cluster().stop(StopMode::Immediate).expect("stopped");
    let output = end_of(child);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("fullbore runs resume"), "{}", output.stderr);
    cluster.cluster().start().expect("started");
    gate.forget(&database);
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_whole(&database, &PARTITIONS);
}

#[test]
fn compressed_files_are_gone_on_with_from_what_is_missing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let filler = "y".repeat(700);
    let rows: String = (0..200_000).map(|k| format!("{k},{},{filler}\n", k % 97)).collect();
    let plain = files.write("plain.csv", &rows);
    database.psql(&format!(
        "CREATE TABLE plain (k bigint, n int, v text); COPY plain FROM '{plain}' (FORMAT csv);
         CREATE TABLE first (a int)"
    ));
    let tiny = files.write("tiny.csv", "1\n");
    assert_loaded(&files.load(&database, &tiny, "first", &["--header", "none"]));
    for (packer, content) in packed(rows.as_bytes()).into_iter().skip(1).take(1) {
        let file = files.write(&format!("packed.{packer}"), content);
        APPEND.make(&database);
        let mut args = vec!["--header", "none", "--streams", "2", "--statistics=none"];
        // Its pieces take the file's blocks in turn; one of them is ended in its COMMIT.
        let mut gate = Gate::at(&database, Moment::PieceCommits(1));
        let child = files.start_load(database.url(), &file, "append", &args);
        gate.wait();
        gate.terminate_waiting();
        gate.open(&database);
        assert_loaded(&end_of(child));
        assert_whole(&database, &APPEND);
        // And by another process.
        APPEND.make(&database);
        files.kill_load_at(&database, Moment::PieceBegins(2), &file, "append", &args);
        assert!(database.psql("SELECT count(*) > 0 FROM append").starts_with('t'));
        args.push("--resume");
        assert_loaded(&files.load(&database, &file, "append", &args));
        assert_whole(&database, &APPEND);
    }
}

#[test]
fn rejects_of_committed_pieces_are_not_forgotten() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let text = std::fs::read_to_string(&file).expect("read");
    // One bad row in each of the three pieces.
    let text = text
        .replace("\n7,", "\nseven,")
        .replace("\n12500,", "\nmany,")
        .replace("\n24999,", "\nlast,");
    let file = files.write("bad.csv", text);
    REPLACE.make(&database);
    let mut args = REPLACE.args();
    args.extend(["--max-rejects", "3"]);
    files.kill_load_at(&database, Moment::PieceBegins(2), &file, "replaced", &args);
    let output = files.fullbore(&["runs", "resume", "last"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM replaced"), "24997");
    let mut lines: Vec<u64> =
        files.reasons().iter().map(|reason| reason["line"].as_u64().expect("a line")).collect();
    lines.sort_unstable();
    assert_eq!(lines, [8, 12_501, 25_000]);
    // Over the limit: what is committed is kept, and a higher limit goes on.
    REPLACE.make(&database);
    let mut args = REPLACE.args();
    args.extend(["--max-rejects", "2"]);
    let output = files.load(&database, &file, "replaced", &args);
    assert_eq!(output.code, 4, "{}", output.stderr);
    let output = files.fullbore(&["runs", "resume", "last", "--max-rejects", "3"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM replaced"), "24997");
    assert_no_leftovers(&database);
    // A lower limit holds for what was rejected before, too.
    REPLACE.make(&database);
    let mut args = REPLACE.args();
    args.extend(["--max-rejects", "2"]);
    let text = std::fs::read_to_string(&file).expect("read").replace("\nlast,", "\n24999,");
    let file = files.write("better.csv", text);
    files.kill_load_at(&database, Moment::PieceBegins(2), &file, "replaced", &args);
    let output = files.fullbore(&["runs", "resume", "last", "--max-rejects", "1"]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("2 rows rejected, 1 allowed"), "{}", output.stderr);
}

#[test]
fn timeouts_of_the_role_do_not_end_a_load() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    database.psql(&format!(
        "ALTER DATABASE {0} SET statement_timeout = '150ms';
         ALTER DATABASE {0} SET idle_in_transaction_session_timeout = '50ms';
         ALTER DATABASE {0} SET idle_session_timeout = '150ms'",
        database.name()
    ));
    assert_loaded(&files.load(&database, &file, "replaced", &REPLACE.args()));
    let mut test = session(database.url());
    test.execute("SET statement_timeout = 0").expect("set");
    let rows = test.query("SELECT count(*) AS n FROM replaced").expect("counted");
    assert_eq!(rows[0].get("n"), Some("25000"));
}

#[test]
fn a_run_with_rejects_that_has_ended_is_not_stuck_after_a_crash() {
    // Nobody else writes the log out that a commit has not waited for.
    let cluster = start_or_skip!(TestServer::Embedded18, &[("wal_writer_delay", "10s")]);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\nthree\n");
    let args = ["--header", "none", "--max-rejects", "1", "--publish", "replace"];
    assert_eq!(files.load(&database, &file, "t", &args).code, 3);
    cluster.crash_and_restart();
    assert_eq!(database.psql("SELECT state FROM fullbore_ledger.runs"), "finished");
    // A standby that took the server's place may lack the end all the same.
    database.psql("UPDATE fullbore_ledger.runs SET state = 'published'");
    let rejects = files.read_ending(".rejected.jsonl");
    let output = files.fullbore(&["runs", "resume", "last"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT state FROM fullbore_ledger.runs"), "finished");
    assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
    assert_eq!(files.read_ending(".rejected.jsonl"), rejects);
}
