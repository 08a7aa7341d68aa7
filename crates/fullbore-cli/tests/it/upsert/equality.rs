//! What an upsert leaves is what the slow and obvious way leaves: rows one by one, in the order of files and lines.

use super::{merged, upsert};
use crate::common::codes::REFUSED;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

/// The columns: a key of two, values of several types, one that says how new a row is.
const COLUMNS: &str = "a int, \"b c\" text, n numeric, t text, j jsonb, d double precision, newer int, PRIMARY KEY (\"b c\", a)";

/// Rows that are pseudo-random, but always the same.
struct Rows(u64);

impl Rows {
    fn next(&mut self, below: u64) -> u64 {
        // Knuth's multiplier of MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Lines of which many share keys; some are written as only the server reads them.
    fn text(&mut self, lines: u64) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            let a = self.next(900);
            let a = if self.next(9) == 0 { format!(" {a}") } else { a.to_string() };
            let b = ["x", "y", "\"z, z\"", "é"][self.next(4) as usize];
            let n = ["1", "1.0", "1.00", "-7.5", ""][self.next(5) as usize];
            let t = ["same", "other", "\"\"", "", "\"two\nlines\""][self.next(5) as usize];
            let j = ["{\"\"k\"\": 1}", "[1, 2]"][self.next(2) as usize];
            let d = ["0", "-0", "NaN", "1e300", ""][self.next(5) as usize];
            let newer = if self.next(8) == 0 { String::new() } else { self.next(6).to_string() };
            text.push_str(&format!("{a},{b},{n},{t},\"{j}\",{d},{newer}\n"));
        }
        text
    }
}

