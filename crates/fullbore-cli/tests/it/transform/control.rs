//! Control totals are compared before anything is published.

use crate::common::codes::REFUSED;
use crate::common::refused::fresh;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, extended_or_skip, wanted};

const ROWS: &str = "1,10.50\n2,-3.25\n3,7.00\n";

#[test]
fn totals_that_differ_end_the_load_before_it_is_published() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = extended_or_skip!(server);
        for way in [
            &["--publish", "append"][..],
            &["--publish", "replace", "--method", "direct"],
            &["--publish", "replace", "--method", "copy"],
            &["--publish", "partitions"],
        ] {
            let database = fresh(cluster);
            let files = Files::new();
            let more = if way.contains(&"partitions") { "PARTITION BY RANGE (k)" } else { "" };
            database.psql(&format!("CREATE TABLE ours (k int, amount numeric(9,2)) {more}"));
            files.write("a.csv", ROWS);
            let right = files.write("right.ctl", "# of the bank\nrows = 3\nsum(amount) = 14.25\n");
            let args = [&["--header", "none", "--control", "sum(amount)=14.26"], way].concat();
            let output = files.load(&database, "a.csv", "ours", &args);
            assert_ne!(output.code, 0, "{way:?}");
            let words = "control total differs: sum(amount) of ours is 14.25, expected 14.26";
            assert!(output.stderr.contains(words), "{way:?}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "0", "{way:?}");
            let runs = files.fullbore(&["runs", "list", "--to", database.url()]);
            if let Some(run) = output.stderr.split("runs abort ").nth(1) {
                let run: String = run.chars().take_while(|c| c.is_alphanumeric()).collect();
                let output = files.fullbore(&["runs", "abort", &run, "--to", database.url()]);
                assert_eq!(output.code, 0, "{}{}", output.stderr, runs.stdout);
            }
            let args = [&["--header", "none", "--control", &right], way].concat();
            let output = files.load(&database, "a.csv", "ours", &args);
            assert_eq!(output.code, 0, "{way:?}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "3", "{way:?}");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn totals_are_compared_whatever_way_rows_take() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    database.psql(
        "CREATE TABLE ours (k int, amount real); CREATE TABLE parted (k int, amount real) PARTITION BY RANGE (k)",
    );
    files.write("a.csv", "1,1234567\n2,0.5\nT,2\n");
    files.write("none.csv", "T,2\n");
    let args = ["--header", "none", "--skip-footer", "1", "--control", "trailer rows = 2"];
    let sums = ["--order-by", "k desc", "--control", "sum(amount) = 1234567 + 0.5"];
    let output = files.load(&database, "a.csv", "ours", &[&args[..], &sums].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    for (file, table, more) in [
        (
            "a.csv",
            "ours",
            &["--order-by", "k", "--control", "rows = 3", "--if-loaded", "again"][..],
        ),
        ("none.csv", "parted", &["--publish", "partitions", "--partition-bounds", "0,9"]),
        ("none.csv", "ours", &["--publish", "replace"]),
    ] {
        let output = files.load(&database, file, table, &[&args[..], more].concat());
        assert_ne!(output.code, 0, "{more:?}");
        assert!(output.stderr.contains("control total differs: rows of"), "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "2");
    let output = files.load(&database, "a.csv", "ours", &[&args[..], &["--part", "1/2"]].concat());
    assert_eq!(output.code, REFUSED);
    assert!(output.stderr.contains("which no host has alone"), "{}", output.stderr);
}

#[test]
fn trailer_records_have_totals_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    database.psql("CREATE TABLE ours (k int, amount numeric(9,2))");
    files.write("a.csv", format!("{ROWS}T,3,14.25\n"));
    files.write("b.csv", "4,0.25\n5,0.25\n6,0.25\nT,3,0.75\n\n");
    let totals = "trailer rows = 2, sum(amount) = 3";
    let args = ["--header", "none", "--skip-footer", "1", "--control", totals];
    let output = files.load(&database, "[ab].csv", "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), sum(amount) FROM ours"), "6|15.00");
    files.write("c.csv", "7,1.00\n8,1.00\nT,3,2.00\n");
    let output = files.load(&database, "c.csv", "ours", &args);
    assert!(output.stderr.contains("rows of ours is 2, expected 3"), "{}", output.stderr);
    let output = files.load(&database, "c.csv", "ours", &["--header", "none", "--control", totals]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("skip_footer = 1"), "{}", output.stderr);
}
