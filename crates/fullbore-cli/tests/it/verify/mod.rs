//! Full verification raises no false alarm: every type, every way of loading, every odd row.

mod counted;
mod finds;
mod rejects;
mod ways;

use crate::common::typed::{TYPED, make_types, typed_rows};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{
    Output, TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted,
};

/// The columns of TYPED without the one whose stored form only the server knows.
const WITHOUT_JSONB: &str = "id,flag,small,number,r,d,price,big,huge,free,note,short,padded,day,at,\
    moment,zoned,key,raw,doc,-,mood,numbers,words";

fn verified(files: &Files, output: &Output, more: &[&str]) -> serde_json::Value {
    assert_eq!(output.code, 0, "{}", output.stderr);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("one object");
    assert_eq!(said["verified"]["level"], "full", "{said}");
    let mut args = vec!["runs", "verify", "last", "--json"];
    args.extend(more);
    let again = files.fullbore(&args);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    let report: serde_json::Value = serde_json::from_str(&again.stdout).expect("one object");
    assert_eq!(report["equal"], true, "{report}");
    assert_eq!(report["rows"], said["rows"], "{report}");
    report
}

/// Loads, and compares in the load, afterwards, and with the files once more.
fn loads(database: &TestDatabase<'_>, files: &Files, file: &str, table: &str, more: &[&str]) {
    let mut args = vec!["--format", "csv", "--header", "none", "--verify", "full", "--json"];
    args.extend(more);
    let output = files.load(database, file, table, &args);
    verified(files, &output, &[]);
    verified(files, &output, &["--against"]);
    assert_no_leftovers(database);
}

fn every_way(server: TestServer, odd_every: usize) {
    let cluster = shared_or_skip!(server);
    let database = cluster.fresh_database();
    make_types(&database);
    let files = Files::new();
    let file = files.write("typed.csv", typed_rows(1500, odd_every));
    let ways: [(&str, &[&str]); 5] = [
        ("append", &[]),
        ("atomic", &["--atomic"]),
        ("replaced", &["--publish", "replace"]),
        ("text", &["--as-text", "--publish", "replace"]),
        ("parted", &["--publish", "partitions", "--partition-bounds", "MINVALUE,400,900,MAXVALUE"]),
    ];
    database.psql(&format!("CREATE TABLE plain ({TYPED}); COPY plain FROM '{file}' (FORMAT csv)"));
    for (table, more) in ways {
        let by = if table == "parted" { "PARTITION BY RANGE (id)" } else { "" };
        database.psql(&format!("CREATE TABLE {table} ({TYPED}) {by}"));
        let mut args = vec!["--columns", WITHOUT_JSONB];
        args.extend(more);
        loads(&database, &files, &file, table, &args);
        // And with the column that only the server knows.
        database.psql(&format!("TRUNCATE {table}"));
        if table == "parted" {
            database.psql(&format!("DROP TABLE parted; CREATE TABLE parted ({TYPED}) {by}"));
        }
        loads(&database, &files, &file, table, more);
        assert_same(&database, table, "plain");
    }
}

#[test]
fn every_type_and_way_on_18() {
    every_way(TestServer::Embedded18, 0);
    every_way(TestServer::Embedded18, 40);
}

#[test]
fn every_type_and_way_before_17() {
    use TestServer::{Debian15, Pg14, Pg16};
    let servers = wanted([Debian15, Pg14, Pg16]);
    for (server, odd_every) in [(Pg16, 40), (Debian15, 0), (Pg14, 5)] {
        if servers.contains(&server) {
            every_way(server, odd_every);
        }
    }
}

#[test]
fn rows_that_are_laid_out_here() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    make_types(&database);
    let files = Files::new();
    let columns =
        TYPED.replace("docb jsonb, ", "").replace(", numbers integer[], words text[]", "");
    let names = WITHOUT_JSONB.replace("numbers,words", "-,-");
    for odd_every in [0, 30] {
        let file = files.write("typed.csv", typed_rows(1500, odd_every));
        for (table, by, more) in [
            ("replaced", "", &["--publish", "replace"][..]),
            (
                "parted",
                "PARTITION BY RANGE (id)",
                &["--publish", "partitions", "--partition-bounds", "MINVALUE,700,MAXVALUE"],
            ),
        ] {
            database.psql(&format!(
                "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns}) {by}"
            ));
            let mut args = vec!["--method", "direct", "--columns", &names];
            args.extend(more);
            loads(&database, &files, &file, table, &args);
        }
    }
}

