//! Indexes that are filled while rows are loaded, and those that are not.

use fullbore_testing::{TestServer, extended_or_skip, extension, skip, start_or_skip, wanted};

use super::{SERVERS, fresh, loads};
use crate::common::refused::forget_rejects;
use crate::common::sound::{assert_sound, assert_sound_but};
use crate::common::{Files, assert_no_leftovers, assert_same};

const COLUMNS: &str = "k bigint, n integer, v text COLLATE \"C\"";

/// Of these, the last two can't be filled.
const INDEXES: &str = "
    ALTER TABLE ours ADD PRIMARY KEY (k, n);
    CREATE INDEX by_n ON ours (n DESC, v) WITH (fillfactor = 70);
    CREATE UNIQUE INDEX by_all ON ours (v, k) INCLUDE (n);
    CREATE INDEX by_length ON ours (length(v));
    CREATE INDEX few ON ours (n) WHERE n > 3";

fn rows(count: u32) -> String {
    (0..count).map(|i| format!("{},{},value {}\n", i / 7, i % 7, i % 1000)).collect()
}

/// The indexes of the target and of its partitions, with their definitions.
const DEFINITIONS: &str = "
    SELECT c.relname, indisunique, indisprimary, indisvalid, indisready, c.reloptions
      FROM pg_index JOIN pg_class c ON c.oid = indexrelid
     WHERE indrelid = 'ours'::regclass ORDER BY c.relname";

#[test]
fn indexes_are_those_that_copy_leaves() {
    let servers = wanted(SERVERS);
    for server in servers {
        let cluster = extended_or_skip!(server);
        for publish in ["replace", "partitions"] {
            let database = fresh(cluster);
            let files = Files::new();
            let file = files.write("rows.csv", rows(60_000));
            let partition = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
            database.psql(&format!(
                "CREATE TABLE ours ({COLUMNS}) {partition}; {INDEXES};
                 CREATE TABLE plain ({COLUMNS}); COPY plain FROM '{file}' (FORMAT csv)"
            ));
            let before = database.psql(DEFINITIONS);
            let args = ["--publish", publish, "--streams", "3", "--piece-size", "300kB"];
            loads(&database, &files, &file, 0, &args);
            assert_eq!(database.psql(DEFINITIONS), before);
            assert_sound(&database, "ours");
            let lacking = database.psql(
                "SELECT count(*) FROM pg_inherits p JOIN pg_index i ON i.indrelid = p.inhparent
                  WHERE p.inhparent = 'ours'::regclass AND NOT EXISTS (
                        SELECT FROM pg_inherits j JOIN pg_index k ON k.indexrelid = j.inhrelid
                         WHERE j.inhparent = i.indexrelid AND k.indrelid = p.inhrelid)",
            );
            assert_eq!(lacking, "0");
            let found = database.psql(
                "SET enable_seqscan = off; SELECT n FROM ours WHERE v = 'value 77' AND k = 11",
            );
            assert_eq!(found, "0");
        }
    }
}

