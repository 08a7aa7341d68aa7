//! Columns that say of each row which run loaded it, when, and from which line of which file.

use crate::common::moments::{Gate, Moment, assert_loaded, kill};
use crate::common::refused::{REJECTS, SERVERS, fresh};
use crate::common::{Files, assert_no_leftovers, packed};
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

const LINEAGE: &str = "run=load_run,file=load_file,line=load_line,loaded_at=load_time";
const COLUMNS: &str = "k bigint, v text, day date, load_run text, load_file varchar(500),
    load_line bigint, load_time timestamptz";

/// Every way rows go: laid out, as COPY binary, as text, appended and as partitions.
const WAYS: [(&[&str], &str); 6] = [
    (&[], ""),
    (&["--as-text"], ""),
    (&["--atomic"], ""),
    (&["--publish", "replace", "--method", "direct"], ""),
    (&["--publish", "partitions", "--method", "copy"], "PARTITION BY RANGE (k)"),
    (&["--publish", "partitions", "--method", "direct"], "PARTITION BY RANGE (k)"),
];

/// A CSV with a header, with quoted line ends and odd rows; each row's `v` says on which line it begins.
fn rows(first: usize, count: usize, filler: &str) -> String {
    let mut text = "k,v,day\n".to_owned();
    let mut line = 2;
    for k in first..first + count {
        let day = if k % 50 == 0 { "\"Jan 5, 2020\"" } else { "2020-01-05" };
        if k % 7 == 0 {
            text.push_str(&format!("{k},\"{line}\n{filler}\",{day}\n"));
            line += 1;
        } else {
            text.push_str(&format!("{k},{line} {filler},{day}\n"));
        }
        line += 1;
    }
    text
}

/// Every row says what its `v` does, and the file by the range of its key.
fn assert_lineage(database: &TestDatabase<'_>, rows: usize, run: &str, ending: &str) {
    let wrong = database.psql(&format!(
        "SELECT k, load_file, load_line FROM ours
          WHERE load_line::text IS DISTINCT FROM substring(v FROM '^[0-9]+')
             OR load_file IS DISTINCT FROM (CASE WHEN k < 1000000 THEN 'a' ELSE 'b' END) || '{ending}'
             OR load_run IS DISTINCT FROM '{run}'
             OR load_time IS NULL OR load_time > now() OR load_time < now() - interval '1 hour'
          LIMIT 3"
    ));
    assert_eq!(wrong, "");
    assert_eq!(database.psql("SELECT count(*) FROM ours"), rows.to_string());
    assert_eq!(database.psql("SELECT count(DISTINCT load_time) FROM ours"), "1");
}

fn run_of(output: &fullbore_testing::Output) -> String {
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    said["run_id"].as_str().expect("a run").to_owned()
}

#[test]
fn rows_say_where_they_came_from() {
    let filler = "x".repeat(1200);
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for (options, tail) in WAYS {
            let database = fresh(cluster);
            let files = Files::new();
            // Several pieces of one file, and a file that begins anew.
            files.write("a.csv", rows(1, 30_000, &filler));
            files.write("b.csv", rows(1_000_000, 100, "small"));
            database.psql(&format!("CREATE TABLE ours ({COLUMNS}) {tail}"));
            let mut args = vec!["--header", "true", "--lineage", LINEAGE, "--json"];
            args.extend(options);
            let output = files.load(&database, "[ab].csv", "ours", &args);
            assert_eq!(output.code, 0, "{options:?}: {}", output.stderr);
            assert_lineage(&database, 30_100, &run_of(&output), ".csv");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn tables_that_are_made_get_the_columns() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (number, (name, content)) in packed(rows(1, 3000, "x").as_bytes()).iter().enumerate() {
        let database = cluster.fresh_database();
        let files = Files::new();
        files.write("a.csv", content);
        let args = ["--header", "true", "--create", "--lineage", LINEAGE, "--json"];
        let output = files.load(&database, "a.csv", "ours", &args);
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        assert_lineage(&database, 3000, &run_of(&output), ".csv");
        let types = database.psql(
            "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
               FROM pg_attribute WHERE attrelid = 'ours'::regclass AND attname LIKE 'load_%'",
        );
        assert_eq!(types, "text, text, bigint, timestamp with time zone", "{number}");
    }
}

/// A packed file that must be read through once more, since one of its pieces was refused.
#[test]
fn lines_are_right_where_a_file_is_read_on() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let [(_, gzip), ..] = packed(rows(1, 30_000, &"x".repeat(1200)).as_bytes());
        files.write("a.csv", gzip);
        database.psql(&format!("CREATE TABLE ours ({COLUMNS}, CHECK (k <> 15001 AND k <> 29001))"));
        let args = ["--header", "true", "--lineage", LINEAGE, "--json", "--max-rejects", "5"];
        let output = files.load(&database, "a.csv", "ours", &args);
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        assert_eq!(files.reasons().len(), 2);
        let wrong = database.psql(
            "SELECT count(*) FROM ours
              WHERE load_line::text IS DISTINCT FROM substring(v FROM '^[0-9]+')",
        );
        assert_eq!(wrong, "0");
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "29998");
    }
}