#[test]
fn values_that_are_written_in_many_ways() {
    let rows = "1,0.0,0.00,NaN,2024-03-31 02:30:00,2024-07-01 12:00:00.1234567,Infinity,-0,a  ,é\n\
         2,-0.0,-0.004,-0,2024-03-31 02:30:00+05:30,2024-07-01 12:00:00.5,-Infinity,1e3,  b,ß\n\
         3,NaN,99999.995,1e-7,infinity,2024-07-01 11:59:59.9996,NaN,123456789012345678901234567890.5,,\n\
         4,1.5,-12345.67,3.14159,-infinity,1999-12-31 23:59:59.9995,1e300,0.000000000000000000001,abc,\"\"\n\
         5,,,,,,,,,\n";
    for (server, zone) in [
        (TestServer::Embedded18, "Asia/Kolkata"),
        (TestServer::Embedded18, "UTC"),
        (TestServer::Debian15, "America/St_Johns"),
        (TestServer::Pg16, "UTC"),
    ] {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE t (id int, f real, p numeric(10,2), g double precision, z timestamptz,
                             m timestamp(3), h double precision, n numeric, c char(4), v varchar(3))",
        );
        let files = Files::new();
        let file = files.write("t.csv", rows);
        let to = format!(
            "{}{}options=-c%20TimeZone%3D{}",
            database.url(),
            if database.url().contains('?') { "&" } else { "?" },
            zone.replace('/', "%2F")
        );
        let args = [
            "--format",
            "csv",
            "--header",
            "none",
            "--verify",
            "full",
            "--json",
            "--publish",
            "replace",
        ];
        let output = files.load_at(&to, &file, "t", &args);
        verified(&files, &output, &[]);
        verified(&files, &output, &["--against", "--to", &to]);
    }
}

#[test]
fn types_that_only_the_server_knows() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        make_types(&database);
        let columns = "id bigint, span interval, range int4range, net inet, positive positive, \
                       pair pair, spot point, bits bit varying(9), price money, many pair[]";
        database.psql(&format!("CREATE TABLE t ({columns})"));
        let files = Files::new();
        let mut text = String::new();
        for i in 1..300 {
            text.push_str(&format!(
                "{i},{i} days,\"[{i},{})\",10.{}.0.0/16,{i},\"({},\"\"x y\"\")\",\"({i},-{i})\",1011,{i}.25,\"{{\"\"({i},z)\"\"}}\"\n",
                i + 5,
                i % 255,
                if i % 3 == 0 { String::new() } else { i.to_string() },
            ));
        }
        let file = files.write("t.csv", text);
        loads(&database, &files, &file, "t", &[]);
    }
}

#[test]
fn rejects_are_in_no_sum() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE t (k int, d date)");
        let files = Files::new();
        let rows: String = (0..2000)
            .map(|k| match k % 97 {
                5 => format!("{k},2024-02-31\n"),
                9 => format!("{k},\"Jan 5, 2020\"\n"),
                11 => format!("{k},2024-01-01,more\n"),
                _ => format!("{k},2024-01-01\n"),
            })
            .collect();
        let file = files.write("t.csv", rows);
        for more in [&["--publish", "replace"][..], &[]] {
            let mut args = vec!["--header", "none", "--max-rejects", "10%", "--verify", "full"];
            args.extend(more);
            let output = files.load(&database, &file, "t", &args);
            assert_eq!(output.code, 3, "{}", output.stderr);
            assert!(output.stderr.contains("verified:   every value"), "{}", output.stderr);
            for against in
                [&["runs", "verify", "last"][..], &["runs", "verify", "last", "--against"]]
            {
                let verified = files.fullbore(against);
                assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
            }
        }
    }
}
