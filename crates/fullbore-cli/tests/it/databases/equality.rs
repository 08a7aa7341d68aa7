//! What arrives is what was there.

use super::table;
use crate::common::moments::assert_loaded;
use crate::common::typed::{TYPED, make_types, typed_rows};
use crate::common::{Files, assert_no_leftovers, checksum};
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip};

#[test]
fn every_type_arrives_as_it_was() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    assert_every_type_arrives(&cluster.fresh_database(), &cluster.fresh_database());
}

#[test]
fn every_type_arrives_from_a_database_that_has_the_extension() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    from.psql("CREATE EXTENSION fullbore");
    count_stretches(&from);
    assert_every_type_arrives(&from, &to);
    assert!(stretches(&from) > 0);
}

#[test]
fn who_may_not_use_the_extension_copies_without_it() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    from.psql("CREATE EXTENSION fullbore; CREATE TABLE t AS SELECT g AS k FROM generate_series(1, 30000) g");
    count_stretches(&from);
    let reader = format!("reader_{}", from.name());
    from.psql(&format!("CREATE ROLE {reader} LOGIN; GRANT SELECT ON t TO {reader}"));
    to.psql("CREATE TABLE one (k int); CREATE TABLE two (k int)");
    let source = table(&from, "t").replacen("postgres@", &format!("{reader}@"), 1);
    assert_loaded(&files.load(&to, &source, "one", &[]));
    assert_eq!(stretches(&from), 0);
    from.psql(&format!("GRANT USAGE ON SCHEMA fullbore TO {reader}"));
    assert_loaded(&files.load(&to, &source, "two", &[]));
    assert!(stretches(&from) > 0);
    for name in ["one", "two"] {
        assert_eq!(checksum(&to, name), checksum(&from, "t"), "{name}");
    }
}

fn count_stretches(database: &TestDatabase<'_>) {
    let name = database.name();
    database.psql(&format!("ALTER DATABASE {name} SET track_functions = 'all'"));
}

/// How often the extension was asked for more rows.
fn stretches(database: &TestDatabase<'_>) -> u64 {
    let calls =
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'rows_of'";
    database.psql(calls).trim().parse().expect("a number")
}

fn assert_every_type_arrives(from: &TestDatabase<'_>, to: &TestDatabase<'_>) {
    let files = Files::new();
    let file = files.write("typed.csv", typed_rows(20_000, 0));
    // Columns that go as text take the whole table along; without them it is typed.
    let plain = "SELECT id, flag, small, number, r, d, price, big, note, short, padded, day, at, moment, zoned,
        key, raw, doc, docb, mood FROM typed";
    for database in [from, to] {
        make_types(database);
        database.psql(&format!("CREATE TABLE typed ({TYPED}, odd inet, span interval)"));
    }
    from.psql(&format!(
        "ALTER TABLE typed DROP odd, DROP span; COPY typed FROM '{file}' (FORMAT csv);
         CREATE TABLE plain AS {plain};
         ALTER TABLE typed ADD odd inet DEFAULT '10.0.0.1/8', ADD span interval DEFAULT '1 mon -2 days'"
    ));
    to.psql(&format!("CREATE TABLE plain AS {plain}"));
    for (name, more) in [
        ("typed", &[][..]),
        ("plain", &[]),
        ("plain", &["--as-text"]),
        ("plain", &["--verify", "full", "--publish", "replace"]),
    ] {
        to.psql(&format!("TRUNCATE {name}"));
        let args = [&["--streams", "3", "--piece-size", "200kB"], more].concat();
        let output = files.load(to, &table(from, name), name, &args);
        assert_loaded(&output);
        assert_eq!(checksum(to, name), checksum(from, name), "{name} {more:?}");
        assert_no_leftovers(to);
    }
}

#[test]
fn a_table_is_created_as_its_source_has_it_and_filled_directly() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    to.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    from.psql(
        "CREATE TABLE \"a B\" (id bigint, code varchar(7), price numeric(9,2), net inet, doc json, tags text[],
                               at timestamptz(3));
         INSERT INTO \"a B\" SELECT g, 'c' || g % 90000, g / 7.0, '10.0.0.1', '{}', '{a,NULL}', now() FROM generate_series(1, 50000) g",
    );
    let source = table(&from, "public.%22a%20B%22");
    let output = files.fullbore(&[
        "load",
        &source,
        "--to",
        to.url(),
        "--table",
        "\"a B\"",
        "--create",
        "--publish",
        "replace",
    ]);
    assert_loaded(&output);
    assert_eq!(checksum(&to, "\"a B\""), checksum(&from, "\"a B\""));
    let columns = "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
                     FROM pg_attribute WHERE attrelid = '\"a B\"'::regclass AND attnum > 0";
    assert_eq!(to.psql(columns), from.psql(columns));
}

#[test]
fn partitions_expressions_and_keys_are_taken_too() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    from.psql(
        "CREATE TABLE p (k int, v text, gone int, twice int GENERATED ALWAYS AS (k * 2) STORED) PARTITION BY RANGE (k);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (5000) TO (20000) PARTITION BY HASH (k);
         CREATE TABLE p2a PARTITION OF p2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE p2b PARTITION OF p2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         INSERT INTO p SELECT g, 'row ' || g, g FROM generate_series(0, 19999) g; ALTER TABLE p DROP gone",
    );
    to.psql(
        "CREATE TABLE ours (k int PRIMARY KEY, v text, long int, file text);
         INSERT INTO ours VALUES (7, 'old', 0, '-'), (30000, 'other', 0, '-')",
    );
    let args = [
        "--publish",
        "upsert",
        "--select",
        "long=length(v)",
        "--where",
        "k % 2 = 1",
        "--lineage",
        "file=file",
    ];
    let output = files.load(&to, &table(&from, "p"), "ours", &args);
    assert_loaded(&output);
    let found =
        to.psql("SELECT count(*), sum(k), min(v) FILTER (WHERE k = 7), sum(long) FROM ours");
    let lengths = from.psql("SELECT sum(length(v)) FROM p WHERE k % 2 = 1");
    assert_eq!(found, format!("10001|100030000|row 7|{lengths}"));
    let file = to.psql("SELECT file FROM ours WHERE k = 7");
    assert!(file.ends_with("table=p") && !file.contains("snapshot"), "{file}");
}
