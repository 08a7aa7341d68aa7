//! Pieces that become partitions: whatever the sources are, the rows equal COPY's, or the load is
//! refused with file, line and key.

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

const REFUSED: i32 = 2;
const FAILED: i32 = 1;
const SERVERS: [TestServer; 2] = [TestServer::Embedded18, TestServer::Pg14];
const PARTITIONS: [&str; 6] = ["--format", "csv", "--header", "none", "--publish", "partitions"];

/// A table partitioned by `k`, empty.
fn partitioned(database: &TestDatabase<'_>) {
    database.psql("CREATE TABLE ours (k bigint, v text) PARTITION BY RANGE (k)");
}

/// The same rows as plain COPY loads them.
fn plain(database: &TestDatabase<'_>, files: &[&str]) {
    database.psql("CREATE TABLE plain (k bigint, v text)");
    for file in files {
        database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
    }
}

/// Rows with these keys, each three times.
fn rows(keys: std::ops::Range<i64>) -> String {
    keys.map(|k| (0..3).map(|n| format!("{k},row {n} of key {k}\n")).collect::<String>()).collect()
}

fn count_partitions(database: &TestDatabase<'_>) -> usize {
    let count =
        database.psql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'ours'::regclass");
    count.parse().expect("a number")
}

/// Refused: nothing is in the table and nothing is left behind.
fn assert_refused(
    database: &TestDatabase<'_>,
    output: &fullbore_testing::Output,
    code: i32,
    words: &[&str],
) {
    assert_eq!(output.code, code, "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{} lacks {word}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    assert_no_leftovers(database);
}

#[test]
fn a_null_key_is_refused_with_file_and_line() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        // The second table's column has no binary form: all of it goes as text.
        for columns in ["k bigint, v text", "k bigint, v interval"] {
            let database = cluster.fresh_database();
            database.psql(&format!("CREATE TABLE ours ({columns}) PARTITION BY RANGE (k)"));
            let files = Files::new();
            let late: String = (0..90_000)
                .map(|k| if k == 70_000 { "\\N\t1\n".into() } else { format!("{k}\t{k}\n") })
                .collect();
            let file = files.write("late.tsv", late);
            let text = ["--format", "text", "--publish", "partitions"];
            let output = files.load(&database, &file, "ours", &text);
            assert_refused(
                &database,
                &output,
                FAILED,
                &["late.tsv", "line 70001", "k is NULL", "--publish append"],
            );
            // At the beginning it is seen by the planner, and so is one that a scan meets.
            let file = files.write("early.csv", format!("1,1\n,2\n{}", "3,3\n".repeat(9)));
            let output = files.load(&database, &file, "ours", &PARTITIONS);
            assert_refused(&database, &output, REFUSED, &["early.csv", "line 2", "k is NULL"]);
            let scan = ["--format", "text", "--publish", "partitions", "--scan-keys"];
            let output = files.load(&database, "late.tsv", "ours", &scan);
            assert_refused(&database, &output, REFUSED, &["late.tsv", "line 70001", "k is NULL"]);
        }
    }
}

#[test]
fn an_unsorted_file_is_refused_with_its_line_or_scanned() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        let files = Files::new();
        // Two pieces; one of the first piece's keys comes in the second.
        let mut text = rows(0..350_000);
        let lines = text.lines().count();
        text.push_str("5,too late\n900000,the last\n");
        let file = files.write("unsorted.csv", text);
        let mut args = PARTITIONS.to_vec();
        args.extend(["--streams", "1"]);
        let output = files.load(&database, &file, "ours", &args);
        let line = format!("line {}", lines + 1);
        assert_refused(
            &database,
            &output,
            FAILED,
            &["unsorted.csv", &line, "key ranges overlap", "k is 5", "--scan-keys"],
        );
        args.push("--scan-keys");
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, &[&file]);
        assert_same(&database, "ours", "plain");
        assert_no_leftovers(&database);
    }
}