/// The statement that does with one row what the load is asked for, in PL/pgSQL on a record `r`.
fn one_by_one(on_conflict: &str) -> String {
    let columns = "a, \"b c\", n, t, j, d, newer";
    let set =
        "n = excluded.n, t = excluded.t, j = excluded.j, d = excluded.d, newer = excluded.newer";
    let act = match on_conflict {
        "nothing" => "NOTHING".to_owned(),
        "update" => format!("UPDATE SET {set}"),
        _ => {
            format!("UPDATE SET {set} WHERE theirs.newer IS NULL OR excluded.newer >= theirs.newer")
        }
    };
    format!(
        "DO $$ DECLARE r record; BEGIN
             FOR r IN SELECT * FROM lines ORDER BY place LOOP
                 INSERT INTO theirs ({columns}) VALUES (r.a, r.\"b c\", r.n, r.t, r.j, r.d, r.newer)
                 ON CONFLICT (a, \"b c\") DO {act};
             END LOOP; END $$"
    )
}

fn rows(database: &TestDatabase<'_>, table: &str) -> String {
    database.psql(&format!("SELECT * FROM {table} ORDER BY a, \"b c\""))
}

/// Makes `ours` and `theirs` with the same rows, and `lines` with all lines in their order.
fn prepare(database: &TestDatabase<'_>, before: &str, sources: &[String], tail: &str) {
    let copies: String = sources
        .iter()
        .map(|source| {
            format!("COPY lines (a, \"b c\", n, t, j, d, newer) FROM '{source}' (FORMAT csv);")
        })
        .collect();
    let tail = match tail {
        "" => String::new(),
        // A partition of each.
        _ => format!(
            "{tail}; CREATE TABLE ours_0 PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE ours_1 PARTITION OF ours FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
        ),
    };
    database.psql(&format!(
        "DROP TABLE IF EXISTS ours, theirs, lines;
         CREATE TABLE theirs ({COLUMNS}); CREATE TABLE ours ({COLUMNS}){tail};
         CREATE TABLE lines (place serial, a int, \"b c\" text, n numeric, t text, j jsonb,
                             d double precision, newer int);
         COPY lines (a, \"b c\", n, t, j, d, newer) FROM '{before}' (FORMAT csv); {};
         INSERT INTO ours SELECT * FROM theirs; TRUNCATE lines; {copies}",
        one_by_one("update")
    ));
}

#[test]
fn all_ways_leave_what_rows_one_by_one_leave() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let mut made = Rows(7);
    let before = files.write("before.csv", made.text(2_000));
    let sources: Vec<String> = ["1.csv", "2.csv", "3.csv"]
        .into_iter()
        .map(|name| {
            let text = made.text(8_000);
            files.write(name, text)
        })
        .collect();
    let sources_args: Vec<&str> = sources.iter().map(String::as_str).collect();
    let ways: [(&str, &str, &[&str]); 7] = [
        ("update", "", &["--piece-size", "100kB"]),
        ("update", " PARTITION BY HASH (a)", &["--piece-size", "100kB"]),
        ("nothing", "", &["--atomic"]),
        ("nothing", " PARTITION BY HASH (a)", &["--as-text", "--piece-size", "110kB"]),
        ("newest:newer", "", &["--verify", "full", "--piece-size", "110kB"]),
        ("newest:newer", " PARTITION BY HASH (a)", &["--atomic", "--verify", "full"]),
        ("update", "", &["--no-ledger", "--as-text", "--streams", "3"]),
    ];
    for (on_conflict, tail, more) in ways {
        prepare(&database, &before, &sources, tail);
        let mut args = vec!["--header", "none", "--on-conflict", on_conflict];
        args.extend(more);
        if !more.contains(&"--no-ledger") {
            args.extend(["--if-loaded", "again"]);
        }
        let known = rows(&database, "ours");
        let output = upsert(&files, &database, &sources_args, &args);
        assert_eq!(output.code, 0, "{on_conflict} {more:?}: {}", output.stderr);
        database.psql(&one_by_one(on_conflict));
        assert_eq!(rows(&database, "ours"), rows(&database, "theirs"), "{on_conflict} {more:?}");
        assert_ne!(rows(&database, "ours"), known);
        assert_no_leftovers(&database);
        // Counts: every key is of one kind.
        let counts: Vec<u64> = merged(&output)
            .split(", ")
            .map(|count| count.split(' ').next().expect("a number").replace(',', "").parse())
            .collect::<Result<_, _>>()
            .expect("numbers");
        let keys = database.psql("SELECT count(DISTINCT (a, \"b c\")) FROM lines");
        assert_eq!(counts[..3].iter().sum::<u64>().to_string(), keys, "{}", output.stderr);
        assert_eq!((counts[3] + counts[..3].iter().sum::<u64>()).to_string(), "24000");
    }
}

#[test]
fn rows_that_are_the_same_are_not_written() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE TABLE ours (k int PRIMARY KEY, v numeric, w text);
         INSERT INTO ours VALUES (1, 1.0, 'a'), (2, 2.00, NULL), (3, 3, 'c'), (5, 5, 'e')",
    );
    let before = database.psql("SELECT k, xmin FROM ours WHERE k IN (1, 2, 5) ORDER BY k");
    let file = files.write("a.csv", "k,v,w\n1,1.0,a\n2,2.00,\n3,3.0,c\n4,4,d\n4,44,\"d\"\n");
    let output = upsert(&files, &database, &[&file], &["--key", "k"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let counts = "1 inserted, 1 updated, 2 unchanged, 1 replaced by others of the same key";
    assert_eq!(merged(&output), counts);
    let after = database.psql("SELECT k, xmin FROM ours WHERE k IN (1, 2, 5) ORDER BY k");
    assert_eq!(after, before);
    let rows = database.psql("SELECT * FROM ours ORDER BY k");
    assert_eq!(rows, "1|1.0|a\n2|2.00|\n3|3.0|c\n4|44|d\n5|5|e");
    // Once more: the ledger knows the file.
    let again = upsert(&files, &database, &[&file], &["--key", "k"]);
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(again.stderr.contains("already loaded the contents of"), "{}", again.stderr);
    let skipped = upsert(&files, &database, &[&file], &["--key", "k", "--if-loaded", "skip"]);
    assert_eq!(skipped.code, 0, "{}", skipped.stderr);
    let again =
        upsert(&files, &database, &[&file], &["--key", "k", "--if-loaded", "again", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&again.stdout).expect("JSON");
    let expected = serde_json::json!(
        {"inserted": 0, "updated": 0, "unchanged": 4, "deleted": 0, "duplicates": 1}
    );
    assert_eq!(summary["tables"][0]["merged"], expected, "{}", again.stdout);
}

#[test]
fn missing_rows_are_deleted_where_that_is_asked_for() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "k,v\n1,one\n4,four\n");
    for more in [&[][..], &["--atomic"]] {
        database.psql(
            "DROP TABLE IF EXISTS ours; CREATE TABLE ours (k int PRIMARY KEY, v text);
             INSERT INTO ours VALUES (1, 'one'), (2, 'two'), (3, NULL)",
        );
        let args = [&["--delete-missing"], more].concat();
        let output = upsert(&files, &database, &[&file], &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(merged(&output), "1 inserted, 0 updated, 1 unchanged, 2 deleted");
        assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "1|one\n4|four");
    }
}

#[test]
fn rows_of_files_that_would_be_skipped_are_not_missing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let first = files.write("a.csv", "k,v\n1,one\n");
    let second = files.write("b.csv", "k,v\n2,two\n");
    database.psql("CREATE TABLE ours (k int PRIMARY KEY, v text)");
    let output = upsert(&files, &database, &[&first], &["--delete-missing"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for more in [&["--if-loaded", "skip"][..], &["--resume"]] {
        let args = [&["--delete-missing"], more].concat();
        let output = upsert(&files, &database, &[&first, &second], &args);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains("would delete its rows from"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT * FROM ours"), "1|one");
    }
    let all = ["--delete-missing", "--if-loaded", "again"];
    let output = upsert(&files, &database, &[&first, &second], &all);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "1|one\n2|two");
}

#[test]
fn a_table_is_created_with_its_key() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let one = files.write("1.csv", "k,v\n1,one\n2,two\n1,uno\n");
    let output = upsert(&files, &database, &[&one], &["--create", "--key", "k"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let two = files.write("2.csv", "k,v\n2,due\n3,tre\n");
    let output = upsert(&files, &database, &[&two], &["--create", "--key", "k"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "1|uno\n2|due\n3|tre");
}
