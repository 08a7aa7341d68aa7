//! Full verification of loads that reject rows for what the table asks of them: those that pass are
//! compared, whatever judged the others, and what happens to the table later is found.

use crate::common::codes::REFUSED;
use std::collections::HashSet;

use crate::common::moments::Moment;
use crate::common::refused::{Line, REJECTS, SERVERS, WAYS, Way, fresh, loads, make_plain, text};
use crate::common::{Files, assert_same, packed};
use fullbore_testing::{Output, TestDatabase, extended_or_skip, shared_or_skip, wanted};
use serde_json::Value;

const COLUMNS: &str = "k bigint NOT NULL, n int NOT NULL CONSTRAINT positive CHECK (n > 0),
    price numeric(10,2), s text";

/// What a table may ask beyond that.
const KEYS: &str = ", CONSTRAINT parent FOREIGN KEY (n) REFERENCES parents, PRIMARY KEY (k, n)";

/// Rows of COLUMNS, some of them bad; with keys these are asked too.
fn rows(count: usize, keys: bool) -> Vec<Line> {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for k in 1..=count {
        let n = k % 90 + 1;
        let (key, n, bad) = match k % 120 {
            7 => (k, String::new(), Some("23502")),
            37 => (k, format!("-{n}"), Some("23514")),
            67 => (k, "one".into(), Some("22P02")),
            85 => (k, format!(" {n} "), None),
            97 if keys => (k, format!("{}", 1000 + k), Some("23503")),
            // The line before, once more.
            40 | 100 if keys => (k - 1, ((k - 1) % 90 + 1).to_string(), Some("23505")),
            _ => (k, n.to_string(), None),
        };
        let bad = bad.filter(|code| *code != "23505" || seen.contains(&key));
        if bad.is_none() {
            seen.insert(key);
        }
        let price = if k % 11 == 0 { String::new() } else { format!("{k}.{:02}", k % 100) };
        lines.push((format!("{key},{n},{price},row {k}"), bad));
    }
    lines
}

fn make(database: &TestDatabase<'_>, way: &Way, keys: &str) {
    database.psql(&format!(
        "CREATE TABLE IF NOT EXISTS parents (id int PRIMARY KEY);
         INSERT INTO parents SELECT generate_series(1, 90) ON CONFLICT DO NOTHING;
         CREATE TABLE ours ({COLUMNS}{keys}) {}",
        way.tail
    ));
}

fn bad(lines: &[Line], codes: &[&str]) -> u64 {
    lines.iter().filter(|(_, bad)| bad.is_some_and(|bad| codes.contains(&bad))).count() as u64
}

/// Asserts that every value of the good rows was verified.
fn assert_verified(output: &Output, lines: &[Line], sifted: u64) {
    let said: Value = serde_json::from_str(&output.stdout).expect("one object");
    let good = lines.iter().filter(|(_, bad)| bad.is_none()).count() as u64;
    let verified = &said["verified"];
    assert_eq!(verified["level"], "full", "{said}");
    assert_eq!(verified["rows"], good, "{said}");
    assert_eq!(verified["violations"], sifted, "{said}");
    assert_eq!(said["rejected"], lines.len() as u64 - good, "{said}");
}

fn verify(files: &Files, more: &[&str]) -> (i32, Value, String) {
    let mut args = vec!["runs", "verify", "last", "--json"];
    args.extend(more);
    let output = files.fullbore(&args);
    let report = serde_json::from_str(&output.stdout).unwrap_or(Value::Null);
    (output.code, report, output.stderr)
}

fn assert_equal(files: &Files, more: &[&str]) -> Value {
    let (code, report, error) = verify(files, more);
    assert_eq!((code, &report["equal"]), (0, &Value::Bool(true)), "{report} {error}");
    report
}

fn assert_found(files: &Files, words: &str, column: Option<&str>) {
    let (code, report, error) = verify(files, &[]);
    assert_eq!(code, 1, "{words}: {report} {error}");
    assert!(report["findings"].to_string().contains(words), "{words}: {report}");
    let Some(column) = column else { return };
    let columns = report["findings"][0]["columns"].as_array().expect("a list");
    assert_eq!(columns, &[Value::from(column)], "{report}");
}

/// Changes the table behind the run's back; all of it is found.
fn assert_damages_are_found(database: &TestDatabase<'_>, files: &Files, way: &Way) {
    assert_equal(files, &[]);
    let is_appended = way.options.is_empty();
    let (words, column) = match is_appended {
        // A row that was changed since can't be told from one that is missing.
        true => ("missing", None),
        false => ("different values", Some("price")),
    };
    database.psql("UPDATE ours SET price = price + 1 WHERE k = 1003");
    assert_found(files, words, column);
    database.psql("UPDATE ours SET price = price - 1 WHERE k = 1003");
    if !is_appended {
        assert_equal(files, &[]);
        // One of the rows that were rejected takes the place of another one.
        database.psql(
            "DELETE FROM ours WHERE k = 1003;
             ALTER TABLE ours DROP CONSTRAINT IF EXISTS ours_pkey;
             INSERT INTO ours SELECT k, n, price, 'row 160' FROM ours WHERE k = 159 LIMIT 1",
        );
        let (code, report, _) = verify(files, &[]);
        assert_eq!(code, 1, "{report}");
    }
    database.psql("DELETE FROM ours WHERE k = 1002");
    assert_found(files, "missing", None);
}