#[test]
fn the_plan_says_how_each_index_is_made() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    let file = files.write("rows.csv", rows(10));
    database.psql(&format!("CREATE TABLE ours ({COLUMNS}); {INDEXES}"));
    let args = ["plan", &file, "--to", database.url(), "--table", "ours", "--header", "none"];
    let output = files.fullbore(&[&args[..], &["--publish", "replace"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    for note in [
        "index ours_pkey: filled while rows are loaded",
        "index by_n: filled while rows are loaded",
        "index by_length: created after the rows are loaded (it has an expression)",
        "index few: created after the rows are loaded (it is partial)",
    ] {
        assert!(output.stdout.contains(note), "{note}: {}", output.stdout);
    }
}

#[test]
fn they_are_made_before_the_rows_and_not_again() {
    if let Err(missing) = extension::install(TestServer::Embedded18) {
        skip!("{missing}");
    }
    let cluster = start_or_skip!(TestServer::Embedded18, &[("log_statement", "all")]);
    for (publish, makes) in
        [("replace", "CREATE UNIQUE INDEX"), ("partitions", "ADD PRIMARY KEY (k, n)")]
    {
        let database = fresh(&cluster);
        let files = Files::new();
        let file = files.write("rows.csv", rows(60_000));
        let partition = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
        database.psql(&format!(
            "CREATE TABLE ours ({COLUMNS}, PRIMARY KEY (k, n)) {partition};
             CREATE TABLE plain ({COLUMNS}); COPY plain FROM '{file}' (FORMAT csv)"
        ));
        let log = cluster.cluster().log_file();
        let length = std::fs::read_to_string(&log).expect("a log").len();
        loads(&database, &files, &file, 0, &["--publish", publish]);
        let said = std::fs::read_to_string(&log).expect("a log").split_off(length);
        let (made, sent) = (said.find(makes), said.find(", INDEXES"));
        assert!(made.is_some() && made < sent, "{said}");
        let (_, after) = said.rsplit_once(".finish(").expect("they are built");
        assert!(!after.contains(makes), "{after}");
    }
}

#[test]
fn keys_that_are_not_unique_are_refused_as_after_copy() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for publish in ["replace", "partitions"] {
        let mut told = Vec::new();
        for method in ["copy", "direct"] {
            let database = fresh(cluster);
            let files = Files::new();
            let mut text = rows(30_000);
            text.push_str("17,3,again\n4000,1,again\n");
            let file = files.write("rows.csv", text);
            let partition = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
            database
                .psql(&format!("CREATE TABLE ours ({COLUMNS}, PRIMARY KEY (k, n)) {partition}"));
            let args = ["--method", method, "--publish", publish, "--header", "none"];
            let scan = ["--max-rejects", "5", "--scan-keys"];
            let more = if publish == "partitions" { &scan[..] } else { &scan[..2] };
            let output = files.load(&database, &file, "ours", &[&args[..], more].concat());
            let lines: Vec<u64> =
                files.reasons().iter().filter_map(|reason| reason["line"].as_u64()).collect();
            told.push((output.code, lines, database.psql("SELECT count(*) FROM ours")));
            if output.code == 3 {
                assert_no_leftovers(&database);
            }
        }
        assert_eq!(told[0], told[1], "{publish}");
    }
}

/// They are rejected with their lines, whatever their other columns hold; the indexes that were filled stay.
#[test]
fn rows_that_share_a_key_are_taken_out_of_filled_indexes() {
    const SHAPE: &str = "k bigint, n integer, rate numeric(9,2), code char(4) COLLATE \"C\"";
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for publish in ["replace", "partitions"] {
            let database = fresh(cluster);
            let files = Files::new();
            let row = |i: u32| format!("{},{},{}.{:02},c{}\n", i / 7, i % 7, i % 3, i % 4, i % 50);
            let (mut text, mut twice) = (String::new(), Vec::new());
            let mut line = 0;
            for i in 0..30_000 {
                text.push_str(&row(i));
                line += 1;
                if i % 500 == 0 {
                    text.push_str(&row(i));
                    line += 1;
                    twice.push(line);
                }
            }
            let file = files.write("rows.csv", text);
            let good = files.write("good.csv", (0..30_000).map(row).collect::<String>());
            let partition = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
            database.psql(&format!(
                "CREATE TABLE ours ({SHAPE}, PRIMARY KEY (k, n)) {partition};
                 CREATE INDEX by_rate ON ours (rate); CREATE UNIQUE INDEX by_code ON ours (code, k, n);
                 CREATE TABLE plain ({SHAPE}); COPY plain FROM '{good}' (FORMAT csv)"
            ));
            let before = database.psql(DEFINITIONS);
            let args = ["--method", "direct", "--publish", publish, "--header", "none"];
            let mut args = args.to_vec();
            args.extend(["--streams", "2", "--piece-size", "200kB"]);
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, 1, "{}", output.stderr);
            assert!(output.stderr.contains("is duplicated"), "it names the key: {}", output.stderr);
            args.extend(["--max-rejects", "10"]);
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, 4, "{}", output.stderr);
            let resume = ["runs", "resume", "last", "--to", database.url(), "--max-rejects", "1%"];
            forget_rejects(&files);
            let resumed = files.fullbore(&resume);
            assert_eq!(resumed.code, 3, "{}", resumed.stderr);
            let told: Vec<u64> =
                files.reasons().iter().filter_map(|reason| reason["line"].as_u64()).collect();
            assert_eq!(told, twice);
            assert!(files.reasons().iter().all(|reason| reason["code"] == "23505"));
            assert_same(&database, "ours", "plain");
            assert_eq!(database.psql(DEFINITIONS), before);
            assert_eq!(
                database.psql("SELECT count(*) FROM pg_index WHERE NOT indisvalid OR indcheckxmin"),
                "0"
            );
            // A page that a row was deleted from is not frozen.
            assert_sound_but(&database, "ours", |_, _| twice.len() as u64);
            database.psql(
                "DO $$ BEGIN
                     INSERT INTO ours SELECT * FROM plain WHERE k = 0 AND n = 0;
                     RAISE 'a key is there twice';
                 EXCEPTION WHEN unique_violation THEN END $$",
            );
            assert_no_leftovers(&database);
        }
    }
}
