//! `fullbore preflight db`: real servers, how they are set, and what they take.

use crate::common::Files;
use crate::common::held::{end_of, wait_for};
use fullbore_testing::pooler::Pooler;
use fullbore_testing::{
    Output, TestDatabase, TestServer, extended_or_skip, shared_or_skip, skip, start_or_skip, wanted,
};
use serde_json::Value;

const TABLE: &str = "CREATE TABLE shape (id bigint NOT NULL, at timestamptz, price numeric(12,2),
    name varchar(30), tags text[], kind mood, seen date NOT NULL, raw bytea, doc jsonb, u uuid,
    twice bigint GENERATED ALWAYS AS (id * 2) STORED, nothing tsvector)";

fn json(output: &Output) -> Value {
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", output.stdout))
}

fn look(files: &Files, url: &str) -> Value {
    json(&files.fullbore(&["preflight", "db", url, "--json"]))
}

fn line<'a>(report: &'a Value, setting: &str) -> &'a Value {
    let lines = report["server"]["lines"].as_array().expect("lines");
    let found = lines.iter().find(|line| line["setting"] == setting);
    found.unwrap_or_else(|| panic!("{setting}: {report}"))
}

fn with_table<'a>(database: &'a TestDatabase<'a>) -> &'a TestDatabase<'a> {
    database.psql("CREATE TYPE mood AS ENUM ('good', 'so so')");
    database.psql(TABLE);
    database
}

/// Nothing of a probe is there, and the table is as it was.
fn is_clean(database: &TestDatabase<'_>) {
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'fullbore_scratch'";
    assert_eq!(database.psql(left), "0");
    assert_eq!(database.psql("SELECT count(*) FROM shape"), "0");
    assert_eq!(
        database.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'fullbore_ledger'"),
        "0"
    );
}

#[test]
fn a_fresh_server_of_each_version_is_told_what_a_load_wants() {
    let files = Files::new();
    for server in wanted(TestServer::MAJORS) {
        let cluster = shared_or_skip!(server);
        let report = look(&files, &cluster.url());
        let wal = line(&report, "wal_level");
        assert_eq!(wal["value"], "replica");
        assert_eq!(wal["advised"], "minimal", "{server:?}: {wal}");
        assert_eq!(wal["needs"], "restart");
        assert!(wal["price"].as_str().expect("a price").contains("backup"));
        assert_eq!(line(&report, "checkpoint_timeout")["value"], "5min");
        assert_eq!(line(&report, "data_checksums")["value"], "on");
        assert_eq!(line(&report, "in between")["value"], "nothing");
        assert_eq!(line(&report, "fsync")["advised"], "on", "the tests' servers have it off");
        let place = &report["server"]["facts"]["place"];
        let data = cluster.cluster().data_dir.canonicalize().expect("there");
        assert_eq!(place["data"]["path"], data.to_str().expect("UTF-8"), "{server:?}");
        assert!(place["data"]["free_bytes"].as_u64().expect("known") > 0);
        assert_eq!(line(&report, "write-ahead log")["value"], "the data's device");
        // What is advised is taken by this very server.
        for line in report["server"]["lines"].as_array().expect("lines") {
            let set = line["set"].as_str().unwrap_or_default();
            let (statement, _) = set.split_once([';', '(']).unwrap_or((set, ""));
            if statement.starts_with("ALTER SYSTEM") {
                cluster.psql(statement);
                let undo = line["undo"].as_str().expect("the way back");
                let (statement, _) = undo.split_once([';', '(']).unwrap_or((undo, ""));
                cluster.psql(statement);
            }
        }
    }
}

#[test]
fn what_is_in_effect_is_told() {
    let settings = [
        ("archive_mode", "on"),
        ("archive_command", "true"),
        ("max_connections", "18"),
        ("max_wal_size", "20GB"),
        ("synchronous_standby_names", "elsewhere"),
    ];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    let files = Files::new();
    let report = look(&files, &cluster.url());
    assert!(line(&report, "wal_level")["advised"].is_null());
    assert!(line(&report, "wal_level")["why"].as_str().expect("why").contains("the archive"));
    assert_eq!(line(&report, "archive_mode")["value"], "on");
    assert_eq!(line(&report, "max_connections")["advised"], "50");
    assert!(line(&report, "max_wal_size")["advised"].is_null());
    let why = line(&report, "synchronous_commit")["why"].as_str().expect("why").to_owned();
    assert!(why.contains("standbys"), "{why}");
    let text = files.fullbore(&["preflight", "db", &cluster.url()]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    for word in
        ["recommended changes", "no change needed", "price: ", "undo: ", "max_connections is 18"]
    {
        assert!(text.stdout.contains(word), "{word}: {}", text.stdout);
    }
}

#[test]
fn volumes_of_a_server_are_named() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let beside = cluster.cluster().data_dir.with_file_name("elsewhere");
    let folder = beside.display();
    // Made by the server, which has to own it.
    database.psql(&format!(
        "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {folder}';
         CREATE TABLESPACE elsewhere LOCATION '{folder}'; CREATE TABLE t (a int, b text)"
    ));
    let report = look(&files, database.url());
    let place = &report["server"]["facts"]["place"];
    let volume = place["data"]["volume"].as_str().expect("a name");
    assert!(volume.starts_with('/') && volume.ends_with(')'), "{volume}");
    let why = line(&report, "tablespace elsewhere")["why"].as_str().expect("why").to_owned();
    assert_eq!(why, format!("on {volume}, as the data: new tables there are no faster"));

    let rows = files.write("t.csv", "1,a\n2,b\n");
    let load = files.fullbore(&["load", &rows, "--to", database.url(), "--table", "t", "--json"]);
    let summary = json(&load);
    let run = summary["run_id"].as_str().expect("a run");
    let runs = files.path("state").join("runs");
    let record = std::fs::read_to_string(runs.join(run).join("record.jsonl"));
    let record = record.expect("a record");
    let settings = record.lines().find(|line| line.contains("server_settings")).expect("seen");
    let settings: Value = serde_json::from_str(settings).expect("JSON");
    let volumes = &settings["settings"]["volumes"];
    assert_eq!(volumes["data"], volume, "{settings}");
    assert_eq!(volumes["tablespaces"]["elsewhere"], volume, "{settings}");
}

