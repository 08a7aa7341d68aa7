//! JSON lines: columns by key, values as COPY takes their text, rejects by line and key.

use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::{Files, assert_same};

/// What of JSON text is the same for COPY: the server makes the plain table of it itself.
const PLAIN: &str =
    "CREATE TABLE plain AS SELECT r.* FROM source s, json_populate_record(NULL::t, s.line) r";

const COLUMNS: &str = "id bigint, n numeric, f float8, b boolean, d date, at timestamptz, u uuid, t text, \
                       j json, jb jsonb, a int[], v varchar(20)";

fn line(n: u32) -> String {
    let text =
        ["plain", "a\\tb", "\\u00e4\\n\\\"q\\\"", "\\ud83d\\ude00 \\\\ /", "", "NULL", "\\\\N"]
            [n as usize % 7];
    let mut line = format!("{{\"n\": {n}.{n:03}00, \"id\": {n}");
    for (every, part) in [
        (2, format!(", \"f\": {n}e-3, \"b\": {}", n.is_multiple_of(4))),
        (3, format!(", \"d\": \"2024-01-{:02}\", \"at\": \"2024-02-03T04:05:06Z\"", n % 28 + 1)),
        (5, format!(", \"u\": \"00000000-0000-0000-0000-{n:012}\", \"v\":\"{n}\"")),
        (7, format!(", \"jb\": {{\"k\": [{n}, null, \"x\"]}}, \"a\": [{n}, null, 3]")),
        (11, ", \"j\": \"a string\", \"t\": null".to_owned()),
        (13, ", \"jb\": null, \"t\": {\"nested\": [1.50]}".to_owned()),
    ] {
        if n.is_multiple_of(every)
            && !(every == 13 && (n.is_multiple_of(11) || n.is_multiple_of(7)))
        {
            line.push_str(&part);
        }
    }
    if !n.is_multiple_of(11) && (!n.is_multiple_of(13) || n.is_multiple_of(7)) {
        line.push_str(&format!(", \"t\": \"{text}\""));
    }
    line.push('}');
    line
}

#[test]
fn values_are_those_that_the_server_makes_of_the_same_json() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let lines: Vec<String> = (0..20_000).map(line).collect();
    let file = files.write("x.ndjson", lines.join("\n"));
    // A file for the server: one line a row, no character of which is special.
    let raw: String = lines.iter().map(|l| format!("{}\n", l.replace('\\', "\\\\"))).collect();
    let raw = files.write("raw.copy", raw);
    database.psql(&format!("CREATE TABLE t ({COLUMNS}); CREATE TABLE source (line json)"));
    database.psql(&format!("COPY source FROM '{raw}'"));
    database.psql(PLAIN);
    for more in [&[][..], &["--as-text"], &["--verify", "full"], &["--publish", "replace"]] {
        database.psql("TRUNCATE t");
        let output = files.load(&database, &file, "t", &[&["--streams", "3"], more].concat());
        assert_eq!(output.code, 0, "{more:?}: {}", output.stderr);
        assert_same(&database, "t", "plain");
    }
}

#[test]
fn a_table_is_made_of_the_keys_and_numbers_keep_their_digits() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write(
        "made.jsonl",
        "\u{feff}{\"id\": 1, \"code\": \"007\", \"x\": 1.10, \"when\": \"2024-05-06\", \"ok\": true}\r\n\
         \n\
         {\"tags\": [\"a\", 1], \"id\": 2, \"x\": 12345678901234567890.123}\n\
         {\"id\": null, \"code\": \"\"}",
    );
    let output = files.load(&database, &file, "made", &["--create"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        database.psql(
            "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
               FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum > 0"
        ),
        "id bigint, code text, x numeric, when date, ok boolean, tags jsonb"
    );
    assert_eq!(
        database.psql("SELECT made::text FROM made ORDER BY id NULLS LAST"),
        "(1,007,1.10,2024-05-06,t,)\n(2,,12345678901234567890.123,,,\"[\"\"a\"\", 1]\")\n(,\"\",,,,)"
    );
}

