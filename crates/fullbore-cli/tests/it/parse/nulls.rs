//! Several strings that stand for NULL.

use fullbore_testing::{TestServer, shared_or_skip};

use super::ways;
use crate::common::Files;

#[test]
fn several_strings_are_null_in_columns_of_every_kind() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE t (id int, n bigint, f float8, d date, m numeric(9,2), b boolean, u uuid, \
         a text, v varchar(4), l int[])",
    );
    let files = Files::new();
    let nulls = ["NA", "-", "#N/A", "null"];
    for (format, delimiter) in [("csv", ","), ("csv", "||"), ("tbl", "|"), ("text", "\t")] {
        let mut text = String::new();
        for id in 0..4000 {
            let null = nulls[id % 4];
            let mut fields = vec![id.to_string()];
            fields.extend(std::iter::repeat_n(null.to_owned(), 9));
            if id % 2 == 1 {
                let values = [
                    "12",
                    "1.5",
                    "2024-02-03",
                    "3.25",
                    "t",
                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                    "-x",
                    "NAN",
                    "{1,2}",
                ];
                let values = values.map(|value| {
                    if value == "{1,2}" && format == "csv" { "\"{1,2}\"" } else { value }
                });
                let place = id / 2 % 9;
                fields[place + 1] = values[place].to_owned();
            }
            text.push_str(&fields.join(delimiter));
            text.push_str(if format == "tbl" { "|\n" } else { "\n" });
        }
        let mut options = vec!["--format", format, "--delimiter", delimiter, "--header", "none"];
        nulls.iter().for_each(|null| options.extend(["--null", null]));
        for more in [&[][..], &["--as-text"]] {
            let options = [&options[..], more].concat();
            ways(&files, &database, text.as_bytes(), &options, |way, output| {
                assert_eq!(output.code, 0, "{format} {way}: {}", output.stderr);
                let counts = database.psql(
                    "SELECT count(*), count(n), count(f), count(d), count(m), count(b), count(u), \
                     count(a), count(v), count(l), min(a), min(v) FROM t",
                );
                let each = |place: usize| {
                    (0..4000).filter(|id| id % 2 == 1 && id / 2 % 9 == place).count().to_string()
                };
                let each: Vec<String> = (0..9).map(each).collect();
                let expected = format!("4000|{}|-x|NAN", each.join("|"));
                assert_eq!(counts, expected, "{format} {delimiter} {way} {more:?}");
            });
        }
    }
}

#[test]
fn a_quoted_null_string_is_a_value() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text = "1,NA\n2,\"NA\"\n3,-\n4,\"-\"\n5,\n";
    let options = ["--format", "csv", "--header", "none", "--null", "NA", "--null", "-"];
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        let found = database
            .psql("SELECT string_agg(coalesce('<' || a || '>', 'NULL'), ' ' ORDER BY id) FROM t");
        // The empty string is none of them.
        assert_eq!(found, "NULL <NA> NULL <-> <>", "{way}");
    });
}

#[test]
fn the_job_file_takes_one_string_or_a_list() {
    let files = Files::new();
    files.write("x.csv", "1,NA\n2,-\n3,4\n");
    for null in ["\"NA\"", "[\"NA\", \"-\"]"] {
        let job = format!(
            "to = \"null:\"\n[[table]]\nname = \"t\"\nsources = [\"x.csv\"]\nheader = \"none\"\n\
             columns = [\"a\", \"b\"]\ntypes = [\"b=int\"]\nnull = {null}\n"
        );
        let output = files.fullbore(&["plan", &files.write("job.toml", job)]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let words = null.trim_matches(['[', ']']).replace(", ", " or ");
        let said = output.stdout + &output.stderr;
        assert!(said.contains(&format!("NULL is {words}")), "{said}");
    }
}