#[test]
fn a_pooler_in_between_is_seen() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    with_table(&database);
    let settings = "ignore_startup_parameters = IntervalStyle";
    let pooler = match Pooler::start(cluster, "session", settings) {
        Ok(pooler) => pooler,
        Err(missing) => skip!("{missing}"),
    };
    let files = Files::new();
    let url = pooler.url(database.name());
    assert_eq!(line(&look(&files, &url), "in between")["value"], "a pooler");
    let refused = files.fullbore(&["preflight", "db", &url, "--table", "shape"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the server itself"), "{}", refused.stderr);
}

#[test]
fn rows_of_the_table_s_shape_are_taken_by_both_methods_and_nothing_stays() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    with_table(&database);
    let files = Files::new();
    let probe = |more: &[&str]| {
        let common =
            ["preflight", "db", database.url(), "--table", "shape", "--bytes", "1M", "--json"];
        json(&files.fullbore(&[&common, more].concat()))
    };
    let cells = |report: &Value| -> Vec<(String, u64, u64)> {
        let cells = report["rates"]["cells"].as_array().expect("cells");
        let of = |cell: &Value| {
            assert!(cell["rows_per_second"].as_f64().expect("a rate") > 0.0);
            let number = |name: &str| cell[name].as_u64().expect("a number");
            (cell["method"].as_str().expect("a name").into(), number("sessions"), number("rows"))
        };
        cells.iter().map(of).collect()
    };
    let report = probe(&["--sessions", "1,2"]);
    let found = cells(&report);
    let rows = found[0].2;
    assert!(rows > 1000, "{report}");
    assert_eq!(found, [("copy".into(), 1, rows), ("copy".into(), 2, 2 * rows)]);
    is_clean(&database);

    database.psql("CREATE EXTENSION fullbore");
    let report = probe(&["--sessions", "2"]);
    let found = cells(&report);
    assert_eq!(found, [("copy".into(), 2, 2 * rows), ("direct".into(), 2, 2 * rows)]);
    database.psql("DROP EXTENSION fullbore; DROP SCHEMA fullbore");
    is_clean(&database);
    // It is no run of anybody's.
    assert!(!files.path("state/runs").exists());
}

#[test]
fn rows_can_be_one_s_own() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE shape (a int, v tsvector NOT NULL)");
    let files = Files::new();
    let probe = |more: &[&str]| {
        let common = ["preflight", "db", database.url(), "--table", "shape", "--sessions", "1"];
        files.fullbore(&[&common, more].concat())
    };
    let refused = probe(&[]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--sample") && refused.stderr.contains("tsvector"));
    let sample = files.write("part.csv", "a,v\n1,one\n2,two\n");
    let report = json(&probe(&["--sample", &sample, "--json"]));
    assert_eq!(report["rates"]["cells"][0]["rows"], 2);
    let refused = probe(&["--sample", &sample, "--bytes", "1"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--bytes"), "{}", refused.stderr);
    is_clean(&database);
    let missing = files.fullbore(&["preflight", "db", database.url(), "--table", "none"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(missing.stderr.contains("none"), "{}", missing.stderr);
}

#[test]
fn a_probe_that_is_stopped_or_killed_leaves_nothing_for_long() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    with_table(&database);
    let files = Files::new();
    let common = ["preflight", "db", database.url(), "--table", "shape", "--sessions", "1"];
    let begin = || {
        let child = files.start(&[&common[..], &["--bytes", "256M"]].concat());
        wait_for("rows in the scratch schema", || {
            let sizes = "SELECT coalesce(max(pg_relation_size(c.oid)), 0) FROM pg_class c
                JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname ~ '^fullbore_scratch'";
            database.psql(sizes).parse::<u64>().expect("a size") > 0
        });
        child
    };
    let child = begin();
    // SAFETY: it sends a signal to a child of ours.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let output = end_of(child);
    assert_ne!(output.code, 0, "{}", output.stdout);
    is_clean(&database);

    let mut child = begin();
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^fullbore_scratch'";
    assert_eq!(database.psql(left), "1", "a process that is killed drops nothing");
    // Once the server has noticed, the next one does.
    wait_for("sessions of the killed one to end", || {
        database.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            == "1"
    });
    let report = json(&files.fullbore(&[&common[..], &["--bytes", "1M", "--json"]].concat()));
    assert!(report["rates"]["notes"][0].as_str().expect("told").contains("dropped schema"));
    is_clean(&database);
}

#[test]
fn a_measurement_is_bounded_in_time() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    with_table(&database);
    let files = Files::new();
    let args = ["preflight", "db", database.url(), "--table", "shape", "--sessions", "1"];
    let more = ["--bytes", "256M", "--seconds", "0", "--json"];
    let report = json(&files.fullbore(&[&args[..], &more].concat()));
    assert_eq!(report["rates"]["cells"].as_array().expect("none").len(), 0);
    let note = report["rates"]["notes"][0].as_str().expect("told").to_owned();
    assert!(note.contains("took longer than 0 s"), "{note}");
    is_clean(&database);
}