#[test]
fn what_can_not_be_a_row_is_rejected_by_line_and_key() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int NOT NULL, v int)");
    let files = Files::new();
    let mut lines: Vec<String> = (0..9).map(|n| format!("{{\"id\": {n}, \"v\": {n}}}")).collect();
    lines[2] = "{\"id\": 2, \"v\": \"two\"}".into();
    lines[3] = "{\"id\": 3, \"v\": 3".into();
    lines[5] = "[5, 5]".into();
    lines[6] = "{\"id\": 6, \"v\": 6, \"id\": 7}".into();
    lines[7] = "{\"v\": 7}".into();
    let file = files.write("x.json", lines.join("\n"));
    let output = files.load(&database, &file, "t", &["--max-rejects", "9"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), "0,1,4,8");
    let mut reasons: Vec<(u64, Option<String>, Option<String>, String)> = files
        .reasons()
        .iter()
        .map(|reason| {
            let text = |name: &str| reason[name].as_str().map(str::to_owned);
            let line = reason["line"].as_u64().expect("a line");
            (line, text("column"), text("value"), text("reason").expect("a reason"))
        })
        .collect();
    reasons.sort();
    let wanted = [
        (3, Some("v"), Some("two"), "invalid input syntax"),
        (4, None, None, "is not a JSON object on one line"),
        (6, None, None, "expected an object"),
        (7, Some("id"), Some("7"), "twice"),
        (8, Some("id"), None, "null value"),
    ];
    assert_eq!(reasons.len(), wanted.len(), "{reasons:?}");
    for (found, (line, column, value, words)) in reasons.iter().zip(wanted) {
        assert_eq!((found.0, found.1.as_deref()), (line, column), "{found:?}");
        assert!(value.is_none() || found.2.as_deref() == value, "{found:?}");
        assert!(found.3.contains(words), "{found:?}");
    }
    // The rejected lines are lines again.
    let rejected = files.read_ending(".rejected");
    assert!(rejected.contains("{\"id\": 2, \"v\": \"two\"}\n"), "{rejected}");
    assert!(rejected.contains("[5, 5]\n"), "{rejected}");
}

#[test]
fn a_key_without_a_column_is_refused_or_rejected_and_listed_keys_leave_others_out() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, v text, made timestamptz DEFAULT now())");
    let files = Files::new();
    let early = files.write("early.ndjson", "{\"id\": 1, \"v\": \"a\", \"more\": 1}\n");
    let output = files.load(&database, &early, "t", &[]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for words in ["no column for key \"more\"", "--columns", "early.ndjson"] {
        assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
    }
    let output = files.load(&database, &early, "t", &["--columns", "id,v"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Beyond the samples it is a reject of its row.
    let mut text: String = (0..400_000).map(|n| format!("{{\"id\":{n},\"v\":\"x\"}}\n")).collect();
    let middle = text.len() / 3;
    let middle = middle + text[middle..].find('\n').expect("a line") + 1;
    text.insert_str(middle, "{\"id\": 7, \"late\": [1]}\n");
    let late = files.write("late.ndjson", text);
    // One piece, so that nothing is committed before it.
    let output = files.load(&database, &late, "t", &["--streams", "1", "--piece-size", "1GB"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    for words in ["late.ndjson, line ", "column late", "no column is loaded from this key"] {
        assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
    }
    database.psql("TRUNCATE t");
    let output = files.load(&database, &late, "t", &["--max-rejects", "1"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let counted = "SELECT count(*), count(v), count(made) FROM t";
    assert_eq!(database.psql(counted), "400000|400000|400000");
}

#[test]
fn json_lines_go_on_where_a_run_was_interrupted_and_into_partitions() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows = |from: u32, to: u32| -> String {
        (from..to).map(|n| format!("{{\"id\":{n},\"v\":\"{}\"}}\n", "y".repeat(60))).collect()
    };
    files.write("1.ndjson", rows(0, 100_000));
    files.write("2.ndjson.gz", {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, rows(100_000, 150_000).as_bytes()).expect("packed");
        gzip.finish().expect("packed")
    });
    database.psql("CREATE TABLE t (id int CHECK (id <> 120000), v text)");
    let args = ["load", "*.ndjson*", "--to", database.url(), "--table", "t", "--resume"];
    let output = files.fullbore(&args);
    assert_eq!(output.code, 4, "{}", output.stderr);
    database.psql("ALTER TABLE t DROP CONSTRAINT t_id_check");
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let sums = "SELECT count(*), count(DISTINCT id), sum(id) FROM t";
    assert_eq!(database.psql(sums), "150000|150000|11249925000");
    database.psql("DROP TABLE t; CREATE TABLE t (id int, v text) PARTITION BY RANGE (id)");
    let to = ["--publish", "partitions", "--partition-bounds", "0,50000,150000"];
    let output = files.load(&database, "*.ndjson*", "t", &to);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql(sums), "150000|150000|11249925000");
}
