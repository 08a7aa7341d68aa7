//! `fullbore server orphans` names what crashes leave, and nothing else.

use std::io::Write;
use std::process::Child;
use std::time::Duration;

use crate::common::Files;
use crate::common::held::{end_of, session, wait_for};
use fullbore_testing::{
    TestCluster, TestDatabase, TestServer, extended_or_skip, extension, skip, start_or_skip, wanted,
};
use serde_json::Value;

const SERVERS: [TestServer; 5] = TestServer::MAJORS;

/// More than this of a load has to be in its file before it is disturbed.
const LOADED: u64 = 4 << 20;

fn look(files: &Files, url: &str) -> (i32, Value) {
    let output = files.fullbore(&["server", "orphans", url, "--json"]);
    let found = serde_json::from_str(&output.stdout);
    (output.code, found.unwrap_or_else(|error| panic!("{error}: {}", output.stderr)))
}

fn paths(found: &Value, list: &str) -> Vec<String> {
    let relations = found[list].as_array().expect(list);
    relations.iter().map(|r| r["path"].as_str().expect("a path").to_owned()).collect()
}

/// Begins a direct load into `ours` that never gets its last row; returns it with its file's path.
fn begin_load(database: &TestDatabase<'_>, files: &Files) -> (Child, String) {
    let mut args = vec!["load", "-", "--to", database.url(), "--table", "ours", "--format", "csv"];
    args.extend(["--header", "none", "--publish", "replace", "--method", "direct"]);
    let mut load = files.start_with_stdin(&args);
    let mut stdin = load.stdin.take().expect("piped");
    std::thread::spawn(move || {
        let line = format!("1,{}\n", "x".repeat(90));
        let _ = stdin.write_all(line.repeat(600_000).as_bytes());
        // Held open: a pipe that ends would end the load.
        std::thread::sleep(Duration::from_secs(120));
        drop(stdin);
    });
    let mut path = String::new();
    wait_for("load in progress", || {
        let (code, found) = look(files, database.url());
        assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
        let relations = found["in_progress"].as_array().expect("a list");
        let grown = relations.iter().find(|r| r["bytes"].as_u64().expect("a size") > LOADED);
        grown.inspect(|r| path = r["path"].as_str().expect("a path").to_owned()).is_some()
    });
    (load, path)
}

/// The process of the server that a load talks to.
fn backend(database: &TestDatabase<'_>) -> i32 {
    let found = database.psql(
        "SELECT l.pid FROM pg_locks l WHERE l.relation IS NOT NULL AND l.granted
            AND l.mode = 'AccessExclusiveLock' AND l.pid <> pg_backend_pid()
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          LIMIT 1",
    );
    found.parse().unwrap_or_else(|_| panic!("no backend holds the new table: {found:?}"))
}

/// The server dies in the middle of a load; what it leaves is named, also beside a transaction that
/// began later, and is no longer named when it was removed.
fn crash(server: TestServer, only_a_backend: bool) {
    if let Err(missing) = extension::install(server) {
        skip!("{missing}");
    }
    let cluster = start_or_skip!(server);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE EXTENSION fullbore; CREATE TABLE ours (a bigint, b text)");
    if only_a_backend {
        // Files of another tablespace are found as well.
        let folder = cluster.cluster().data_dir.with_file_name("elsewhere");
        let folder = folder.display();
        // Made by the server, which has to own it.
        database.psql(&format!(
            "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {folder}';
             CREATE TABLESPACE elsewhere LOCATION '{folder}'"
        ));
        database.psql("ALTER TABLE ours SET TABLESPACE elsewhere");
        database.psql("CHECKPOINT");
    }
    let (load, path) = begin_load(&database, &files);
    assert_eq!(path.starts_with("pg_tblspc/"), only_a_backend, "{path}");
    if only_a_backend {
        // SAFETY: kill has no preconditions; the process is a server's of this test's own.
        assert_eq!(unsafe { libc::kill(backend(&database), libc::SIGKILL) }, 0);
        // Sessions are still let in until the server has noticed.
        wait_for("crash", || {
            let log = std::fs::read_to_string(cluster.cluster().log_file()).expect("a log");
            log.contains("all server processes terminated; reinitializing")
        });
        wait_for("recovery", || database.try_psql("SELECT 1").is_ok());
    } else {
        cluster.crash_and_restart();
    }
    assert_ne!(end_of(load).code, 0);

    let file = cluster.cluster().data_dir.join(&path);
    let size = file.metadata().expect("left by the crash").len();
    let named = |found: &Value| {
        let orphans = found["orphans"].as_array().expect("a list");
        let orphan = orphans.iter().find(|r| r["path"] == path.as_str());
        let orphan = orphan.unwrap_or_else(|| panic!("{path} is not named: {found}"));
        assert!(orphan["bytes"].as_u64() >= Some(size), "{orphan}");
        assert!(orphan["files"].as_array().is_some_and(|files| !files.is_empty()), "{orphan}");
    };
    wait_for("end of all transactions", || {
        paths(&look(&files, database.url()).1, "in_progress").is_empty()
    });
    let (code, found) = look(&files, database.url());
    assert_eq!(code, 1);
    named(&found);
    std::thread::sleep(Duration::from_secs(3));
    let mut later = session(database.url());
    later.execute("BEGIN; SELECT 1").expect("begun");
    named(&look(&files, database.url()).1);
    later.execute("COMMIT").expect("committed");

    let output = files.fullbore(&["server", "orphans", database.url()]);
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains(&path), "{}", output.stdout);
    assert!(output.stderr.contains("run CHECKPOINT"), "{}", output.stderr);

    let folder = file.parent().expect("a folder");
    for orphan in found["orphans"].as_array().expect("a list") {
        for name in orphan["files"].as_array().expect("a list") {
            std::fs::remove_file(folder.join(name.as_str().expect("a name"))).expect("removed");
        }
    }
    let (code, found) = look(&files, database.url());
    assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
}

