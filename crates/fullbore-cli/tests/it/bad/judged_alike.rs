//! What the server judges row by row, or under other settings, is what COPY makes of it.

use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestServer, shared_or_skip, wanted};

const REJECTS: i32 = 3;

#[test]
fn domains_intervals_and_composites_after_many_refusals() {
    for server in wanted([TestServer::Pg14, TestServer::Pg16, TestServer::Embedded18]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE DOMAIN code AS varchar(3); CREATE DOMAIN codes AS code[];
             CREATE DOMAIN short AS code NOT NULL; CREATE TYPE pair AS (a int, b text);
             CREATE TABLE t (n int, c code, s short, l codes, i interval hour, p pair)",
        );
        let files = Files::new();
        // More refusals than are judged one by one, all in one chunk, and then what a cast would cut.
        let bad: String = (0..30).map(|_| "x,abc,abc,,10,\n").collect();
        let long: String = (0..5).map(|_| "1,abcdef,abc,,10,\n1,abc,abcd,,10,\n").collect();
        let good: String =
            (0..20).map(|n| format!("{n},ab,abc,{{ab}},10,\"({n},\"\"x y\"\")\"\n")).collect();
        let plain = files.write("plain.csv", &good);
        let file = files.write("t.csv", format!("{bad}{long}{good}"));
        let args = ["--header", "none", "--format", "csv", "--max-rejects", "100"];
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        let reasons = files.reasons();
        let lines: Vec<u64> = reasons.iter().filter_map(|reason| reason["line"].as_u64()).collect();
        assert_eq!(lines, (1..=40).collect::<Vec<u64>>(), "{server:?}");
        database.psql("CREATE TABLE plain (LIKE t)");
        database.psql(&format!("COPY plain FROM '{plain}' (FORMAT csv)"));
        assert_eq!(database.psql("SELECT count(*), min(i) FROM t"), "20|10:00:00", "{server:?}");
        assert_same(&database, "t", "plain");
        assert_no_leftovers(&database);
    }
}

#[test]
fn intervals_are_read_in_the_style_of_the_database() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (i interval); CREATE TABLE plain (i interval)");
    database.psql(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET intervalstyle = sql_standard', \
         current_database()); END $$",
    );
    let files = Files::new();
    let file = files.write("t.csv", "-1 2:03:04\n1 day\n");
    let output = files.load(&database, &file, "t", &["--header", "none", "--format", "csv"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
    assert_same(&database, "t", "plain");
    let hours = "SELECT extract(hour FROM min(i)) FROM t";
    assert_eq!(database.psql(hours), "-2");
}

#[test]
fn the_mark_of_an_end_is_no_value() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (columns, text) in [("a text", "x\n\\.\ny\n"), ("a text, b text", "x\t1\n\\.\ny\t2\n")] {
        let database = cluster.fresh_database();
        database.psql(&format!("CREATE TABLE t ({columns})"));
        let files = Files::new();
        let file = files.write("t.copy", text);
        let args = ["--header", "none", "--format", "text"];
        let output = files.load(&database, &file, "t", &[&args[..], &["--atomic"]].concat());
        assert_ne!(output.code, 0, "{}", output.stdout);
        assert!(output.stderr.contains("COPY ends the data there"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
        // What the first load rejected lies in a folder of its own.
        let files = Files::new();
        let file = files.write("t.copy", text);
        let output =
            files.load(&database, &file, "t", &[&args[..], &["--max-rejects", "1"]].concat());
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        assert_eq!(files.reasons()[0]["line"], 2);
        assert_eq!(database.psql("SELECT string_agg(a, '' ORDER BY a) FROM t"), "xy");
    }
}

/// Values that look like the names of other columns, and types whose input functions raise errors of
/// other classes than those of values.
#[test]
fn the_column_that_is_at_fault_is_named() {
    for server in wanted([TestServer::Pg14, TestServer::Pg16, TestServer::Embedded18]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE t (id int, customer_id bigint, payload json, q tsquery, r regclass)",
        );
        let lines = [
            ("1,2,\"{}\",a,pg_class", None),
            ("2,,\"{\"\"customer_id\"\": 7,\",a,pg_class", Some(("payload", "22P02"))),
            ("3,1,\"{\"\"x\"\": customer_id: 7,\",a,pg_class", Some(("payload", "22P02"))),
            ("4,1,\"{}\",a & & b,pg_class", Some(("q", "42601"))),
            ("5,1,\"{}\",a,no_such_table", Some(("r", "42P01"))),
            ("6,,,,", None),
        ];
        for copies in [1, 30] {
            database.psql("TRUNCATE t");
            let files = Files::new();
            let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
            let file = files.write("t.csv", text.repeat(copies));
            let args = ["--header", "none", "--format", "csv", "--max-rejects", "90%"];
            let output = files.load(&database, &file, "t", &args);
            assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), (2 * copies).to_string());
            let told: Vec<(u64, String, String)> = files
                .reasons()
                .iter()
                .map(|told| {
                    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
                    (told["line"].as_u64().unwrap_or(0), text("column"), text("code"))
                })
                .collect();
            let expected: Vec<(u64, String, String)> = (1..)
                .zip(lines.iter().cycle().take(lines.len() * copies))
                .filter_map(|(number, (_, bad))| {
                    bad.map(|(column, code)| (number, column.to_owned(), code.to_owned()))
                })
                .collect();
            assert_eq!(told, expected, "{server:?}");
        }
    }
}

/// A database of one byte for each character lacks most of them.
#[test]
fn characters_that_the_database_lacks_are_rejects_however_many() {
    for server in wanted([TestServer::Pg14, TestServer::Pg16, TestServer::Embedded18]) {
        let cluster = shared_or_skip!(server);
        let name = format!("latin_{}", std::process::id());
        cluster.psql(&format!(
            "CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        ));
        let url = cluster.url().replace("/postgres?", &format!("/{name}?"));
        cluster.psql_in(&url, "CREATE TABLE t (a int, b text)");
        let files = Files::new();
        let text: String = (0..90)
            .map(|n| format!("{n},{}\n", if n % 3 == 0 { "\u{2192}" } else { "\u{e9}" }))
            .collect();
        let file = files.write("t.csv", text);
        let args = ["--header", "none", "--format", "csv", "--max-rejects", "50"];
        let output = files.load_at(&url, &file, "t", &args);
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        let lines: Vec<u64> = files.reasons().iter().filter_map(|r| r["line"].as_u64()).collect();
        assert_eq!(lines, (0..30).map(|n| 3 * n + 1).collect::<Vec<u64>>(), "{server:?}");
        assert_eq!(cluster.psql_in(&url, "SELECT count(*) FROM t"), "60", "{server:?}");
        cluster.psql(&format!("DROP DATABASE {name}"));
    }
}
