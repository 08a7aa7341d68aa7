//! Keys of partitions: of every type, as the server stores them, and those of which no range is known.

use crate::common::codes::REFUSED;
use crate::common::parted::{PARTITIONS, SERVERS};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestServer, shared_or_skip, wanted};

#[test]
fn keys_of_every_ordered_type_reach_their_last_value() {
    for server in wanted(SERVERS) {
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
            ("timestamp(0)", &["1999-12-31 23:59:58.5", "2024-01-02 00:00:00.7"]),
            ("timestamptz(3)", &["2024-03-31 00:59:59.0005+00"]),
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

#[test]
fn a_range_that_ends_with_a_key_of_the_servers_is_refused_by_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (text, line) in [("1,a\n2,b\n+3,c\n", "line 3"), (" 1,a\n2,b\n3,c\n", "line 1")] {
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE ours (k int, v text) PARTITION BY RANGE (k)");
        let files = Files::new();
        let file = files.write("x.csv", text);
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, REFUSED, "{}", output.stdout);
        for words in [line, "a form that only the server can read", "--partition-bounds"] {
            assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        }
        let mut args = PARTITIONS.to_vec();
        args.extend(["--partition-bounds", "0,10"]);
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), sum(k) FROM ours"), "3|6");
    }
}

#[test]
fn a_key_that_is_filled_in_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("x.csv", "1,a\n");
    let mut args = PARTITIONS.to_vec();
    args.extend(["--create", "--partition-by", "at", "--lineage", "loaded_at=at"]);
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stdout);
    assert!(output.stderr.contains("--lineage"), "{}", output.stderr);
    assert_no_leftovers(&database);
}
