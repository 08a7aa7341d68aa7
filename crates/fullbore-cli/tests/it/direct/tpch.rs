//! All tables of TPC-H by method direct, replaced and as partitions: equal to plain COPY, and
//! sound in the eyes of the server's own checkers.

use crate::common::sound::{assert_dump_restores, assert_sound};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestServer, extended_or_skip, is_long};

const TABLES: [(&str, Option<&str>); 8] = [
    ("region", None),
    ("nation", None),
    ("supplier", Some("s_suppkey")),
    ("customer", Some("c_custkey")),
    ("part", Some("p_partkey")),
    ("partsupp", Some("ps_partkey")),
    ("orders", Some("o_orderkey")),
    ("lineitem", Some("l_orderkey")),
];

fn schema(table: &str) -> String {
    format!("{}/../../demo/schema/{table}.sql", env!("CARGO_MANIFEST_DIR"))
}

fn all_tables_on(server: TestServer) {
    let cluster = extended_or_skip!(server);
    let files = Files::new();
    let folder = files.folder().to_str().expect("UTF-8").to_owned();
    let made = files.fullbore(&["gen", "tpch", "--scale", "0.01", "--out", &folder]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    // Two of the tables have no key, and are replaced even so.
    let ways: &[&str] = if is_long() { &["replace", "partitions"] } else { &["partitions"] };
    for publish in ways.iter().copied() {
        let database = cluster.fresh_database();
        database.psql("CREATE EXTENSION fullbore");
        for (table, key) in TABLES {
            let mut args = vec!["--method", "direct", "--json", "--create", "--schema"];
            let schema = schema(table);
            args.push(&schema);
            match key.filter(|_| publish == "partitions") {
                Some(key) => args.extend(["--publish", "partitions", "--partition-by", key]),
                None => args.extend(["--publish", "replace"]),
            }
            let file = format!("{folder}/{table}.tbl");
            let output = files.load(&database, &file, table, &args);
            assert_eq!(output.code, 0, "{table}: {}", output.stderr);
            assert!(output.stdout.contains(r#""method":"direct""#), "{}", output.stdout);

            let text = std::fs::read_to_string(&file).expect("generated");
            let plain = files.write("plain.tbl", text.replace("|\n", "\n"));
            database.psql(&format!(
                "CREATE TABLE plain (LIKE {table}); COPY plain FROM '{plain}' (DELIMITER '|')"
            ));
            assert_same(&database, table, "plain");
            database.psql("DROP TABLE plain");
            assert_sound(&database, table);
        }
        assert_no_leftovers(&database);
        assert_dump_restores(&database, &files, &TABLES.map(|(table, _)| table));
    }
}

#[test]
fn all_tables_on_18() {
    all_tables_on(TestServer::Embedded18);
}

#[test]
#[ignore = "make test-all: every version"]
fn all_tables_on_17() {
    all_tables_on(TestServer::Pg17);
}

#[test]
#[ignore = "make test-all: every version"]
fn all_tables_on_16() {
    all_tables_on(TestServer::Pg16);
}

#[test]
#[ignore = "make test-all: every version"]
fn all_tables_on_15() {
    all_tables_on(TestServer::Debian15);
}

#[test]
#[ignore = "make test-all: every version"]
fn all_tables_on_14() {
    all_tables_on(TestServer::Pg14);
}
