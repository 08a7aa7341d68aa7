//! Every bad input is a reject with line and reason, or a clear refusal before anything is touched.

mod common;

use common::{Files, assert_no_leftovers};
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};

const REFUSED: i32 = 2;
const FAILED: i32 = 1;
const REJECTS: i32 = 3;

/// Loads `text` into a fresh table of `columns` and hands everything to `check`.
fn with(
    columns: &str,
    text: impl AsRef<[u8]>,
    more: &[&str],
    check: impl Fn(&Output, &TestDatabase<'_>, &Files),
) {
    for server in [TestServer::Embedded18, TestServer::Pg16] {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(&format!("CREATE TABLE t ({columns})"));
        let files = Files::new();
        let file = files.write("input.csv", text.as_ref());
        let mut args = vec!["--format", "csv"];
        args.extend(more);
        let output = files.load(&database, &file, "t", &args);
        check(&output, &database, &files);
        assert_no_leftovers(&database);
    }
}

/// One bad line among good ones: rejected with its line, reason and column, the others loaded.
fn rejects(
    columns: &str,
    text: impl AsRef<[u8]>,
    more: &[&str],
    line: u64,
    column: Option<&str>,
    reason: &str,
) {
    let mut args = vec!["--max-rejects", "10", "--header", "none"];
    args.extend(more);
    with(columns, text.as_ref(), &args, |output, database, files| {
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        let reasons = files.reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let said = reasons[0]["reason"].as_str().expect("a reason");
        assert!(said.contains(reason), "{said:?} lacks {reason:?}");
        assert_eq!(reasons[0]["line"], line, "{:?}", reasons[0]);
        if let Some(column) = column {
            assert_eq!(reasons[0]["column"], column, "{:?}", reasons[0]);
        }
        assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
    });
    // Without an allowance the run fails and keeps nothing.
    with(columns, text, &["--header", "none", "--atomic"], |output, database, _| {
        assert_eq!(output.code, FAILED, "{}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    });
}

#[test]
fn wrong_number_of_fields() {
    rejects(
        "a int, b int",
        "1,2\n3\n4,5\n",
        &["--columns", "a,b"],
        2,
        None,
        "missing data for column \"b\"",
    );
    rejects("a int, b int", "1,2\n3,4,5\n6,7\n", &["--columns", "a,b"], 2, None, "extra data");
}

#[test]
fn unterminated_quote() {
    rejects(
        "a int, b text",
        "1,x\n2,y\n3,\"never closed\n",
        &[],
        3,
        None,
        "unterminated CSV quoted field",
    );
}

#[test]
fn numbers_out_of_range() {
    rejects("a int, b int", "1,2\n3,2147483648\n5,6\n", &[], 2, Some("b"), "out of range");
    rejects(
        "a int, b numeric(5,2)",
        "1,999.99\n2,1000\n3,1\n",
        &[],
        2,
        Some("b"),
        "numeric field overflow",
    );
    rejects("a int, b float8", "1,1e300\n2,1e400\n3,0\n", &[], 2, Some("b"), "out of range");
}

#[test]
fn thirtieth_of_february() {
    rejects(
        "a int, b date",
        "1,2024-02-29\n2,2024-02-30\n3,2024-03-01\n",
        &[],
        2,
        Some("b"),
        "date",
    );
}

#[test]
fn nul_bytes_and_bad_utf8() {
    rejects("a int, b text", "1,x\n2,y\0z\n3,w\n", &[], 2, None, "0x00");
    rejects("a int, b text", b"1,x\n2,\xff\xfe\n3,w\n", &[], 2, None, "invalid byte sequence");
}

#[test]
fn mixed_line_ends() {
    rejects("a int, b int", "1,2\n3,4\r\n5,6\n", &[], 2, None, "carriage return");
    rejects("a int, b int", "1,2\r\n3,4\n5,6\r\n", &[], 2, None, "newline");
}

#[test]
fn rejected_rows_load_again_once_mended() {
    with(
        "a int, b date",
        "a,b\n1,2024-01-01\n2,someday\n3,2024-01-03\n",
        &["--header", "true", "--max-rejects", "50%"],
        |output, database, files| {
            assert_eq!(output.code, REJECTS, "{}", output.stderr);
            let rejected = files.read_ending(".rejected");
            assert_eq!(rejected, "a,b\n2,someday\n");
            let mended = files.write("mended.csv", rejected.replace("someday", "2024-01-02"));
            let output =
                files.load(database, &mended, "t", &["--format", "csv", "--header", "true"]);
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_eq!(database.psql("SELECT sum(a) FROM t"), "6");
        },
    );
}

#[test]
fn empty_files_and_headers_alone_load_nothing() {
    for (text, header) in [("", "none"), ("", "true"), ("a,b\n", "true"), ("a,b", "true")] {
        with(
            "a int, b int",
            text,
            &["--header", header, "--columns", "a,b"],
            |output, database, _| {
                assert_eq!(output.code, 0, "{}", output.stderr);
                assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
            },
        );
    }
}

/// Refused before anything is touched, with words that name the matter.
fn refused(columns: &str, text: &str, more: &[&str], words: &str) {
    with(columns, text, more, |output, database, _| {
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    });
}

#[test]
fn headers_that_do_not_match() {
    refused("a int, b int", "a,c\n1,2\n", &["--header", "true"], "no column \"c\"");
    refused("a int, b int", "a\n1\n", &["--header", "true"], "lacks the table's columns b");
    refused("a int, b int", "a,b,a\n1,2,3\n", &["--header", "true"], "\"a\" twice");
    refused("a int, b int", "b,a\n1,2\n", &["--header", "match"], "the table's columns are");
    refused("a int, b int", "1,2,3\n", &["--header", "none"], "records have 3 fields");
}

#[test]
fn headers_match_in_any_order_and_fields_can_be_skipped() {
    with("a int, b int", "b,a\n2,1\n", &["--header", "true"], |output, database, _| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT a, b FROM t"), "1|2");
    });
    with(
        "a int, b int",
        "2,x,1\n",
        &["--header", "none", "--columns", "b,-,a"],
        |output, database, _| {
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_eq!(database.psql("SELECT a, b FROM t"), "1|2");
        },
    );
}

#[test]
fn fields_that_are_too_long() {
    let text = format!("1,{}\n", "x".repeat(3_000_000));
    with(
        "a int, b text",
        &text,
        &["--header", "none", "--max-field-bytes", "1000000"],
        |output, _, _| {
            assert_eq!(output.code, FAILED, "{}", output.stderr);
            assert!(output.stderr.contains("--max-field-bytes"), "{}", output.stderr);
        },
    );
    with("a int, b text", &text, &["--header", "none"], |output, database, _| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT length(b) FROM t"), "3000000");
    });
}

#[test]
fn files_that_can_not_be_read() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let output = files.load(&database, "nowhere.csv", "t", &[]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("nowhere.csv"), "{}", output.stderr);
    let output = files.load(&database, "no*.csv", "t", &[]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    // Cut off in the middle: what was read before must not stay.
    let text: String = (0..1_000_000).map(|i| format!("{i}\n")).collect();
    for (packer, mut content) in common::packed(text.as_bytes()) {
        content.truncate(content.len() * 3 / 4);
        let cut = files.write("cut.csv", content);
        let args = ["--format", "csv", "--header", "none", "--atomic"];
        let output = files.load(&database, &cut, "t", &args);
        assert_eq!(output.code, FAILED, "{packer}: {}", output.stderr);
        assert!(output.stderr.contains("damaged or cut off"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
        assert_no_leftovers(&database);
    }
}

#[test]
fn targets_that_can_not_be_loaded() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    let args = ["--format", "csv", "--header", "none"];
    let output = files.load(&database, &file, "missing", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(
        output.stderr.contains("there is no table") && output.stderr.contains("--create"),
        "{}",
        output.stderr
    );
    database.psql("CREATE VIEW v AS SELECT 1 AS a");
    let output = files.load(&database, &file, "v", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("is a view"), "{}", output.stderr);
}

#[test]
fn servers_that_can_not_be_reached() {
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let url = "postgresql://someone:s3cret-w0rd@127.0.0.1:1/nothing";
    let output = files.fullbore(&["load", &file, "--to", url, "--table", "t"]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(!output.stderr.contains("s3cret"), "{}", output.stderr);
    assert!(output.stderr.contains("hint:"), "{}", output.stderr);
}

#[test]
fn constraints_fail_the_run_and_are_named() {
    for (columns, text, words) in [
        ("a int NOT NULL, b int", "1,2\n,3\n", "not-null"),
        ("a int, b int, CONSTRAINT small_b CHECK (b < 3)", "1,2\n2,3\n", "small_b"),
        ("a int CONSTRAINT only_once UNIQUE, b int", "1,2\n1,3\n", "only_once"),
        ("a int, b int CONSTRAINT known REFERENCES parent (id)", "1,1\n2,9\n", "known"),
    ] {
        for publish in [&["--atomic"][..], &["--publish", "replace"], &["--publish", "append"]] {
            let cluster = shared_or_skip!(TestServer::Embedded18);
            let database = cluster.fresh_database();
            database
                .psql("CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1)");
            database.psql(&format!("CREATE TABLE t ({columns})"));
            let files = Files::new();
            let file = files.write("x.csv", text);
            let mut args = vec!["--format", "csv", "--header", "none"];
            args.extend(publish);
            let output = files.load(&database, &file, "t", &args);
            assert_eq!(output.code, FAILED, "{columns} {publish:?}: {}", output.stderr);
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn key_ranges_that_overlap_are_refused_with_both_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint, v text) PARTITION BY RANGE (k)");
    let files = Files::new();
    let rows = |from: i64| -> String {
        (from..from + 700_000).map(|k| format!("{k},some payload to fill it\n")).collect()
    };
    files.write("part.1.csv", rows(500_000));
    files.write("part.2.csv", rows(0));
    let args = ["--format", "csv", "--header", "none", "--publish", "partitions"];
    let output = files.load(&database, "part.*.csv", "t", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(
        output.stderr.contains("part.1.csv") && output.stderr.contains("part.2.csv"),
        "{}",
        output.stderr
    );
    // Unsorted within a file: seen when the row arrives, and nothing is published.
    let mut text = rows(0);
    text.push_str("5,a key that came before\n900000,the last\n");
    let file = files.write("unsorted.csv", text);
    let output = files.load(&database, &file, "t", &args);
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("key ranges overlap"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    assert_no_leftovers(&database);
}

#[test]
fn hostile_names_are_quoted() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE SCHEMA \"S; --\"; CREATE TABLE \"S; --\".\"T \"\"x\"\"; DROP TABLE y; ü\" (\"a b\" int, \"c\"\"d;'\" text)");
    let files = Files::new();
    let file = files.write("o'dd; \"näme\".csv", "\"a b\",\"c\"\"d;'\"\n1,x\n");
    let table = "\"S; --\".\"T \"\"x\"\"; DROP TABLE y; ü\"";
    for publish in ["append", "replace"] {
        let output = files.load(
            &database,
            &file,
            table,
            &["--format", "csv", "--header", "true", "--publish", publish],
        );
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    assert_eq!(database.psql(&format!("SELECT * FROM {table}")), "1|x");
}

#[test]
fn publications_for_all_tables_stop_staging() {
    let Ok(cluster) = fullbore_testing::TestCluster::with_settings(
        TestServer::Embedded18,
        &[("wal_level", "logical")],
    ) else {
        fullbore_testing::skip!("no PostgreSQL 18");
    };
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int); CREATE PUBLICATION everything FOR ALL TABLES");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let args = ["--format", "csv", "--header", "none", "--atomic"];
    let output = files.load(&database, &file, "t", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(
        output.stderr.contains("everything") && output.stderr.contains("--allow-publication"),
        "{}",
        output.stderr
    );
    let mut allowed = args.to_vec();
    allowed.push("--allow-publication");
    assert_eq!(files.load(&database, &file, "t", &allowed).code, 0);
}