#[test]
fn constraints_and_keys_however_rows_are_loaded() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS {
            for keys in [true, false] {
                let database = fresh(cluster);
                let files = Files::new();
                let lines = rows(4000, keys);
                make(&database, way, if keys { KEYS } else { "" });
                make_plain(&database, &files, COLUMNS, &lines);
                let mut options = way.options.to_vec();
                options.extend(["--streams", "2", "--verify", "full", "--json"]);
                let output = loads(&database, &files, &lines, &options);
                let sifted = bad(&lines, &["23503", "23505"]);
                assert_eq!(sifted > 0, keys);
                assert_verified(&output, &lines, sifted);
                assert_damages_are_found(&database, &files, way);
            }
        }
    }
}

/// Pieces that are large enough for several, and those of a packed file.
#[test]
fn many_pieces_and_packed_files() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS[..3] {
            let database = fresh(cluster);
            let files = Files::new();
            let filler = "x".repeat(150);
            let lines: Vec<Line> =
                rows(24_000, true).into_iter().map(|(row, bad)| (row + &filler, bad)).collect();
            make_plain(&database, &files, COLUMNS, &lines);
            let (name, bytes) = &packed(text(&lines).as_bytes())[0];
            let sources = [
                files.write("rows.csv", text(&lines)),
                files.write(&format!("rows.{name}"), bytes),
            ];
            for source in &sources {
                database.psql("DROP TABLE IF EXISTS ours");
                make(&database, way, KEYS);
                let mut options = vec!["--format", "csv", "--header", "none", "--verify", "full"];
                options.extend(["--json", "--max-rejects", "10%", "--streams", "2"]);
                options.extend(["--piece-size", "1MB"]);
                options.extend(way.options);
                let output = files.load(&database, source, "ours", &options);
                assert_eq!(output.code, REJECTS, "{source}: {}", output.stderr);
                assert_same(&database, "ours", "plain");
                assert_verified(&output, &lines, bad(&lines, &["23503", "23505"]));
                assert_equal(&files, &[]);
                database.psql("UPDATE ours SET s = s || '!' WHERE k = 20000");
                let (code, report, _) = verify(&files, &[]);
                assert_eq!(code, 1, "{report}");
            }
        }
    }
}

#[test]
fn sifted_rows_are_rejects_to_counts_too() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS {
            let database = fresh(cluster);
            let files = Files::new();
            let lines = rows(2000, true);
            make(&database, way, KEYS);
            make_plain(&database, &files, COLUMNS, &lines);
            let mut options = way.options.to_vec();
            options.push("--json");
            let output = loads(&database, &files, &lines, &options);
            let said: Value = serde_json::from_str(&output.stdout).expect("one object");
            let good = lines.iter().filter(|(_, bad)| bad.is_none()).count();
            assert_eq!(said["verified"]["level"], "quick", "{said}");
            assert_eq!(said["verified"]["rows"], good, "{said}");
            assert_eq!(said["rejected"], lines.len() - good, "{said}");
        }
    }
}

/// Files do not tell which of their rows a table refused; the ledger tells those that were sifted.
#[test]
fn the_files_once_more() {
    let against = ["--against"];
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in &WAYS {
            let database = fresh(cluster);
            let files = Files::new();
            let mut options = way.options.to_vec();
            options.extend(["--verify", "full"]);
            // Only keys are broken, and values that are none.
            let lines: Vec<Line> = rows(2000, true)
                .into_iter()
                .filter(|(_, bad)| !matches!(bad, Some("23502" | "23514")))
                .collect();
            make(&database, way, KEYS);
            make_plain(&database, &files, COLUMNS, &lines);
            loads(&database, &files, &lines, &options);
            assert_equal(&files, &against);
            if way.tail.is_empty() {
                // Files without the bad rows, and the same file in two.
                let good = files.path("good.csv").display().to_string();
                assert_equal(&files, &["--against", &good]);
                let all = text(&lines);
                let half = all[..all.len() / 2].rfind('\n').expect("a line") + 1;
                let parts =
                    [files.write("1.csv", &all[..half]), files.write("2.csv", &all[half..])];
                let report = assert_equal(&files, &["--against", &parts[0], &parts[1]]);
                assert!(
                    report["not_covered"].to_string().contains("rejected violated"),
                    "{report}"
                );
            }
            let is_appended = way.options.is_empty();
            database.psql("UPDATE ours SET s = 'other' WHERE k = 1003");
            let (code, report, error) = verify(&files, &against);
            assert_eq!(code, 1, "{report} {error}");
            let words = if is_appended { "missing" } else { "column s" };
            assert!(report["findings"].to_string().contains(words), "{report}");
            // A CHECK was broken, too.
            let lines = rows(2000, true);
            database.psql("DROP TABLE ours");
            make(&database, way, KEYS);
            make_plain(&database, &files, COLUMNS, &lines);
            loads(&database, &files, &lines, &options);
            assert_equal(&files, &[]);
            let (code, _, error) = verify(&files, &against);
            assert_eq!(code, REFUSED, "{error}");
            for words in ["violated constraints", "hint:", "--against FILES"] {
                assert!(error.contains(words), "{error}");
            }
        }
    }
}

