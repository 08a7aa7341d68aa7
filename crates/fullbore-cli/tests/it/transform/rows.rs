//! Which rows are left out, which are rejected, and how these are told.

use crate::common::codes::REFUSED;
use crate::common::refused::{SERVERS, fresh};
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, extended_or_skip, shared_or_skip, wanted};

/// A file with one row of each kind; amounts have a decimal comma.
const ROWS: &str = "id,customer,amount,day\n\
    1,Ann,\"1,50\",01.02.2024\n\
    2,Bob,\"x\",02.02.2024\n\
    3,Cy,\"-3,00\",03.02.2024\n\
    4,test,\"4,00\",04.02.2024\n\
    5,Di,\"5,25\",31.02.2024\n\
    6,Ed,,06.02.2024\n";

const SELECT: [&str; 4] = [
    "--select",
    "amount=replace(amount, ',', '.')::numeric(9,2)",
    "--select",
    "day=to_date(day, 'DD.MM.YYYY')",
];

#[test]
fn rows_are_left_out_and_rejected_with_line_column_and_expression() {
    for server in wanted(SERVERS) {
        let cluster = extended_or_skip!(server);
        for way in [
            &["--publish", "append"][..],
            &["--as-text"],
            &["--publish", "replace", "--method", "direct"],
            &["--publish", "replace", "--method", "copy"],
        ] {
            let database = fresh(cluster);
            let files = Files::new();
            files.write("a.csv", ROWS);
            database
                .psql("CREATE TABLE ours (id int, customer text, amount numeric(9,2), day date)");
            let mut args = vec!["--max-rejects", "3", "--json", "--where", "customer <> 'test'"];
            args.extend(SELECT);
            args.extend(["--check", "not negative=amount >= 0"]);
            args.extend(way);
            let output = files.load(&database, "a.csv", "ours", &args);
            assert_eq!(output.code, 3, "{way:?}: {}", output.stderr);
            let found = database.psql("SELECT * FROM ours ORDER BY id");
            assert_eq!(found, "1|Ann|1.50|2024-02-01\n6|Ed||2024-02-06", "{way:?}");
            let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
            assert_eq!(said["counts"]["filtered"], 1, "{}", output.stdout);
            let mut rejects = files.reasons();
            rejects.sort_by_key(|reject| reject["line"].as_u64());
            let told: Vec<_> = rejects
                .iter()
                .map(|one| {
                    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
                    (one["line"].as_u64(), text("column"), text("constraint"), text("value"))
                })
                .collect();
            let one = |line, column: &str, constraint: &str, value: &str| {
                (Some(line), column.to_owned(), constraint.to_owned(), value.to_owned())
            };
            assert_eq!(
                told,
                [
                    one(3, "amount", "", "x"),
                    one(4, "", "not negative", "-3,00"),
                    one(6, "day", "", "31.02.2024"),
                ],
                "{way:?}"
            );
            let reason = rejects[2]["reason"].as_str().unwrap_or_default();
            assert!(reason.contains("to_date(day, 'DD.MM.YYYY')"), "{reason}");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn a_table_is_made_with_what_is_computed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.csv", "Id,First Name,price,quantity\n1,Ann,2.50,3\n2,Bob,0.25,8\n");
    let args = [
        "--header",
        "true",
        "--create",
        "--select",
        "total=price*quantity",
        "--select",
        "who=upper(first_name)",
        "--select",
        "first_name=",
        "--select",
        "number=id",
    ];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        database.psql(
            "SELECT \"Id\", price, quantity, round(total, 2), who, number FROM ours ORDER BY 1"
        ),
        "1|2.50|3|7.50|ANN|1\n2|0.25|8|2.00|BOB|2"
    );
    let types = database.psql(
        "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
           FROM pg_attribute WHERE attrelid = 'ours'::regclass AND attnum > 0",
    );
    assert_eq!(
        types,
        "Id bigint, price numeric, quantity bigint, total numeric(38,6), who text, number bigint"
    );
}

/// Rows that only the server can judge are computed all the same, with their lineage.
#[test]
fn values_that_the_server_reads_are_computed_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = fresh(cluster);
    let files = Files::new();
    let mut text = "k,day,v\n".to_owned();
    for k in 1..=5000 {
        let day = if k % 10 == 0 { "\"Jan 5, 2020\"" } else { "2020-01-05" };
        let v = if k % 11 == 0 { " 7 " } else { "7" };
        text.push_str(&format!("{k},{day},{v}\n"));
    }
    text.push_str("5001,2020-01-05,x\n5002,\"Jan 45, 2020\",7\n");
    files.write("a.csv", text);
    database.psql("CREATE TABLE ours (k int PRIMARY KEY, day date, v int, twice int, line bigint)");
    let args = [
        "--header",
        "true",
        "--select",
        "twice=v*2",
        "--lineage",
        "line=line",
        "--max-rejects",
        "2",
        "--publish",
        "replace",
    ];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let found = database.psql(
        "SELECT count(*), count(*) FILTER (WHERE v = 7 AND twice = 14 AND day = '2020-01-05' AND line = k + 1) FROM ours",
    );
    assert_eq!(found, "5000|5000");
    let mut lines: Vec<_> = files.reasons().iter().map(|one| one["line"].as_u64()).collect();
    lines.sort_unstable();
    assert_eq!(lines, [Some(5002), Some(5003)]);
}

