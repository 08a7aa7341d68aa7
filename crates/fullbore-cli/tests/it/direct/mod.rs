//! What the direct method loads equals what plain COPY loads, by count and checksum.

mod choice;
mod filled;
mod replicas;
mod tpch;
mod ways;

use crate::common;
use crate::common::sound::{assert_dump_restores, assert_sound};
use crate::common::typed::{TYPED, make_types, typed_rows};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestCluster, TestDatabase, TestServer, extended_or_skip, wanted};

/// The columns of TYPED whose values a client can lay out.
const LAID_OUT: &str = "id, flag, small, number, r, d, price, big, huge, free, note, short, padded,
    day, at, moment, zoned, key, raw, doc, mood";

/// The same for `--columns`, where the file has all of TYPED.
const LAID_OUT_FIELDS: &str = "id,flag,small,number,r,d,price,big,huge,free,note,short,padded,day,\
    at,moment,zoned,key,raw,doc,-,mood,-,-";

const SERVERS: [TestServer; 5] = TestServer::MAJORS;

/// A database that rows can be loaded into directly.
fn fresh(cluster: &TestCluster) -> TestDatabase<'_> {
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    database
}

/// Loads by method direct, which must have been used, and compares with `plain`.
fn loads(database: &TestDatabase<'_>, files: &Files, file: &str, code: i32, more: &[&str]) {
    let mut args = vec!["--method", "direct", "--json", "--format", "csv", "--header", "none"];
    args.extend(more);
    let output = files.load(database, file, "ours", &args);
    assert_eq!(output.code, code, "{}", output.stderr);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(said["method"], "direct");
    assert_eq!(said["rows"].to_string(), database.psql("SELECT count(*) FROM plain"));
    assert_same(database, "ours", "plain");
    assert_no_leftovers(database);
}

/// The same, and holds what was loaded to the server's own checkers and a dump.
fn loads_soundly(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) {
    loads(database, files, file, 0, more);
    assert_sound(database, "ours");
    assert_dump_restores(database, files, &["ours"]);
}

/// Rows of the types that can be laid out, every few of them odd, replaced and as partitions.
fn laid_out(server: TestServer, odd_every: usize) {
    let cluster = extended_or_skip!(server);
    for publish in ["replace", "partitions"] {
        let database = fresh(cluster);
        make_types(&database);
        let files = Files::new();
        let file = files.write("typed.csv", typed_rows(3000, odd_every));
        let partition = if publish == "partitions" { "PARTITION BY RANGE (id)" } else { "" };
        database.psql(&format!(
            "CREATE TABLE all_types ({TYPED}); COPY all_types FROM '{file}' (FORMAT csv);
             CREATE TABLE plain AS SELECT {LAID_OUT} FROM all_types;
             CREATE TABLE shape ({TYPED}, more integer);
             ALTER TABLE shape DROP COLUMN more, DROP COLUMN docb, DROP COLUMN numbers, DROP COLUMN words;
             CREATE TABLE ours (LIKE shape) {partition}"
        ));
        let args = ["--publish", publish, "--columns", LAID_OUT_FIELDS];
        loads_soundly(&database, &files, &file, &args);
    }
}

#[test]
fn every_type_that_can_be_laid_out() {
    wanted(SERVERS).into_iter().for_each(|server| laid_out(server, 0));
}

#[test]
fn odd_rows_are_judged_by_the_server() {
    wanted(SERVERS).into_iter().for_each(|server| laid_out(server, 50));
    // So many that the table goes as text.
    wanted([TestServer::Embedded18, TestServer::Debian15])
        .into_iter()
        .for_each(|server| laid_out(server, 5));
}

