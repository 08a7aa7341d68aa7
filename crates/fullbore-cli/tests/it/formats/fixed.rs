//! Fixed-width text.

use std::fmt::Write;

use crate::common::Files;
use fullbore_testing::{TestServer, shared_or_skip, wanted};

const WIDTHS: [&str; 4] = ["--format", "fixed", "--widths", "6,10,8"];

#[test]
fn fields_have_their_places_in_every_piece() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        files.cut_into("100kB");
        let mut text = String::from("number name      born    \n");
        for k in 1..=20_000 {
            let name = if k % 5 == 0 { "Äöü ß" } else { "Ann \\ \"x" };
            let born = if k % 3 == 0 { "" } else { "20240105" };
            // Blanks at the end may be missing within the last field.
            let line = format!("{k:>6}{name:<10}{born:<8}");
            let _ = write!(text, "{}\r\n", if k % 2 == 0 { line.trim_end() } else { &line });
        }
        files.write("a.txt", text);
        database.psql("CREATE TABLE ours (number int, name text, born date)");
        let args = [&WIDTHS[..], &["--skip-lines", "1", "--ragged", "pad"]].concat();
        let output = files.load(&database, "a.txt", "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let wrong = database.psql(
            "SELECT count(*), count(*) FILTER (WHERE
                 name IS DISTINCT FROM CASE WHEN number % 5 = 0 THEN 'Äöü ß' ELSE 'Ann \\ \"x' END
                 OR born IS DISTINCT FROM CASE WHEN number % 3 <> 0 THEN date '2024-01-05' END) FROM ours",
        );
        assert_eq!(wrong, "20000|0");
    }
}

#[test]
fn a_table_is_made_and_lines_that_are_none_are_rejected() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.txt", "     1Ann           9.50\n     2Bob\n     3Cy            1.25 more\n\n     4            -2.00  \n");
    let args =
        [&WIDTHS[..], &["--create", "--columns", "id,name,amount", "--max-rejects", "5"]].concat();
    let output = files.load(&database, "a.txt", "ours", &args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY id"), "1|Ann|9.50\n4||-2.00");
    let types = database.psql(
        "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
           FROM pg_attribute WHERE attrelid = 'ours'::regclass AND attnum > 0",
    );
    assert_eq!(types, "bigint, text, numeric");
    let told: Vec<_> = files
        .reasons()
        .iter()
        .map(|one| (one["line"].as_u64(), one["reason"].as_str().unwrap_or_default().to_owned()))
        .collect();
    assert_eq!(
        told,
        [
            (Some(2), "missing data for column \"amount\"".to_owned()),
            (Some(3), "extra data after last expected column".to_owned()),
        ]
    );
    let output = files.load(&database, "a.txt", "other", &["--create", "--format", "fixed"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("--widths"), "{}", output.stderr);
}

#[test]
fn lines_at_the_end_are_skipped() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id text, name text)");
    let files = Files::new();
    let args =
        ["--format", "fixed", "--widths", "6,5", "--columns", "id,name", "--skip-footer", "1"];
    for (file, text) in [("one.txt", "000001Ann  \n"), ("two.txt", "000002Bob  \n000003Cy   \n")] {
        files.write(file, format!("{text}T00002     \n"));
        let output = files.load(&database, file, "t", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    assert_eq!(
        database.psql("SELECT string_agg(id, ' ' ORDER BY id) FROM t"),
        "000001 000002 000003"
    );
}
