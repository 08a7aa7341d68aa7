//! Quotes that stand where they should not.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{clear, told, ways};
use crate::common::{Files, assert_no_leftovers};

const STRICT: [&str; 7] =
    ["--delimiter", ",", "--quotes", "strict", "--header", "none", "--max-rejects=100"];

#[test]
fn a_stray_quote_costs_its_row_and_never_the_rest() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, place text, n int)");
    let files = Files::new();
    let mut text = String::new();
    for id in 1..=3000 {
        text.push_str(&match id {
            // Literal, since no field begins with them.
            500 => "500,37.8\"N,1\n".to_owned(),
            501 => "501,5\"\" disk,1\n".to_owned(),
            // A field goes on behind its quotes; a field never ends.
            1000 => "1000,\"a\"b,1\n".to_owned(),
            2000 => "2000,\"never closed,1\n".to_owned(),
            // Fine, though it takes two lines.
            2500 => "2500,\"two\nlines\",1\n".to_owned(),
            id => format!("{id},\"place {id}\",{}\n", id % 7),
        });
    }
    ways(&files, &database, text.as_bytes(), &STRICT, |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), count(DISTINCT id) FROM t"), "2998|2998");
        let odd = "SELECT string_agg(id || ':' || place, ' ' ORDER BY id) FROM t
                    WHERE place NOT LIKE 'place %'";
        assert_eq!(database.psql(odd), "500:37.8\"N 501:5\"\" disk 2500:two\nlines", "{way}");
        let expected = [
            (1000, "data follows the closing quote of a field".to_owned(), 1),
            (2000, "unterminated CSV quoted field".to_owned(), 1),
        ];
        // The quote that is never closed is closed by the next line's, and data follows it.
        let found = told(&files);
        assert_eq!(found[0], expected[0], "{way}");
        assert_eq!((found[1].0, found[1].2, found.len()), (2000, 1, 2), "{way}: {found:?}");
        let rejected = files.read_ending(".rejected");
        assert_eq!(rejected, "1000,\"a\"b,1\n2000,\"never closed,1\n", "{way}");
        assert_no_leftovers(&database);
    });
}

#[test]
fn messy_quotes_give_the_same_rows_and_rejects_however_the_file_is_cut() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text, b text); CREATE TABLE wanted (LIKE t)");
    let files = Files::new();
    // Over the size from which a file is cut, with quotes and line feeds in most rows.
    let (mut text, mut wanted, mut lost) = (String::new(), String::new(), Vec::new());
    let mut line = 1;
    let filler =
        "some words, \"\"quoted\"\" words, and more of them\nto the end of the second line";
    for id in 0..215_000 {
        if id % 9_973 == 5_000 {
            text.push_str(&format!("{id},\"stray\" quote,x\n"));
            lost.push(line);
            line += 1;
        } else if id % 7_919 == 3_000 {
            text.push_str(&format!("{id},12\" disk,x\n"));
            wanted.push_str(&format!("{id},\"12\"\" disk\",x\n"));
            line += 1;
        } else {
            let row = format!("{id},\"{filler}\",x\n");
            text.push_str(&row);
            wanted.push_str(&row);
            line += 2;
        }
    }
    assert!(text.len() > 17 << 20 && lost.len() > 10, "{} bytes", text.len());
    let plain = files.write("wanted.csv", &wanted);
    database.psql(&format!("COPY wanted FROM '{plain}' (FORMAT csv)"));
    let file = files.write("input.csv", &text);
    let sum = "SELECT count(*), sum(hashtextextended(x::text, 0)) FROM";
    let expected = database.psql(&format!("{sum} wanted x"));
    for more in
        [&["--streams", "4"][..], &["--streams", "1"], &["--publish", "replace", "--streams", "3"]]
    {
        clear(&files);
        database.psql("TRUNCATE t");
        let output = files.load(&database, &file, "t", &[&STRICT, more].concat());
        assert_eq!(output.code, 3, "{more:?}: {}", output.stderr);
        assert_eq!(database.psql(&format!("{sum} t x")), expected, "{more:?}");
        let lines: Vec<usize> = told(&files).into_iter().map(|reject| reject.0 as usize).collect();
        assert_eq!(lines, lost, "{more:?}");
    }
}

#[test]
fn rejects_of_strictly_quoted_files_load_again_with_the_same_options() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let file = files.write("input.csv", "1,\"a\"x\n2,\"b\nc\"\"d\"y,z\n3,c\n");
    let output = files.load(&database, &file, "t", &STRICT);
    assert_eq!(output.code, 3, "{}", output.stderr);
    // The second record is lost up to the line in which its field begins; what is left of it is read
    // as a record of its own, and is none.
    let rejected = files.read_ending(".rejected");
    assert_eq!(rejected, "1,\"a\"x\n2,\"b\nc\"\"d\"y,z\n");
    let told: Vec<(u64, u64)> = told(&files).into_iter().map(|told| (told.0, told.2)).collect();
    assert_eq!(told, [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "1");
    clear(&files);
    let mended = rejected.replace("\"a\"x", "ax").replace("\"b", "b");
    let mended = files.write("mended.csv", mended.replace("c\"\"d\"y,z", "9,\"d\""));
    let output = files.load(&database, &mended, "t", &STRICT);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn single_quotes_and_escapes_are_strict_too() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text = "1,'it\\'s, here'\n2,o'clock\n3,'a'b\n4,'c:\\\\'\n5,plain\n";
    let options = [&STRICT[..], &["--quote", "'", "--escape", "\\"]].concat();
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        let rows = database.psql("SELECT string_agg(a, ' | ' ORDER BY id) FROM t");
        assert_eq!(rows, "it's, here | o'clock | c:\\ | plain", "{way}");
        assert_eq!(told(&files)[0].0, 3, "{way}");
    });
}

#[test]
fn values_that_only_the_server_understands_reach_it_from_messy_rows() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, day date, a text, b interval)");
    let files = Files::new();
    let text = "1;;\"Jan 5, 2020\";;5\" disk;;\"1 day\"\r2;;2020-01-06;;\"a\tb\\N\";;\r\
                3;;someday;;x;;\r";
    let options = [
        "--delimiter",
        ";;",
        "--line-end",
        "cr",
        "--quotes",
        "strict",
        "--header",
        "none",
        "--max-rejects",
        "5",
    ];
    for more in [&[][..], &["--as-text"], &["--publish", "replace", "--method", "copy"]] {
        let options = [&options[..], more].concat();
        ways(&files, &database, text.as_bytes(), &options, |way, output| {
            assert_eq!(output.code, 3, "{way} {more:?}: {}", output.stderr);
            let rows = database
                .psql("SELECT string_agg(concat_ws(',', id, day, a, b), '; ' ORDER BY id) FROM t");
            assert_eq!(rows, "1,2020-01-05,5\" disk,1 day; 2,2020-01-06,a\tb\\N", "{way} {more:?}");
            let found = told(&files);
            assert_eq!((found[0].0, found.len()), (3, 1), "{way} {more:?}: {found:?}");
            assert_eq!(files.read_ending(".rejected"), "3;;someday;;x;;\r", "{way} {more:?}");
        });
    }
}