#[test]
fn types_that_only_the_server_can_lay_out_travel_out_of_band() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        let database = fresh(cluster);
        make_types(&database);
        let files = Files::new();
        let file = files.write("typed.csv", typed_rows(3000, 100));
        database.psql(&format!(
            "CREATE TABLE ours ({TYPED}); CREATE TABLE plain (LIKE ours);
             COPY plain FROM '{file}' (FORMAT csv)"
        ));
        loads_soundly(&database, &files, &file, &["--publish", "replace"]);

        let text: String =
            (1..2000).map(|i| format!("{i},{i} days,\"[{i},{}]\",{i}\n", i + 1)).collect();
        let file = files.write("text.csv", text);
        let columns = "id bigint, span interval, range int4range, checked positive";
        database.psql(&format!(
            "DROP TABLE ours, plain; CREATE TABLE ours ({columns}); CREATE TABLE plain ({columns});
             COPY plain FROM '{file}' (FORMAT csv)"
        ));
        loads_soundly(&database, &files, &file, &["--publish", "replace"]);
    }
}

#[test]
fn long_rows_travel_out_of_band() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        let database = fresh(cluster);
        let files = Files::new();
        let text: String = (0..600)
            .map(|i| {
                let long =
                    format!("{i:x}").repeat([0, 1, 60, 126, 127, 900, 1990, 2100, 9000][i % 9]);
                format!("{i},{long},{}\n", "1234567890".repeat(i % 300))
            })
            .collect();
        let file = files.write("long.csv", text);
        // A numeric has at most 131,072 digits before its point; the empty one is NULL.
        let columns = "id integer, note text, number numeric";
        database.psql(&format!(
            "CREATE TABLE ours ({columns}); CREATE TABLE plain ({columns});
             COPY plain FROM '{file}' (FORMAT csv)"
        ));
        loads_soundly(&database, &files, &file, &["--publish", "replace"]);
    }
}

#[test]
fn partitions_are_held_to_their_ranges_and_attached_without_a_scan() {
    for server in wanted(SERVERS) {
        let cluster = match fullbore_testing::extension::install(server) {
            Ok(()) => fullbore_testing::start_or_skip!(server, &[("log_min_messages", "debug1")]),
            Err(missing) => fullbore_testing::skip!("{missing}"),
        };
        let database = fresh(&cluster);
        let files = Files::new();
        let text: String =
            (0..1_500_000).map(|i| format!("{},{},payload {i}\n", i / 7, i % 7)).collect();
        let file = files.write("keys.csv", &text);
        database.psql(&format!(
            "CREATE TABLE ours (k bigint, n integer, v text, PRIMARY KEY (k, n)) PARTITION BY RANGE (k);
             CREATE TABLE plain (k bigint, n integer, v text); COPY plain FROM '{file}' (FORMAT csv)"
        ));
        loads(&database, &files, &file, 0, &["--publish", "partitions", "--streams", "3"]);
        let partitions =
            database.psql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'ours'::regclass");
        assert_ne!(partitions, "1");
        let log = std::fs::read_to_string(cluster.cluster().log_file()).expect("a log");
        let implied = log.matches("is implied by existing constraints").count();
        // Once in the end for each; the empty ones that are tried before are not asked.
        assert!(implied >= partitions.parse().unwrap(), "{implied} of {partitions}");
        let checks = database
            .psql("SELECT count(*) FROM pg_constraint WHERE conname = 'fullbore_key_range'");
        assert_eq!(checks, "0");
    }
}

#[test]
fn several_files_compressed_or_not_fill_one_table() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    database.psql("CREATE TABLE ours (a bigint, b text); CREATE TABLE plain (LIKE ours)");
    let mut names = Vec::new();
    for part in 0..3 {
        let text: String =
            (0..200_000).map(|i| format!("{i},value {i} of part {part}\n")).collect();
        let file = files.write(&format!("part{part}.csv"), &text);
        database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
        names.push(match part {
            0 => file,
            _ => files
                .write(&format!("packed{part}"), common::packed(text.as_bytes())[part].1.clone()),
        });
    }
    let mut args = vec!["load"];
    args.extend(names.iter().map(String::as_str));
    args.extend(["--to", database.url(), "--table", "ours", "--format", "csv", "--header", "none"]);
    args.extend(["--publish", "replace", "--method", "direct", "--parsers", "3"]);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same(&database, "ours", "plain");

    // The same from a pipe, packed on the way.
    let text: String = (0..200_000).map(|i| format!("{i},piped\n")).collect();
    database.psql(
        "TRUNCATE plain; INSERT INTO plain SELECT i, 'piped' FROM generate_series(0, 199999) i",
    );
    let args = [
        "load",
        "-",
        "--to",
        database.url(),
        "--table",
        "ours",
        "--format",
        "csv",
        "--header",
        "none",
        "--publish",
        "replace",
        "--method",
        "direct",
    ];
    let output = files.fullbore_with_input(&args, text.as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same(&database, "ours", "plain");
    assert_no_leftovers(&database);
}

