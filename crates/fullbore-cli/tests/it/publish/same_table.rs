//! Rows that are appended go into the table that was planned, whatever its name stands for by now.

use crate::common::codes::{REFUSED, STOPPED};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

use crate::common;
use crate::common::held::{Held, end_of, session, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{APPEND, ATOMIC, PARTITIONS, REPLACE, UPSERT, Way, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

const SWAPPED: &str = "ALTER TABLE append RENAME TO append_old;
    CREATE TABLE append (LIKE append_old INCLUDING ALL)";

fn count(database: &TestDatabase<'_>, table: &str) -> String {
    database.psql(&format!("SELECT count(*) FROM {table}"))
}

/// Stops a load as a piece begins, after its first check, changes the target and lets it go on.
fn changed_meanwhile(
    database: &TestDatabase<'_>,
    files: &Files,
    file: &str,
    way: &Way,
    change: &str,
) -> fullbore_testing::Output {
    way.make(database);
    let mut gate = Gate::at(database, Moment::PieceBegins(1));
    let child = files.start_load(database.url(), file, way.name, &way.args());
    gate.wait();
    database.psql(change);
    gate.open(database);
    end_of(child)
}

#[test]
fn appended_rows_do_not_follow_a_name_to_another_table() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        let output = changed_meanwhile(&database, &files, &file, &APPEND, SWAPPED);
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        for words in [
            "\"public\".\"append\" is no longer the table that this load was planned for",
            "that table is \"public\".\"append_old\" now, and another table has its name",
            "hint: ",
            "1 piece with",
            "once the change is undone",
        ] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_eq!(count(&database, "append"), "0");
        let committed = database.psql("SELECT sum(rows) FROM fullbore_ledger.pieces JOIN fullbore_ledger.runs USING (run) WHERE state = 'loading'");
        assert_eq!(count(&database, "append_old"), committed);
        // It is not resumed into the other table, and is where the change is undone.
        let output = files.fullbore(&["runs", "resume", "last"]);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains("was dropped and created again"), "{}", output.stderr);
        assert_eq!(count(&database, "append"), "0");
        database.psql("DROP TABLE append; ALTER TABLE append_old RENAME TO append");
        assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        assert_same(&database, "append", "plain");
    }
}

#[test]
fn appended_values_do_not_follow_a_column_to_another_type() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (change, words) in [
        // The same eight bytes mean something else.
        (
            "ALTER TABLE append ALTER k TYPE float8",
            "column k was bigint and is now double precision",
        ),
        ("ALTER TABLE append RENAME n TO m", "column n no longer exists"),
        ("ALTER TABLE append ADD more int", "it has a new column more"),
        ("ALTER TABLE append ALTER n SET NOT NULL", "column n is now NOT NULL"),
        ("ALTER TABLE append ALTER v TYPE text COLLATE \"C\"", "its columns were changed"),
        ("ALTER TABLE append SET UNLOGGED", "it was set UNLOGGED"),
        ("DROP TABLE append", "that table was dropped"),
    ] {
        let output = changed_meanwhile(&database, &files, &file, &APPEND, change);
        assert_eq!(output.code, STOPPED, "{change}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{change}: {}", output.stderr);
        if !change.starts_with("DROP") {
            let committed = database.psql("SELECT sum(rows) FROM fullbore_ledger.pieces JOIN fullbore_ledger.runs USING (run) WHERE state = 'loading'");
            assert_eq!(count(&database, "append"), committed, "{change}");
        }
        files.fullbore(&["runs", "abort", "last"]);
    }
}

#[test]
fn a_run_goes_on_once_a_column_that_was_added_is_dropped_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let added = "ALTER TABLE append ADD more int DEFAULT 7";
    let output = changed_meanwhile(&database, &files, &file, &APPEND, added);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    let output = files.fullbore(&["runs", "resume", "last"]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    database.psql("ALTER TABLE append DROP more");
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_same(&database, "append", "plain");
}