const LINEAGE: &str = "run=run,file=file,line=line,loaded_at=at";

fn make_marked(database: &TestDatabase<'_>, keys: &str) {
    database.psql(&format!(
        "DROP TABLE IF EXISTS ours;
         CREATE TABLE ours (k bigint {keys}, v text, run text, file text, line bigint, at timestamptz)"
    ));
}

#[test]
fn rows_that_say_where_they_came_from() {
    let twice = |line: usize| if line.is_multiple_of(100) { line / 2 + 1 } else { line };
    let rows: String = (1..=3000).map(|line| format!("{},row {line}\n", twice(line))).collect();
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for publish in ["append", "replace"] {
            let database = cluster.fresh_database();
            let files = Files::new();
            let file = files.write("a.csv", &rows);
            let mut args = vec!["--header", "none", "--format", "csv", "--publish", publish];
            args.extend(["--verify", "full", "--json", "--lineage", LINEAGE]);
            make_marked(&database, "");
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, 0, "{}", output.stderr);
            let report = assert_equal(&files, &[]);
            assert_eq!(report["columns"], 6, "{report}");
            // They are in no file.
            let report = assert_equal(&files, &["--against"]);
            assert_eq!(report["columns"], 2, "{report}");
            let left = report["not_covered"].to_string();
            assert!(left.contains("run, file, line, at did not come"), "{left}");
            make_marked(&database, "PRIMARY KEY");
            args.extend(["--max-rejects", "100"]);
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, REJECTS, "{}", output.stderr);
            let said: Value = serde_json::from_str(&output.stdout).expect("one object");
            assert_eq!(said["verified"]["violations"], 30, "{said}");
            assert_equal(&files, &[]);
            // What was sifted was summed with its lineage.
            let (code, _, error) = verify(&files, &["--against"]);
            assert_eq!(code, REFUSED, "{error}");
            database.psql("UPDATE ours SET line = line + 1 WHERE k = 7");
            let (code, report, _) = verify(&files, &[]);
            assert_eq!(code, 1, "{report}");
        }
    }
}

/// The rows of each attempt have its own moment.
#[test]
fn a_run_that_was_gone_on_with_is_sifted() {
    let filler = "x".repeat(150);
    let twice = |line: usize| if line.is_multiple_of(100) { line / 2 + 1 } else { line };
    let rows: String =
        (1..=24_000).map(|line| format!("{},row {line} {filler}\n", twice(line))).collect();
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        files.cut_into("1500kB");
        let small = files.write("small.csv", "1,one\n");
        database.psql("CREATE TABLE first (k int, v text)");
        let made = files.load(&database, &small, "first", &["--header", "none"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let file = files.write("a.csv", &rows);
        for publish in ["append", "replace"] {
            make_marked(&database, "PRIMARY KEY");
            let mut args = vec!["--header", "none", "--format", "csv", "--publish", publish];
            args.extend(["--method", "copy", "--verify", "full", "--lineage", LINEAGE]);
            args.extend(["--max-rejects", "10%", "--streams", "1"]);
            files.kill_load_at(&database, Moment::PieceBegins(2), &file, "ours", &args);
            let resumed = files.fullbore(&["runs", "resume", "last"]);
            assert_eq!(resumed.code, REJECTS, "{}", resumed.stderr);
            assert!(
                resumed.stderr.contains("excluding 240 rows that violated constraints"),
                "{}",
                resumed.stderr
            );
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "23760");
            assert_eq!(database.psql("SELECT count(DISTINCT at) FROM ours"), "2");
            assert_equal(&files, &[]);
            database.psql("UPDATE ours SET at = at + interval '1 second' WHERE k = 23999");
            let (code, report, _) = verify(&files, &[]);
            assert_eq!(code, 1, "{report}");
        }
    }
}

#[test]
fn parts_of_several_hosts_are_counted() {
    let cluster = shared_or_skip!(SERVERS[0]);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (k int, v text)");
    let sources = [files.write("1.csv", "1,one\n"), files.write("2.csv", "2,two\n3,three\n")];
    for (source, part) in sources.iter().zip(["1/2", "2/2"]) {
        let mut args = vec!["--header", "none", "--format", "csv", "--publish", "replace"];
        args.extend(["--part", part]);
        let full = [args.clone(), vec!["--verify", "full"]].concat();
        let refused = files.load(&database, source, "ours", &full);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        assert!(refused.stderr.contains("loads of one host"), "{}", refused.stderr);
        assert!(refused.stderr.contains("hint:"), "{}", refused.stderr);
        let loaded = files.load(&database, source, "ours", &args);
        assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "3");
    let (code, _, error) = verify(&files, &["--against"]);
    assert_eq!(code, REFUSED, "{error}");
    assert!(error.contains("the rows of all parts"), "{error}");
}