#[test]
fn rejects_are_told_with_line_and_reason() {
    for server in wanted(SERVERS) {
        for publish in ["replace", "partitions"] {
            let cluster = extended_or_skip!(server);
            let database = fresh(cluster);
            let files = Files::new();
            let mut text: String =
                (1..=5000).map(|i| format!("{i},2024-01-01,\"{{}}\"\n")).collect();
            text.push_str(
                "5001,2024-02-30,\"{}\"\n5002,\"Jan 5, 2020\",\"{}\"\n5003,2024-01-01,\"{\"\n",
            );
            let file = files.write("bad.csv", text);
            let partition = if publish == "partitions" { "PARTITION BY RANGE (id)" } else { "" };
            database.psql(&format!(
                "CREATE TABLE ours (id bigint, day date, doc json) {partition};
                 CREATE TABLE plain (id bigint, day date, doc json);
                 INSERT INTO plain SELECT i, '2024-01-01', '{{}}' FROM generate_series(1, 5000) i;
                 INSERT INTO plain VALUES (5002, '2020-01-05', '{{}}')"
            ));
            let args = ["--publish", publish, "--max-rejects", "2"];
            loads(&database, &files, &file, 3, &args);
            let reasons = files.reasons();
            let found: Vec<_> = reasons
                .iter()
                .map(|r| {
                    (
                        r["line"].as_u64().unwrap(),
                        r["column"].as_str().unwrap(),
                        r["code"].as_str().unwrap(),
                    )
                })
                .collect();
            assert_eq!(found, [(5001, "day", "22008"), (5003, "doc", "22P02")]);
            assert!(reasons[0]["reason"].as_str().unwrap().contains("out of range"));
            assert_eq!(reasons[0]["value"], "2024-02-30");
        }
    }
}

#[test]
fn a_row_that_breaks_a_constraint_takes_all_back() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    let file = files.write("rows.csv", "1,2\n2,-3\n");
    database.psql(
        "CREATE TABLE ours (a integer, b integer CHECK (b > 0)); INSERT INTO ours VALUES (7, 7)",
    );
    let args = ["--method", "direct", "--publish", "replace", "--header", "none"];
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("ours_b_check"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT a FROM ours"), "7");
    assert_no_leftovers(&database);
}

#[test]
fn rows_are_packed_where_the_server_can_unpack() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for codec in ["lz4", "zstd"] {
        let database = fresh(cluster);
        let files = Files::new();
        let text: String = (0..50_000).map(|i| format!("{i},the same words again\n")).collect();
        let file = files.write("rows.csv", text);
        database.psql(&format!(
            "CREATE TABLE ours (a integer, b text); CREATE TABLE plain (LIKE ours);
             COPY plain FROM '{file}' (FORMAT csv)"
        ));
        let codecs =
            database.psql("SELECT fullbore.descriptor('ours'::regclass)::json -> 'codecs'");
        if codecs.contains(codec) {
            loads(&database, &files, &file, 0, &["--publish", "replace", "--compress", codec]);
        } else {
            let args = ["--publish", "replace", "--header", "none", "--compress", codec];
            let output = files.load(&database, &file, "ours", &args);
            assert_eq!(output.code, 2, "{}", output.stderr);
            assert!(output.stderr.contains("--compress none"), "{}", output.stderr);
        }
    }
}