#[test]
fn scanned_files_may_be_shuffled_inside_and_come_in_any_order() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        let files = Files::new();
        let shuffled = |keys: std::ops::Range<i64>| -> String {
            let length = keys.end - keys.start;
            keys.clone()
                .map(|k| keys.start + (k - keys.start) * 7919 % length)
                .map(|k| format!("{k},some payload for key {k}\n"))
                .collect()
        };
        let high = files.write("1.csv", shuffled(1_000_000..1_300_000));
        let low = files.write("2.csv", shuffled(-300_000..0));
        let mut args = PARTITIONS.to_vec();
        args.push("--scan-keys");
        let output = files.load(&database, "?.csv", "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, &[&high, &low]);
        assert_same(&database, "ours", "plain");
        assert_eq!(count_partitions(&database), 2);

        let database = cluster.fresh_database();
        partitioned(&database);
        files.write("3.csv", shuffled(1_299_999..1_300_001));
        let output = files.load(&database, "?.csv", "ours", &args);
        assert_refused(
            &database,
            &output,
            REFUSED,
            &["1.csv has k from 1000000 to 1299999", "3.csv from 1299999 to 1300000", "merge"],
        );
    }
}

#[test]
fn compressed_files_become_partitions() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        let parts = [rows(0..150_000), rows(150_000..300_000), rows(-150_000..0)];
        let mut plains = Vec::new();
        for (n, text) in parts.iter().enumerate() {
            plains.push(files.write(&format!("part.{n}.csv"), text));
            let (packer, content) = common::packed(text.as_bytes()).into_iter().nth(n).expect("3");
            files.write(&format!("part.{n}.{packer}"), content);
        }
        let database = cluster.fresh_database();
        partitioned(&database);
        let mut args =
            vec!["load", "part.0.gzip", "part.1.zstd", "part.2.lz4", "--table", "ours", "--to"];
        args.push(database.url());
        args.extend(PARTITIONS);
        let output = files.fullbore(&args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, &plains.iter().map(String::as_str).collect::<Vec<_>>());
        assert_same(&database, "ours", "plain");
        assert_no_leftovers(&database);
        assert_eq!(count_partitions(&database), 3);

        // A reject keeps its line, and a NULL key is named with it.
        let (_, content) = common::packed(b"1,a\n2,b\nx,c\n4,d\n").into_iter().next().expect("gz");
        let file = files.write("reject.gz", content);
        let database = cluster.fresh_database();
        partitioned(&database);
        let mut args = PARTITIONS.to_vec();
        args.extend(["--max-rejects", "1"]);
        assert_eq!(files.load(&database, &file, "ours", &args).code, 3);
        assert_eq!(files.reasons()[0]["line"], 3);
        let (_, content) = common::packed(b"1,a\n2,b\n,c\n4,d\n").into_iter().next().expect("gz");
        let file = files.write("null.gz", content);
        let database = cluster.fresh_database();
        partitioned(&database);
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_refused(&database, &output, REFUSED, &["null.gz", "line 3", "k is NULL"]);
    }
}

#[test]
fn compressed_files_that_overlap_are_refused_with_both_ranges() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    partitioned(&database);
    let files = Files::new();
    for (n, text) in [rows(0..100), rows(99..200)].iter().enumerate() {
        let (_, content) = common::packed(text.as_bytes()).into_iter().next().expect("gzip");
        files.write(&format!("{n}.gz"), content);
    }
    let output = files.load(&database, "?.gz", "ours", &PARTITIONS);
    assert_refused(
        &database,
        &output,
        REFUSED,
        &["0.gz has k from 0 to 99", "1.gz from 99 to 199", "--partition-bounds"],
    );
}

#[test]
fn files_in_another_encoding_become_partitions() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    partitioned(&database);
    let files = Files::new();
    let mut text = Vec::new();
    (0..1000).for_each(|k| {
        text.extend_from_slice(format!("{},caf", k / 2).as_bytes());
        text.extend_from_slice(b"\xe9\n");
    });
    let file = files.write("latin1.csv", text);
    let mut args = PARTITIONS.to_vec();
    args.extend(["--encoding", "latin1"]);
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql(&format!(
        "CREATE TABLE plain (k bigint, v text); COPY plain FROM '{file}' (FORMAT csv, ENCODING 'LATIN1')"
    ));
    assert_same(&database, "ours", "plain");
}