#[test]
fn rows_with_the_key_of_another_are_found_by_what_is_computed() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for method in ["direct", "copy"] {
        let database = fresh(cluster);
        let files = Files::new();
        let text: String = (1..=3000).map(|k| format!("{},{k}\n", k % 2990)).collect();
        files.write("a.csv", format!("a,b\n{text}"));
        database.psql("CREATE TABLE ours (k int PRIMARY KEY, b int)");
        let args = [
            "--header",
            "true",
            "--select",
            "k=a+1",
            "--where",
            "b <> 5",
            "--max-rejects",
            "20",
            "--publish",
            "replace",
            "--method",
            method,
        ];
        let output = files.load(&database, "a.csv", "ours", &args);
        assert_eq!(output.code, 3, "{method}: {}", output.stderr);
        // Row 5 is left out, so that 2995 is the first of its key.
        let mut lines: Vec<_> = files.reasons().iter().map(|one| one["line"].as_u64()).collect();
        lines.sort_unstable();
        let expected = (2991..=3000).filter(|k| *k != 2995).map(|k| Some(k + 1));
        assert_eq!(lines, expected.collect::<Vec<_>>(), "{method}");
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "2990");
    }
}

#[test]
fn what_cannot_be_computed_is_refused_before_anything_moves() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.csv", "a,b\n1,x\n");
    database.psql("CREATE TABLE ours (a int, b text, c date)");
    for (args, words) in [
        (&["--select", "c=nothing+1"][..], "No field named nothing"),
        (&["--select", "c=a+"], "--select c=a+"),
        (&["--select", "d=a+1"], "no column \"d\""),
        (&["--select", "c=a+1"], "cast it to the column's type"),
        (
            &["--select", "b=random()::text", "--select", "c=to_date(b)"],
            "differs whenever a row is read",
        ),
        (&["--select", "c=to_date(b, 'DD.qq')"], "is no part of a date"),
        (&["--where", "a+1", "--select", "c=to_date(b)"], "it must be true or false"),
        (&["--where", "a IN (SELECT 1)", "--select", "c=to_date(b)"], "--where"),
    ] {
        let output =
            files.load(&database, "a.csv", "ours", &[&["--header", "true"], args].concat());
        assert_eq!(output.code, 2, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains("hint"), "{args:?}: {}", output.stderr);
    }
    assert_no_leftovers(&database);
}

#[test]
fn whole_numbers_that_leave_their_range_are_rejected() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.csv", "a,b\n2,3\n100000,100000\n-2147483648,1\n");
    database.psql("CREATE TABLE ours (a int, b int, total bigint, less int)");
    let args = ["--select", "total=a * b", "--select", "less=-a", "--max-rejects", "2"];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours"), "2|3|6|-2");
    let mut told: Vec<_> = files.reasons();
    told.sort_by_key(|reject| reject["line"].as_u64());
    let columns: Vec<_> = told.iter().map(|one| one["column"].as_str()).collect();
    assert_eq!(columns, [Some("total"), Some("less")]);
    let args = ["--select", "total=to_char(a, '9')", "--if-loaded", "again"];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("to_char"), "{}", output.stderr);
}

#[test]
fn a_zone_is_ignored_where_the_column_ignores_it() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.csv", "created\n2024-01-02T00:30:00+02:00\n2024-01-02T23:30:00Z\n");
    database.psql("CREATE TABLE ours (created timestamp, day date)");
    let output = files.load(&database, "a.csv", "ours", &["--select", "day=created::date"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql("SELECT count(*), bool_and(day = created::date) FROM ours");
    assert_eq!(found, "2|t");
}

#[test]
fn what_a_condition_keeps_from_its_other_half_fails_no_row() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String =
        (0..1000).map(|n| format!("{}\n", if n % 2 == 0 { n } else { 60_000 })).collect();
    files.write("a.csv", format!("a\n{rows}"));
    database.psql("CREATE TABLE ours (a int)");
    let args = ["--field-type", "a=int", "--where", "a < 40000 AND a * a < 1000000"];
    let output = files.load(&database, "a.csv", "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), max(a) FROM ours"), "500|998");
}
