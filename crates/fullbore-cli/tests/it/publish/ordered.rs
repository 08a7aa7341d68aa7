//! `--order-by`: the table has its rows in that order, and they are those of the files.

use std::io::Write;

use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip};

use crate::common::codes::REFUSED;
use crate::common::held::end_of;
use crate::common::moments::assert_loaded;
use crate::common::{Files, assert_no_leftovers, assert_same};

const COLUMNS: &str = "k bigint, day date, n numeric(12,2), v text";

/// Rows whose keys come in no order; some are alike, some are NULL.
fn lines(count: i64) -> String {
    let line = |row: i64| {
        let mixed = row * 7919 % 100_003;
        let key = if mixed % 97 == 0 { String::new() } else { (mixed % 50_000).to_string() };
        format!(
            "{key},2024-{:02}-{:02},{}.{:02},row {row}\n",
            mixed % 12 + 1,
            mixed % 28 + 1,
            mixed % 100 - 50,
            mixed % 89
        )
    };
    (0..count).map(line).collect()
}

/// How many rows are not where the order has them.
fn misplaced(database: &TestDatabase<'_>, table: &str, order: &str) -> String {
    database.psql(&format!(
        "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ctid) AS stored,
                                      rank() OVER (ORDER BY {order}) AS first,
                                      count(*) OVER (PARTITION BY k, day) AS alike FROM {table}) AS rows
          WHERE stored NOT BETWEEN first AND first + alike - 1"
    ))
}

#[test]
fn a_table_has_its_rows_in_the_order_asked_for() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let file = files.write("rows.csv", lines(150_000));
    database
        .psql(&format!("CREATE TABLE plain ({COLUMNS}); COPY plain FROM '{file}' (FORMAT csv)"));
    // With little memory, runs are merged in several passes.
    for (publish, method, order, memory) in [
        ("replace", "direct", "k,day", "2MB"),
        ("replace", "copy", "k desc,day", "100kB"),
        ("append", "copy", "k,day desc", "2MB"),
    ] {
        database.psql(&format!("DROP TABLE IF EXISTS ours; CREATE TABLE ours ({COLUMNS})"));
        let args = [
            "--publish",
            publish,
            "--method",
            method,
            "--order-by",
            order,
            "--header",
            "none",
            "--sort-memory",
            memory,
            "--piece-size",
            "500kB",
            "--streams",
            "3",
        ];
        let output = files.load(&database, &file, "ours", &args);
        assert_loaded(&output);
        assert!(output.stderr.contains("150000 rows sorted in"), "{}", output.stderr);
        assert_same(&database, "ours", "plain");
        assert_eq!(misplaced(&database, "ours", order), "0", "{publish} {method} {order}");
        assert_no_leftovers(&database);
    }
    // A table that the load makes has the types that the files have.
    let output = files.load(
        &database,
        &file,
        "made",
        &["--create", "--order-by", "column2 desc", "--header", "none"],
    );
    assert_loaded(&output);
    database.psql("ANALYZE made");
    let found = database.psql("SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum > 0");
    assert!(found.contains("column2 date"), "{found}");
    let correlation = database
        .psql("SELECT correlation FROM pg_stats WHERE tablename = 'made' AND attname = 'column2'");
    assert!(correlation.parse::<f64>().expect("a number") < -0.999, "{correlation}");
    assert_eq!(database.psql("SELECT count(*) FROM made"), "150000");
}

#[test]
fn each_table_of_a_job_has_its_own_order() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let orders = [("one", "day, k desc"), ("two", "k, day")];
    let mut job = "streams = 2\nsort_memory = \"100kB\"\npiece_size = \"100kB\"\n".to_owned();
    for ((name, order), count) in orders.iter().zip([20_000, 30_000]) {
        let file = files.write(&format!("{name}.csv"), lines(count));
        database.psql(&format!(
            "CREATE TABLE {name} ({COLUMNS}); CREATE TABLE plain_{name} ({COLUMNS});
             COPY plain_{name} FROM '{file}' (FORMAT csv)"
        ));
        let columns = order.replace(", ", "\", \"");
        job += &format!(
            "[[table]]\nname = \"{name}\"\nsources = [\"{name}.csv\"]\nheader = \"none\"\n\
             publish = \"replace\"\norder_by = [\"{columns}\"]\n"
        );
    }
    let job = files.write("job.toml", job);
    assert_loaded(&files.fullbore(&["load", &job, "--to", database.url()]));
    for (name, order) in orders {
        assert_same(&database, name, &format!("plain_{name}"));
        assert_eq!(misplaced(&database, name, order), "0", "{name} {order}");
    }
    assert_no_leftovers(&database);
}