#[test]
fn parquet_rows_have_their_numbers() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (1..=20_000).map(|k| format!("{k},row {k}\n")).collect();
    let file = files.write("numbers.csv", format!("k,v\n{rows}"));
    let folder = files.path("parquet").display().to_string();
    let to = format!("parquet:{folder}");
    assert_eq!(files.fullbore(&["load", &file, "--to", &to, "--table", "numbers"]).code, 0);
    database.psql("CREATE TABLE ours (k bigint, v text, at bigint CHECK (at <> 5), of text)");
    let args = ["--lineage", "line=at,file=of", "--max-rejects", "1"];
    let output = files.load(&database, &folder, "ours", &args);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(
        database.psql("SELECT count(*) FROM ours WHERE at = k AND of LIKE '%.parquet'"),
        "19999"
    );
    assert_eq!(files.read_ending(".rejected"), "5\trow 5\n");
}

#[test]
fn rows_that_are_sifted_keep_their_lineage() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for publish in ["append", "replace"] {
            let database = cluster.fresh_database();
            let files = Files::new();
            let rows: String = (1..=3000)
                .map(|line| format!("{},{line}\n", if line % 100 == 0 { line / 2 } else { line }))
                .collect();
            let file = files.write("a.csv", rows);
            database.psql("CREATE TABLE ours (k bigint PRIMARY KEY, v text, line bigint, run text, at timestamptz)");
            let args = [
                "--header",
                "none",
                "--publish",
                publish,
                "--max-rejects",
                "100",
                "--json",
                "--lineage",
                "line=line,run=run,loaded_at=at",
            ];
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, REJECTS, "{}", output.stderr);
            let run = run_of(&output);
            let right = database.psql(&format!(
                "SELECT count(*) FROM ours WHERE line::text = v AND run = '{run}' AND at <= now()"
            ));
            assert_eq!(right, database.psql("SELECT count(*) FROM ours"));
            assert_eq!(files.reasons().len() + right.parse::<usize>().expect("a number"), 3000);
        }
    }
}

/// A run that is gone on with by its id calls its files as the command that began it did: its rows, those
/// of either attempt, must be known again where they break a key.
#[test]
fn files_keep_their_names_when_a_run_is_gone_on_with() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let tiny = files.write("tiny.csv", "1\n");
        database.psql("CREATE TABLE first (a int)");
        assert_loaded(&files.load(&database, &tiny, "first", &["--header", "none"]));
        let filler = "x".repeat(1900);
        // Rows of the last piece have keys of the first one.
        let key = |row: usize| if row.is_multiple_of(5000) { 7 } else { row };
        let rows: String = (1..=25_000).map(|row| format!("{},{filler}\n", key(row))).collect();
        files.write("big.csv", rows);
        database.psql("CREATE TABLE ours (k int PRIMARY KEY, v text, of text, at bigint)");
        let mut gate = Gate::at(&database, Moment::PieceBegins(1));
        let args = [
            "--header",
            "none",
            "--streams",
            "1",
            "--max-rejects",
            "9",
            "--lineage",
            "file=of,line=at",
        ];
        let child = files.start_load(database.url(), "./b*g.csv", "ours", &args);
        gate.wait();
        kill(child);
        gate.open(&database);
        let output = files.fullbore(&["runs", "resume", "last"]);
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        // Nobody touched it.
        assert!(!output.stderr.contains("touched"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT string_agg(DISTINCT of, ' ') FROM ours"), "big.csv");
        assert_eq!(
            database.psql("SELECT count(*), min(at) FILTER (WHERE k = 7) FROM ours"),
            "24995|7"
        );
        assert_no_leftovers(&database);
    }
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "1\n");
    database
        .psql("CREATE TABLE ours (k bigint, n int, made bigint GENERATED ALWAYS AS (k) STORED)");
    for (given, words) in [
        ("line=missing", "no such column"),
        ("line=made", "no such column to load"),
        ("line=n", "\"n\" is integer"),
        ("when=n", "no such value"),
        ("run=n,run=k", "named twice"),
    ] {
        let output =
            files.load(&database, &file, "ours", &["--header", "none", "--lineage", given]);
        assert_eq!(output.code, 2, "{given}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{given}: {}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{given}: {}", output.stderr);
    }
}
