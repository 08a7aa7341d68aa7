//! Rows that go as text into tables whose triggers keep rows out, or talk: what the server skips is told
//! apart from what they keep out, and from what they say.

use crate::common::Files;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

const WITH_REJECTS: i32 = 3;

/// A table whose trigger keeps every tenth row out and says so, with a number of its own.
fn make(database: &TestDatabase<'_>) {
    database.psql(
        "CREATE OR REPLACE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.k % 10 = 0 THEN RAISE NOTICE 'row % ignored', NEW.k + 3; RETURN NULL; END IF;
             IF NEW.k % 10 = 1 THEN RAISE NOTICE 'row % seen', NEW.k; END IF;
             RETURN NEW;
         END $$;
         DROP TABLE IF EXISTS t; CREATE TABLE t (k int, d date);
         CREATE TRIGGER ignore BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION ignore()",
    );
}

/// 200 rows; some are odd, and those of these lines, from 1, are bad.
fn rows(bad: &[u64]) -> String {
    let day = |line| match line % 20 {
        _ if bad.contains(&line) => "no day",
        7 => "\"Jan 5, 2020\"",
        _ => "2020-01-05",
    };
    (1..=200).map(|line| format!("{line},{}\n", day(line))).collect()
}

fn lines_rejected(files: &Files) -> Vec<u64> {
    let lines = files.reasons();
    let lines = lines.iter().map(|reason| reason["line"].as_u64().expect("a line")).collect();
    for entry in std::fs::read_dir(files.folder()).expect("listed").flatten() {
        if entry.file_name().to_string_lossy().contains(".rejected") {
            std::fs::remove_file(entry.path()).expect("removed");
        }
    }
    lines
}

#[test]
fn rows_kept_out_and_rows_refused_are_told_apart() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let good = files.write("good.csv", rows(&[]));
        let bad = files.write("bad.csv", rows(&[13, 99]));
        for lane in [&[][..], &["--as-text"]] {
            // 20 rows end in a zero, and none of them is bad.
            make(&database);
            let args = [&["--header", "none"], lane].concat();
            let output = files.load(&database, &good, "t", &args);
            assert_eq!(output.code, 0, "{server:?} {lane:?}: {}", output.stderr);
            let words = "20 rows suppressed by the table's triggers";
            assert!(output.stderr.contains(words), "{}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "180");
        }
        // A run that may reject rows shows them all at once; one that is told so by parts does not.
        for lane in [&[][..], &["--as-text"]] {
            make(&database);
            let args = [&["--header", "none", "--max-rejects", "5"], lane].concat();
            let output = files.load(&database, &bad, "t", &args);
            assert_eq!(output.code, WITH_REJECTS, "{server:?} {lane:?}: {}", output.stderr);
            assert_eq!(lines_rejected(&files), [13, 99]);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "178");
        }
    }
}

/// With a trigger's notices and COPY's in one stream: a plain append that finds a bad row says which.
#[test]
fn a_trigger_that_talks_is_not_taken_for_copy() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let bad = files.write("bad.csv", rows(&[13]));
        make(&database);
        let output = files.load(&database, &bad, "t", &["--header", "none", "--as-text"]);
        assert_ne!(output.code, 0, "{server:?}: {}", output.stderr);
        for words in ["line 13", "no day"] {
            assert!(output.stderr.contains(words), "{server:?}: {}", output.stderr);
        }
    }
}

#[test]
fn a_role_that_hears_no_notices_is_told_all_the_same() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let bad = files.write("bad.csv", rows(&[13, 99]));
        database.psql(
            "CREATE TABLE t (k int, d date); DO $$ BEGIN EXECUTE format(
                 'ALTER DATABASE %I SET client_min_messages = warning', current_database()); END $$",
        );
        let output = files.load(&database, &bad, "t", &["--header", "none", "--max-rejects", "5"]);
        assert_eq!(output.code, WITH_REJECTS, "{server:?}: {}", output.stderr);
        assert_eq!(lines_rejected(&files), [13, 99]);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "198");
    }
}