#[test]
fn rejects_of_rows_that_are_sorted_name_their_lines() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "9,x\nfour,y\n2,z\n7\n");
    database.psql("CREATE TABLE ours (k int, v text)");
    let args = [
        "--order-by",
        "k",
        "--header",
        "none",
        "--max-rejects",
        "2",
        "--json",
        "--publish",
        "replace",
    ];
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT string_agg(v, ',' ORDER BY ctid) FROM ours"), "z,x");
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!((said["rows"].as_u64(), said["rejected"].as_u64()), (Some(2), Some(2)));
    assert_eq!(said["bytes"].as_u64(), Some(17));
    let mut reasons: Vec<_> =
        files.reasons().iter().map(|reason| reason["line"].as_u64()).collect();
    reasons.sort();
    assert_eq!(reasons, [Some(2), Some(4)]);
    // Too many of them end it, and the table keeps its rows.
    let args = ["--order-by", "k", "--header", "none", "--publish", "replace"];
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "2");
    assert_no_leftovers(&database);
}

/// What a source that is read once has is not judged row by row: nothing is in the database yet.
#[test]
fn rows_of_a_compressed_file_all_arrive_where_rejects_are_allowed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let line = |row: i64| match row {
        7 => "seven,row 7\n".to_owned(),
        _ => format!("{},row {row}\n", row * 7919 % 20_011),
    };
    let rows: String = (0..20_000).map(line).collect();
    let packed = zstd::encode_all(rows.as_bytes(), 1).expect("packed");
    let file = files.write("rows.csv.zst", packed);
    database.psql("CREATE TABLE ours (k int PRIMARY KEY CHECK (k < 20011), v text NOT NULL)");
    let args = ["--order-by", "k", "--header", "none", "--max-rejects", "100000"];
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "19999");
    assert_eq!(files.reasons().len(), 1);
}

#[test]
fn an_order_that_can_not_be_kept_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "9,x,1,new,{1}\n");
    database.psql(
        "CREATE TYPE state AS ENUM ('new', 'done');
         CREATE TABLE ours (k int PRIMARY KEY, v text, n numeric, s state, a numeric[])",
    );
    for (more, words) in [
        (
            &["--order-by", "k", "--publish", "upsert"][..],
            "--publish upsert does not go with --order-by",
        ),
        (&["--order-by", "nothing"], "nothing"),
        (&["--order-by", "k", "--publish", "replace", "--lock-writers"], "--lock-writers"),
        (&["--order-by", "k", "--create", "--partition-by", "k"], "--partition-by"),
        (&["--sort-memory", "1GB"], "--sort-memory is for --order-by"),
        (&["--order-by", "k", "--as-text"], "rows would go as text"),
        (&["--order-by", "n"], "--order-by n: only the server knows the order of numeric"),
        (&["--order-by", "k,s desc"], "--order-by s: only the server knows the order of enum"),
        (&["--order-by", "a"], "--order-by a: only the server knows the order of numeric"),
    ] {
        let output = files.load(&database, &file, "ours", &[&["--header", "none"], more].concat());
        assert_eq!(output.code, REFUSED, "{more:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{more:?}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    }
}

#[test]
fn some_columns_alone_are_put_in_order_too() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "2,y,-\n1,x,-\n");
    database.psql("CREATE TABLE ours (v text, note text, k int)");
    for publish in ["replace", "append"] {
        let args =
            ["--header", "none", "--columns", "k,v,-", "--order-by", "k", "--publish", publish];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT k, v, note FROM ours"), "1|x|\n2|y|\n1|x|\n2|y|");
}

#[test]
fn rows_are_appended_all_or_none_where_some_may_be_rejected() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String =
        (0..60_000).map(|n| format!("{n},{}\n", if n == 59_990 { -1 } else { n })).collect();
    let file = files.write("rows.csv", rows);
    database.psql("CREATE TABLE ours (k int, v int CHECK (v >= 0))");
    let args =
        ["--header", "none", "--order-by", "k", "--max-rejects", "5", "--piece-size", "100kB"];
    let output = files.load(&database, &file, "ours", &args);
    assert_ne!(output.code, 0, "{}", output.stdout);
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
}

#[test]
fn what_others_write_while_rows_are_sorted_is_not_lost() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (k int, v text); INSERT INTO ours VALUES (7, 'old')");
    let pipe = files.make_pipe("rows.pipe");
    let args = ["--table", "ours", "--publish", "replace", "--order-by", "k", "--header", "none"];
    let load = files
        .start(&[&["load", &pipe, "--to", database.url(), "--format", "csv"], &args[..]].concat());
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).expect("opened");
    // More than is looked at before it begins.
    let rows: String = (0..400_000).map(|n| format!("{n},x\n")).collect();
    writer.write_all(rows.as_bytes()).expect("written");
    database.psql("INSERT INTO ours VALUES (8, 'meanwhile')");
    drop(writer);
    let output = end_of(load);
    assert_ne!(output.code, 0, "{}", output.stdout);
    assert!(output.stderr.contains("--replace-anyway"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "7|old\n8|meanwhile");
}