#[test]
fn what_a_crash_of_the_server_leaves_is_named() {
    wanted(SERVERS).into_iter().for_each(|server| crash(server, false));
}

#[test]
fn what_a_killed_backend_leaves_in_a_tablespace_is_named() {
    wanted(SERVERS).into_iter().for_each(|server| crash(server, true));
}

/// Everything that has files, rewritten catalogs among them.
const MANY_KINDS: &str = "
    CREATE TABLE t (a integer PRIMARY KEY, b text);
    INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(1, 1000) i;
    CREATE UNLOGGED TABLE u AS SELECT * FROM t;
    CREATE SEQUENCE s;
    CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
    CREATE TABLE p (a integer) PARTITION BY RANGE (a);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    TRUNCATE u; VACUUM t;
    VACUUM FULL pg_class; VACUUM FULL pg_attribute; REINDEX TABLE t";

#[test]
fn a_clean_server_has_none() {
    for server in wanted(SERVERS) {
        let cluster = start_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        for statement in MANY_KINDS.split(';') {
            database.psql(statement);
        }
        // The old files are empty now, and go with a checkpoint.
        let (code, found) = look(&files, database.url());
        assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
        assert_ne!(paths(&found, "removed_soon").len(), 0, "{found}");
        wait_for("checkpoint to take them away", || {
            database.psql("CHECKPOINT");
            let (code, found) = look(&files, database.url());
            assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
            paths(&found, "removed_soon").is_empty()
        });
        let output = files.fullbore(&["server", "orphans", database.url()]);
        let said = format!("no orphans of database {}\n", database.name());
        assert_eq!((output.code, output.stdout), (0, said));
    }
}

#[test]
fn tables_of_running_transactions_are_told_apart() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let mut other = session(database.url());
    // A session that keeps its times to itself has locks all the same.
    for tell in ["on", "off"] {
        other.execute(&format!("SET track_activities = {tell}")).expect("set");
        other
            .execute(
                "BEGIN; CREATE TABLE t AS SELECT 1 AS a;
                 CREATE TEMPORARY TABLE e AS SELECT 1 AS a",
            )
            .expect("made");
        let (code, found) = look(&files, database.url());
        assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
        assert_eq!(paths(&found, "in_progress").len(), 1, "{tell}: {found}");
        assert_eq!(paths(&found, "temporary").len(), 1, "{tell}: {found}");
        other.execute("ROLLBACK").expect("rolled back");
        other.execute("CHECKPOINT").expect("what is empty goes");
    }
}

#[test]
fn a_missing_right_is_named() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE ROLE \"Looks on\" LOGIN");
    let url = format!("{}&user=Looks%20on", database.url());
    let refused = |words: &str, remedy: &str| {
        let output = files.fullbore(&["server", "orphans", &url]);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
        assert!(output.stderr.contains(remedy), "{}", output.stderr);
    };
    let functions = "pg_ls_dir(text, boolean, boolean), pg_stat_file(text, boolean)";
    let remedy = format!("GRANT EXECUTE ON FUNCTION {functions} TO \"Looks on\"");
    refused("role Looks on lacks EXECUTE privilege on", &remedy);
    database.psql(&remedy);
    let remedy = "GRANT pg_read_all_stats TO \"Looks on\"";
    refused("lacks the privileges of pg_read_all_stats", remedy);
    database.psql(remedy);
    let (code, found) = look(&files, &url);
    assert_eq!((code, paths(&found, "orphans").len()), (0, 0), "{found}");
    database.psql("DROP OWNED BY \"Looks on\"; DROP ROLE \"Looks on\"");
}

/// A server of this test's own is unreachable: that is no answer.
#[test]
fn a_server_that_is_away_gives_no_answer() {
    let files = Files::new();
    let cluster: TestCluster = start_or_skip!(TestServer::Embedded18);
    let url = cluster.url();
    drop(cluster);
    let output = files.fullbore(&["server", "orphans", &url]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
}
