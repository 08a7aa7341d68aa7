//! Parquet files that become partitions: row groups by their statistics, or by their keys.

use crate::common::codes::REFUSED;
use std::sync::Arc;

use crate::common::parted::{SERVERS, assert_refused, count_partitions, partitioned, plain};
use crate::common::{Files, assert_no_leftovers, assert_same};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fullbore_testing::{TestServer, shared_or_skip, wanted};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

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
    for server in wanted(SERVERS) {
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
fn parquet_is_cut_by_given_bounds() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        let keys: Vec<Option<i64>> = (0..120_000).map(|n| Some(n / 7)).collect();
        let csv = parquet_as_csv(&files, "all.csv", &keys);
        let file = parquet(&files, "all.parquet", &keys, true);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql("CREATE TABLE small PARTITION OF ours FOR VALUES FROM (100) TO (101)");
        // One stream wants no more pieces than the bounds ask for.
        let args = ["--publish", "partitions", "--streams", "1"];
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, &[&csv]);
        assert_same(&database, "ours", "plain");
        assert_eq!(count_partitions(&database), 3);
        assert_eq!(database.psql("SELECT count(*), min(k), max(k) FROM small"), "7|100|100");
        let database = cluster.fresh_database();
        partitioned(&database);
        let bounds = ["--publish", "partitions", "--partition-bounds", "0,5,10000,20000"];
        let output = files.load(&database, &file, "ours", &bounds);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, &[&csv]);
        assert_same(&database, "ours", "plain");
        assert_eq!(count_partitions(&database), 3);
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
