//! Pieces that become partitions: whatever the sources are, the rows equal COPY's, or the load is
//! refused with file, line and key.

mod bounds;
mod guards;
mod keys;
mod parquet;
mod routed;

use crate::common;
use crate::common::codes::{FAILED, REFUSED};
use crate::common::parted::{
    PARTITIONS, SERVERS, assert_refused, count_partitions, partitioned, plain, rows,
};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestServer, shared_or_skip, wanted};

#[test]
fn a_null_key_is_refused_with_file_and_line() {
    for server in wanted(SERVERS) {
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
fn a_null_key_in_a_row_for_the_server_to_judge_is_refused_too() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE ours (k bigint, day date) PARTITION BY RANGE (k)");
        let files = Files::new();
        let day = |k: i32| if k % 50 == 0 { "Jan 5, 2020" } else { "2020-01-05" };
        let text: String = (0..50_000)
            .map(|k| {
                if k == 40_000 {
                    format!("\\N\t{}\n", day(k))
                } else {
                    format!("{k}\t{}\n", day(k))
                }
            })
            .collect();
        let file = files.write("odd.tsv", text);
        let output =
            files.load(&database, &file, "ours", &["--format", "text", "--publish", "partitions"]);
        assert_refused(&database, &output, FAILED, &["odd.tsv", "line 40001", "k is NULL"]);
    }
}

#[test]
fn an_unsorted_file_is_refused_with_its_line_or_scanned() {
    for server in wanted(SERVERS) {
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
    for server in wanted(SERVERS) {
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
    for server in wanted(SERVERS) {
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
