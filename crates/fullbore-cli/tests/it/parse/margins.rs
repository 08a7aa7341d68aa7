//! Lines before the rows, after them, and among them.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{clear, told, ways};
use crate::common::Files;

#[test]
fn lines_around_the_rows_are_skipped_in_files_pipes_and_pieces() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let rows =
        |count: u64| -> String { (0..count).map(|id| format!("{id},word {id}\n")).collect() };
    let around = |rows: &str| {
        format!("Report of \"May\nsecond line\nid,a\n{rows}\nTotal, \"of all\n\nprinted by x\n\n")
    };
    let options =
        ["--delimiter", ",", "--header", "true", "--skip-lines", "2", "--skip-footer", "2"];
    let sums = "SELECT count(*), sum(id) FROM t";
    // The last one is cut into pieces, the one before it fills several blocks.
    for count in [0, 1, 3, 60_000, 1_100_000] {
        let text = around(&rows(count));
        let expected = format!(
            "{count}|{}",
            if count == 0 { String::new() } else { (count * (count - 1) / 2).to_string() }
        );
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{way} {count}: {}", output.stderr);
            assert_eq!(database.psql(sums), expected, "{way} {count}");
        });
    }
}

#[test]
fn a_damaged_or_doubled_header_is_passed_over_by_its_place() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    for header in ["id,\"a\n", "x\n", "id,id,id\n", "\"i\nd\",a\n"] {
        let text = format!("{header}1,one\n2,two\n");
        let options = ["--delimiter", ",", "--header", "skip", "--columns", "id,a"];
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{way} {header:?}: {}", output.stderr);
            assert_eq!(database.psql("SELECT count(*), sum(id) FROM t"), "2|3", "{way} {header:?}");
        });
    }
    let doubled = "id,a\nid,a\n1,one\n";
    let options =
        ["--delimiter", ",", "--header", "skip", "--skip-lines", "1", "--columns", "id,a"];
    ways(&files, &database, doubled.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "1", "{way}");
    });
}

#[test]
fn comments_are_no_rows_wherever_they_stand() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text =
        "# a \"comment\n\nid,a\n1,one\n# it's \"odd\n2,\"two\n# not a comment\"\n#\n3,# nor this\n";
    for quotes in ["strict", "lenient"] {
        let options =
            ["--delimiter", ",", "--header", "true", "--comment", "#", "--quotes", quotes];
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{way} {quotes}: {}", output.stderr);
            let rows = database.psql("SELECT string_agg(a, ' | ' ORDER BY id) FROM t");
            assert_eq!(rows, "one | two\n# not a comment | # nor this", "{way} {quotes}");
            assert!(output.stderr.contains("2 comments skipped"), "{way}: {}", output.stderr);
        });
    }
}

#[test]
fn rejects_load_again_with_the_options_of_their_file() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let files = Files::new();
    let text = "of May\nid,a\n#c\n1,one\nx,two\n3,three\n3,four\ntotal\n";
    let options = [
        "--delimiter",
        ",",
        "--header",
        "true",
        "--comment",
        "#",
        "--skip-lines",
        "1",
        "--skip-footer",
        "1",
        "--max-rejects",
        "5",
    ];
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        // A key that is broken in a pipe can't be led back to its row.
        if way == "pipe" {
            return;
        }
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        let lines: Vec<u64> = told(&files).into_iter().map(|reject| reject.0).collect();
        assert_eq!(lines, [5, 7], "{way}");
        let rejected =
            files.read_ending(".rejected").replace("x,", "2,").replace("3,four", "4,four");
        clear(&files);
        let mended = files.write("mended.csv", rejected);
        let again = [&options[..], &["--if-loaded", "again"]].concat();
        let output = files.load(&database, &mended, "t", &again);
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        let rows = database.psql("SELECT string_agg(a, ' ' ORDER BY id) FROM t");
        assert_eq!(rows, "one two three four", "{way}");
    });
}

#[test]
fn the_plan_says_what_is_skipped() {
    let files = Files::new();
    let file = files.write("x.csv", "a\nid;a\n1;2\nend\nend\n");
    let output = files.fullbore(&[
        "plan",
        &file,
        "--to",
        "null:",
        "--delimiter",
        ";",
        "--header",
        "skip",
        "--skip-lines",
        "1",
        "--skip-footer",
        "2",
        "--comment",
        "#",
        "--ragged",
        "pad",
        "--quotes",
        "strict",
        "--null",
        "NA",
        "--null",
        "-",
        "--columns",
        "id,a",
    ]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let words = "delimiter ';', header skipped, quotes strict, missing fields are NULL, comments \
                 begin with '#', first line skipped, last 2 lines skipped, NULL is \"NA\" or \"-\"";
    assert!((output.stdout.clone() + &output.stderr).contains(words), "{}", output.stderr);
}