/// Writes a Parquet file of `k` and `v` with small row groups.
fn parquet(files: &Files, name: &str, keys: &[Option<i64>], statistics: bool) -> String {
    let values: StringArray =
        keys.iter().map(|k| Some(format!("value of key {k:?}, long enough to count"))).collect();
    let columns: [(&str, ArrayRef, bool); 2] =
        [("k", Arc::new(Int64Array::from(keys.to_vec())), true), ("v", Arc::new(values), true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    let enabled = if statistics { EnabledStatistics::Page } else { EnabledStatistics::None };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(25_000))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(enabled)
        .build();
    let path = files.path(name);
    let file = std::fs::File::create(&path).expect("created");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("opened");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    path.to_str().expect("UTF-8").to_owned()
}

fn parquet_as_csv(files: &Files, name: &str, keys: &[Option<i64>]) -> String {
    let line = |k: &Option<i64>| {
        let key = k.map_or(String::new(), |k| k.to_string());
        format!("{key},\"value of key {k:?}, long enough to count\"\n")
    };
    files.write(name, keys.iter().map(line).collect::<String>())
}

#[test]
fn parquet_becomes_partitions() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        // Keys that repeat over the ends of row groups and pieces.
        let sorted: Vec<Option<i64>> = (0..800_000).map(|n| Some((n - 400_000) / 7)).collect();
        let shuffled: Vec<Option<i64>> =
            (0..60_000).map(|n| Some(1_000_000 + n * 7919 % 60_000)).collect();
        for (name, keys) in [("sorted", &sorted), ("shuffled", &shuffled)] {
            let csv = parquet_as_csv(&files, &format!("{name}.csv"), keys);
            for statistics in [true, false] {
                let file = parquet(&files, &format!("{name}.parquet"), keys, statistics);
                let database = cluster.fresh_database();
                partitioned(&database);
                let args = ["--publish", "partitions", "--streams", "3"];
                let output = files.load(&database, &file, "ours", &args);
                assert_eq!(output.code, 0, "{name} {statistics}: {}", output.stderr);
                plain(&database, &[&csv]);
                assert_same(&database, "ours", "plain");
                assert_no_leftovers(&database);
                let many = count_partitions(&database) > 1;
                assert_eq!(many, name == "sorted", "{name} {statistics}");
            }
        }
    }
}

#[test]
fn parquet_with_null_keys_or_overlaps_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    partitioned(&database);
    let files = Files::new();
    let mut keys: Vec<Option<i64>> = (0..60_000).map(Some).collect();
    keys[30_000] = None;
    for statistics in [true, false] {
        let file = parquet(&files, "null.parquet", &keys, statistics);
        let output = files.load(&database, &file, "ours", &["--publish", "partitions"]);
        assert_refused(&database, &output, REFUSED, &["null.parquet", "row 30001", "k is NULL"]);
    }
    parquet(&files, "a.parquet", &[Some(1), Some(5)], true);
    parquet(&files, "b.parquet", &[Some(4), Some(9)], true);
    let output = files.load(&database, "?.parquet", "ours", &["--publish", "partitions"]);
    assert_refused(
        &database,
        &output,
        REFUSED,
        &["a.parquet has k from 1 to 5", "b.parquet from 4"],
    );
}

#[test]
fn keys_of_every_ordered_type_reach_their_last_value() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        for (type_name, keys) in [
            ("smallint", &["-32768", "0", "32767"][..]),
            ("integer", &["-2147483648", "2147483647"]),
            ("bigint", &["-9223372036854775808", "9223372036854775807"]),
            ("numeric(4,2)", &["-99.99", "0.01", "99.99"]),
            ("date", &["1992-01-02", "2024-02-29", "9999-12-31"]),
            ("timestamp", &["1999-12-31 23:59:59.999999", "2000-01-01"]),
            ("timestamptz", &["2024-03-31 00:59:59+00", "2024-03-31 04:00:00+02"]),
        ] {
            let database = cluster.fresh_database();
            database.psql(&format!(
                "CREATE TABLE ours (k {type_name}) PARTITION BY RANGE (k);
                 CREATE TABLE plain (k {type_name})"
            ));
            let file = files.write("keys.csv", format!("{}\n", keys.join("\n")));
            database.psql(&format!("COPY plain FROM '{file}'"));
            let output = files.load(&database, &file, "ours", &PARTITIONS);
            assert_eq!(output.code, 0, "{type_name}: {}", output.stderr);
            assert_same(&database, "ours", "plain");
        }
    }
}
