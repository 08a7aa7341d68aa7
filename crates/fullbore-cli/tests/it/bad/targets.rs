//! Targets that refuse: missing, no table, no permission, constraints, key ranges, publications;
//! and names that a careless statement would break on.

use crate::common::codes::{FAILED, REFUSED};
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip};

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
        output.stderr.contains("does not exist") && output.stderr.contains("--create"),
        "{}",
        output.stderr
    );
    database.psql("CREATE VIEW v AS SELECT 1 AS a");
    let output = files.load(&database, &file, "v", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("is a view"), "{}", output.stderr);
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

#[test]
fn constraints_of_partitions_are_named_too() {
    for (columns, text, words) in [
        ("a int, b int NOT NULL", "1,2\n2,\n", "not-null"),
        ("a int, b int, CONSTRAINT small_b CHECK (b < 3)", "1,2\n2,3\n", "small_b"),
        ("a int, b int, CONSTRAINT only_once UNIQUE (a, b)", "1,2\n1,2\n", "(a, b)=(1, 2)"),
        ("a int, b int CONSTRAINT known REFERENCES parent (id)", "1,1\n2,9\n", "known"),
    ] {
        let cluster = shared_or_skip!(TestServer::Embedded18);
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1)");
        database.psql(&format!("CREATE TABLE t ({columns}) PARTITION BY RANGE (a)"));
        let files = Files::new();
        let file = files.write("x.csv", text);
        let args = ["--format", "csv", "--header", "none", "--publish", "partitions"];
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, FAILED, "{columns}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
        assert_no_leftovers(&database);
    }
}

#[test]
fn permissions_that_lack() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "DROP ROLE IF EXISTS fb_reader; CREATE ROLE fb_reader LOGIN;
         CREATE TABLE t (a int); GRANT SELECT ON t TO fb_reader",
    );
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let url = format!("{}&user=fb_reader", database.url());
    let url = if database.url().contains('?') { url } else { url.replacen('&', "?", 1) };
    for (table, more, words) in [
        ("t", &[][..], "lacks INSERT privilege on"),
        ("t", &["--publish", "replace"], "is not the owner of"),
        ("fresh", &["--create"], "permission denied for schema public"),
    ] {
        let mut args = vec!["load", &file, "--to", &url, "--table", table];
        args.extend(["--format", "csv", "--header", "none"]);
        args.extend(more);
        let output = files.fullbore(&args);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    database.psql("DROP OWNED BY fb_reader; DROP ROLE fb_reader");
}

#[test]
fn hostile_names_in_headers_become_columns() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let header = "\"id; DROP TABLE y\",\"it's \"\"näme\"\"\",\"line\none\",%s $1";
    let file = files.write("o'dd; 日本 $x.csv", format!("{header}\n1,a,b,c\n2,d,e,f\n"));
    let table = "\"T; \"\"日本\"\" $1\"";
    let make = ["--create", "--header", "true", "--partition-by", "id; DROP TABLE y"];
    let mut args = make.to_vec();
    args.extend(["--publish", "partitions"]);
    let output = files.load(&database, &file, table, &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let read =
        format!("SELECT \"id; DROP TABLE y\", \"it's \"\"näme\"\"\", \"%s $1\" FROM {table}");
    assert_eq!(database.psql(&format!("{read} ORDER BY 1")), "1|a|c\n2|d|f");
    assert_no_leftovers(&database);
}