#[test]
fn two_loads_of_the_same_files_that_begin_at_once_do_not_double_rows() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let one = files.write("one.csv", "1,one\n");
    database.psql("CREATE TABLE other (k int, v text)");
    assert_loaded(&files.load(&database, &one, "other", &["--header", "none"]));
    // Both have looked, and neither has its row in the ledger.
    let gate = Held::begin(database.url(), "LOCK TABLE fullbore_ledger.runs IN EXCLUSIVE MODE");
    let (url, args) = (database.url(), APPEND.args());
    let first = files.start_load(url, &file, "append", &args);
    let otherwise = [&args[..], &["--null", "none"]].concat();
    let second = files.start_load(url, &file, "append", &otherwise);
    wait_for("both loads to write to the ledger", || {
        let waiting = "SELECT count(*) FROM pg_locks
            WHERE NOT granted AND relation = 'fullbore_ledger.runs'::regclass";
        database.psql(waiting) == "2"
    });
    gate.release();
    let ended = [end_of(first), end_of(second)];
    let loaded = ended.iter().filter(|output| output.code == 0).count();
    let refused: Vec<_> = ended.iter().filter(|output| output.code == REFUSED).collect();
    assert!(loaded <= 1 && loaded + refused.len() == 2, "{} {}", ended[0].stderr, ended[1].stderr);
    for output in refused {
        for words in ["was begun meanwhile and also loads", "run the command again"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    }
    match loaded {
        0 => assert_eq!(count(&database, "append"), "0"),
        _ => assert_same(&database, "append", "plain"),
    }
}

#[test]
fn a_file_that_another_run_is_loading_is_not_loaded_beside_it() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let assert_refused = |output: &fullbore_testing::Output| {
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains("is loading some of the same files"), "{}", output.stderr);
    };
    // Of an atomic one nothing is seen before it ends.
    for way in [&APPEND, &ATOMIC] {
        way.make(&database);
        let otherwise = [&way.args()[..], &["--null", "none"]].concat();
        let mut gate = Gate::at(&database, Moment::PieceBegins(1));
        let first = files.start_load(database.url(), &file, way.name, &way.args());
        gate.wait();
        assert_refused(&files.load(&database, &file, way.name, &otherwise));
        gate.open(&database);
        assert_loaded(&end_of(first));
        assert_same(&database, way.name, "plain");
    }
    // Nor is a run gone on with meanwhile that was stopped before.
    ATOMIC.make(&database);
    let otherwise = [&ATOMIC.args()[..], &["--null", "none"]].concat();
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, ATOMIC.name, &ATOMIC.args());
    let killed = database.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'loading'");
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let second = files.start_load(database.url(), &file, ATOMIC.name, &otherwise);
    gate.wait();
    assert_refused(&files.fullbore(&["runs", "resume", &killed]));
    gate.open(&database);
    assert_loaded(&end_of(second));
    let output = files.fullbore(&["runs", "resume", &killed]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("has been loaded into"), "{}", output.stderr);
    assert_same(&database, ATOMIC.name, "plain");
}

#[test]
fn a_partition_is_made_like_the_target_that_was_planned_for() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let added = format!("ALTER TABLE {} ADD more int", PARTITIONS.name);
    let output = changed_meanwhile(&database, &files, &file, &PARTITIONS, &added);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    assert!(output.stderr.contains("it has a new column more"), "{}", output.stderr);
    database.psql(&format!("ALTER TABLE {} DROP more", PARTITIONS.name));
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
    assert_same(&database, PARTITIONS.name, "plain");
}

#[test]
fn a_change_before_a_piece_ends_the_run_as_the_piece_begins() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    // The first COPY waits for the table, and a change is queued behind its lock: it comes between the
    // first piece and a later one.
    let mut gate = Gate::at(&database, Moment::PieceCommits(0));
    let child = files.start_load(database.url(), &file, "append", &APPEND.args());
    gate.wait();
    let url = database.url().to_owned();
    let change = std::thread::spawn(move || session(&url).execute(SWAPPED));
    let mut watcher = session(database.url());
    common::held::wait_for("change that waits", || {
        let rows = watcher.query(
            "SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
                AND relation = 'append'::regclass",
        );
        !rows.expect("asked").is_empty()
    });
    gate.open(&database);
    change.join().expect("joined").expect("changed");
    let output = end_of(child);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    assert!(output.stderr.contains("another table has its name"), "{}", output.stderr);
    assert_eq!(count(&database, "append"), "0");
    let committed = database.psql("SELECT sum(rows) FROM fullbore_ledger.pieces JOIN fullbore_ledger.runs USING (run) WHERE state = 'loading'");
    assert_eq!(count(&database, "append_old"), committed);
}

