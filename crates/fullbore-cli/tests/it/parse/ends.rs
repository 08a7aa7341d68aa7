//! Record ends and delimiters other than the usual ones.

use fullbore_testing::{TestServer, shared_or_skip, wanted};

use super::{told, ways};
use crate::common::{Files, assert_same};

#[test]
fn records_that_end_with_cr_are_what_copy_makes_of_them() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg16]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE t (id int, a text, b text); CREATE TABLE plain (LIKE t)");
        let files = Files::new();
        let csv: String = (0..5000)
            .map(|id| match id % 5 {
                0 => format!("{id},\"two\rlines\nor three\",\r"),
                1 => format!("{id},a \"\"\" b\"\" c\",\"\"\r"),
                _ => format!("{id},word,x{id}\r"),
            })
            .collect();
        let text: String = (0..5000)
            .map(|id| match id % 5 {
                0 => format!("{id}\ttwo\\\rlines\\nor three\t\\N\r"),
                _ => format!("{id}\ta\\tb\tx{id}\r"),
            })
            .collect();
        for (format, content) in [("csv", csv), ("text", text)] {
            let file = files.write("plain.csv", &content);
            database.psql(&format!("TRUNCATE plain; COPY plain FROM '{file}' (FORMAT {format})"));
            let options = ["--format", format, "--header", "none", "--line-end", "cr"];
            ways(&files, &database, content.as_bytes(), &options, |way, output| {
                assert_eq!(output.code, 0, "{way}: {}", output.stderr);
                assert_same(&database, "t", "plain");
            });
        }
    }
}

#[test]
fn a_line_feed_in_a_file_of_crs_is_a_reject_as_it_is_for_copy() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text = b"1,a\r2,b\nc\r3,c\r";
    let options = ["--format", "csv", "--header", "none", "--line-end", "cr", "--max-rejects", "1"];
    ways(&files, &database, text, &options, |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        assert_eq!(told(&files), [(2, "unquoted newline found in data".to_owned(), 1)], "{way}");
    });
}

#[test]
fn mixed_record_ends_load_and_lines_are_counted_as_an_editor_counts() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let ends = ["\n", "\r\n", "\r"];
    let text: String = (1..=9000)
        .map(|id| {
            let a = if id % 10 == 0 { "\"x\r\ny\"" } else { "word" };
            let id = if id == 8999 { "none".to_owned() } else { id.to_string() };
            format!("{id},{a}{}", ends[id.len() * 7 % 3])
        })
        .collect();
    let options =
        ["--delimiter", ",", "--header", "none", "--line-end", "mixed", "--max-rejects", "1"];
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), count(DISTINCT id) FROM t"), "8999|8999");
        assert_eq!(told(&files)[0].0, 8999 + 899, "{way}");
        let two = "SELECT count(*) FROM t WHERE a = E'x\\r\\ny'";
        assert_eq!(database.psql(two), "900", "{way}");
    });
}

#[test]
fn delimiters_of_several_bytes_part_fields() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text, b numeric)");
    let files = Files::new();
    for delimiter in [", ", "||", "\u{a7}", "\t\t", "<=>"] {
        let rows: Vec<String> = (0..2000)
            .map(|id| {
                let a = match id % 4 {
                    0 => format!("\"with {delimiter} in it\""),
                    1 => String::new(),
                    2 => "a|b, <= c".to_owned().replace(delimiter, "-"),
                    _ => format!("word {id}"),
                };
                [id.to_string(), a, format!("{id}.5")].join(delimiter) + "\n"
            })
            .collect();
        let given = delimiter.replace('\t', "\\t");
        let options = ["--delimiter", &given, "--header", "none", "--quotes", "strict"];
        ways(&files, &database, rows.concat().as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 0, "{delimiter:?} {way}: {}", output.stderr);
            let found = database.psql("SELECT count(*), sum(id), sum(b) FROM t");
            assert_eq!(found, "2000|1999000|2000000.0", "{delimiter:?} {way}");
            let holds = database.psql("SELECT DISTINCT a FROM t WHERE id % 4 = 0");
            assert_eq!(holds, format!("with {delimiter} in it"), "{delimiter:?} {way}");
            assert_eq!(database.psql("SELECT count(*) FROM t WHERE a IS NULL"), "500");
        });
    }
}

#[test]
fn delimiters_that_would_mean_two_things_are_refused() {
    let files = Files::new();
    let file = files.write("x.csv", "1,2\n");
    for (options, words) in [
        (&["--delimiter", ""][..], "--delimiter is empty"),
        (&["--delimiter", "a\nb"], "must not contain a line end"),
        (&["--delimiter", ",\""], "must not contain the quote"),
        (&["--delimiter", "||", "--format", "text"], "delimiters of one byte"),
        (&["--delimiter", "||", "--null", "a||b"], "must not contain the delimiter"),
        (&["--comment", ",", "--delimiter", ","], "is a delimiter or quote too"),
        (&["--comment", "ab"], "is not one byte"),
        (&["--quotes", "strict", "--format", "text"], "is for CSV"),
    ] {
        let mut args = vec!["plan", &file, "--to", "null:", "--header", "none"];
        args.extend(options);
        let output = files.fullbore(&args);
        assert_eq!(output.code, 2, "{options:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{options:?}: {}", output.stderr);
    }
}
