//! Rows with fewer or more fields, and lines without any.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{told, ways};
use crate::common::{Files, assert_same};

const ROWS: &str = "1,a,x\n2,b\n3\n4,d,x,more,\"and\nmore\"\n5,,\n";

fn loaded(ragged: &[&str], expected: &str, said: &str, lines: &[(u64, u64)]) {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text, b text)");
    let files = Files::new();
    let options = [&["--format", "csv", "--header", "none", "--max-rejects", "9"], ragged].concat();
    let rows =
        "SELECT string_agg(id || coalesce(a, '-') || coalesce(b, '-'), ' ' ORDER BY id) FROM t";
    ways(&files, &database, ROWS.as_bytes(), &options, |way, output| {
        let code = if lines.is_empty() { 0 } else { 3 };
        assert_eq!(output.code, code, "{way}: {}", output.stderr);
        assert_eq!(database.psql(rows), expected, "{way}");
        assert!(output.stderr.contains(said), "{way}: {}", output.stderr);
        if code == 3 {
            let found: Vec<_> = told(&files).into_iter().map(|told| (told.0, told.2)).collect();
            assert_eq!(found, lines, "{way}");
        }
    });
}

#[test]
fn ragged_rows_are_rejected_by_default() {
    loaded(&[], "1ax 5--", "4 rows rejected", &[(2, 1), (3, 1), (4, 2)]);
}

#[test]
fn missing_fields_are_padded_with_null() {
    loaded(&["--ragged", "pad"], "1ax 2b- 3-- 5--", "2 rows padded with NULL", &[(4, 2)]);
}

#[test]
fn further_fields_are_cut() {
    loaded(&["--ragged", "cut"], "1ax 4dx 5--", "1 row cut", &[(2, 1), (3, 1)]);
}

#[test]
fn padding_is_null_whatever_stands_for_null() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text, b int, c date)");
    let files = Files::new();
    // Many short rows of a block: they are taken in small portions.
    let text: String = (0..20_000).map(|id| format!("{id}\n")).collect();
    let options = ["--format", "csv", "--header", "none", "--null", "NA", "--ragged", "pad"];
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        assert!(output.stderr.contains("20,000 rows padded"), "{way}: {}", output.stderr);
        let found = database.psql("SELECT count(*), sum(id), count(a), count(b), count(c) FROM t");
        assert_eq!(found, "20000|199990000|0|0|0", "{way}");
    });
}

#[test]
fn blank_lines_are_skipped_and_counted() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text = "1,a\n\n   \n2,b\r\n\n";
    for more in [&["--quotes", "strict", "--line-end", "mixed"][..], &["--line-end", "mixed"]] {
        let options = [&["--delimiter", ",", "--header", "none"], more].concat();
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{way}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "2", "{way}");
            assert!(output.stderr.contains("3 blank lines skipped"), "{way}: {}", output.stderr);
        });
    }
    let output = files.fullbore(&[
        "load",
        &files.write("x.csv", "1,a\n\n2,b\n"),
        "--to",
        "null:",
        "--header",
        "none",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(json["counts"]["blank"], 1, "{}", output.stdout);
}

#[test]
fn a_blank_line_is_a_value_of_a_table_with_one_column() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a text); CREATE TABLE plain (LIKE t)");
    let files = Files::new();
    let text = "x\n\n  \ny\n";
    let file = files.write("plain.csv", text);
    for format in ["csv", "text"] {
        database.psql(&format!("TRUNCATE plain; COPY plain FROM '{file}' (FORMAT {format})"));
        let options = ["--format", format, "--header", "none"];
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{way}: {}", output.stderr);
            assert_same(&database, "t", "plain");
        });
    }
}