#[test]
fn without_a_ledger_appended_rows_do_not_follow_a_name_either() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (change, words) in [
        (SWAPPED, "another table has its name"),
        ("ALTER TABLE append ALTER k TYPE float8", "column k was bigint"),
    ] {
        database.psql("DROP TABLE IF EXISTS append_old");
        APPEND.make(&database);
        // Its first COPY waits for the table, past the first check.
        let mut held = Held::lock(database.url(), "append");
        let mut args = APPEND.args();
        args.push("--no-ledger");
        let child = files.start_load(database.url(), &file, "append", &args);
        held.wait_for_load();
        held.session().execute(change).expect("changed");
        held.release();
        let output = end_of(child);
        assert_eq!(output.code, 1, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
        assert_eq!(count(&database, "append"), "0");
    }
}

#[test]
fn rows_of_a_foreign_table_do_not_follow_its_name() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    if database.try_psql("CREATE EXTENSION postgres_fdw").is_err() {
        fullbore_testing::skip!("this server has no postgres_fdw");
    }
    let files = Files::new();
    let file = files.write("rows.csv", "1,a\n2,b\n");
    let folder = database.psql("SHOW unix_socket_directories").replace('"', "");
    let (port, name) = (database.psql("SHOW port"), database.name());
    database.psql(&format!(
        "CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{folder}', port '{port}', dbname '{name}');
         CREATE USER MAPPING FOR CURRENT_USER SERVER here OPTIONS (user 'postgres');
         CREATE TABLE one (a int, b text); CREATE TABLE other (a int, b text);
         CREATE FOREIGN TABLE f (a int, b text) SERVER here OPTIONS (table_name 'one')"
    ));
    // Its COPY, past the first check, waits for the name.
    let mut held = Held::begin(
        database.url(),
        "ALTER FOREIGN TABLE f RENAME TO f_old;
         CREATE FOREIGN TABLE f (a int, b text) SERVER here OPTIONS (table_name 'other')",
    );
    let child = files.start_load(database.url(), &file, "f", &["--header", "none"]);
    held.wait_for_load();
    held.release();
    let output = end_of(child);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("that table is \"public\".\"f_old\" now"), "{}", output.stderr);
    assert_eq!(count(&database, "one"), "0");
    assert_eq!(count(&database, "other"), "0");
    assert_loaded(&files.load(&database, &file, "f", &["--header", "none"]));
    assert_eq!(count(&database, "other"), "2");
}

#[test]
fn an_atomic_append_looks_at_its_target_once_more() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for change in [
        "ALTER TABLE atomic RENAME TO atomic_old; CREATE TABLE atomic (LIKE atomic_old INCLUDING ALL)",
        "ALTER TABLE atomic ALTER k TYPE float8",
    ] {
        database.psql("DROP TABLE IF EXISTS atomic_old");
        let output = changed_meanwhile(&database, &files, &file, &ATOMIC, change);
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        assert!(output.stderr.contains("is no longer the table"), "{}", output.stderr);
        assert_eq!(count(&database, "atomic"), "0");
        files.fullbore(&["runs", "abort", "last"]);
    }
}

/// Whatever statement it is that fails, what lies behind it is told.
#[test]
fn a_target_that_was_dropped_meanwhile_is_named_whatever_fails_over_it() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&APPEND, &ATOMIC, &REPLACE, &PARTITIONS, &UPSERT] {
        let drop = format!("DROP TABLE {}", way.name);
        let output = changed_meanwhile(&database, &files, &file, way, &drop);
        assert_ne!(output.code, 0, "{}: {}", way.name, output.stderr);
        let words = match way.name {
            "replaced" => "was changed by another session during the load: it no longer exists",
            _ => "is no longer the table that this load was planned for: that table was dropped",
        };
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        // Rows that went with the table are not said to be there.
        assert!(!output.stderr.contains("stay in the table"), "{}", output.stderr);
        files.fullbore(&["runs", "abort", "last"]);
        assert_no_leftovers(&database);
    }
}
