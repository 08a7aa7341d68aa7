//! Nested and odd types of Parquet files: exact, or refused by the column's name.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, DurationMicrosecondArray, DurationNanosecondArray, Int32Array, Int64Array, ListArray,
    NullArray, StringArray, StructArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field};
use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::parquets::parquet;
use crate::common::{Files, assert_no_leftovers};

const REJECTS: i32 = 3;

/// Lists of lists of text.
fn nested(rows: &[&[&[Option<&str>]]]) -> ListArray {
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for row in rows {
        for items in *row {
            lists.values().append_value(items.iter().copied());
        }
        lists.append(true);
    }
    lists.finish()
}

fn object() -> StructArray {
    let fields = vec![
        (
            Arc::new(Field::new("x", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("s", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["a\"b", "ü"])),
        ),
    ];
    StructArray::from(fields)
}

#[test]
fn lists_of_lists_are_arrays_of_several_dimensions() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, m text[])");
    let files = Files::new();
    let (a, b, c) = (Some("a, "), Some("b\\\"c"), Some("NULL"));
    let lists =
        nested(&[&[&[a, b], &[c, None]], &[&[a], &[b], &[c]], &[], &[&[a], &[b, c]], &[&[]]]);
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5]))), ("m", Arc::new(lists))];
    let file = parquet(&files, "nested.parquet", &columns);
    let output = files.load(&database, &file, "t", &["--max-rejects", "2"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(
        database.psql("SELECT string_agg(id || ' ' || array_dims(m) || ' ' || to_jsonb(m)::text, ' ; ' ORDER BY id) FROM t WHERE m <> '{}'"),
        "1 [1:2][1:2] [[\"a, \", \"b\\\\\\\"c\"], [\"NULL\", null]] ; \
         2 [1:3][1:1] [[\"a, \"], [\"b\\\\\\\"c\"], [\"NULL\"]]"
    );
    assert_eq!(database.psql("SELECT id FROM t WHERE m = '{}'"), "3");
    let reasons = files.reasons();
    assert_eq!(reasons.len(), 2);
    for (reason, row) in reasons.iter().zip([4, 5]) {
        assert_eq!((reason["row"].as_u64(), reason["column"].as_str()), (Some(row), Some("m")));
        assert!(reason["reason"].as_str().is_some_and(|words| words.contains("jsonb")), "{reason}");
    }
    // As JSON all of them are what they are, and a table that is made for them has it so.
    let output = files.load(&database, &file, "made", &["--create"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        database.psql("SELECT string_agg(m::text, ' ' ORDER BY id) FROM made WHERE id > 2"),
        "[] [[\"a, \"], [\"b\\\\\\\"c\", \"NULL\"]] [[]]"
    );
    assert_no_leftovers(&database);
}

#[test]
fn structs_and_maps_are_json_or_refused_by_name() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (key, value) in [("k", 1), ("é", 2)] {
        maps.keys().append_value(key);
        maps.values().append_value(value);
        maps.append(true).expect("even");
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int32Array::from(vec![1, 2]))),
        ("p", Arc::new(object())),
        ("m", Arc::new(maps.finish())),
    ];
    let file = parquet(&files, "objects.parquet", &columns);
    database
        .psql("CREATE TABLE t (id int, p jsonb, m json); CREATE TABLE u (id int, p text, m json)");
    for (table, more) in [
        ("t", &["--verify", "full"][..]),
        ("made", &["--create"]),
        ("t", &["--as-text", "--if-loaded", "again"]),
    ] {
        let output = files.load(&database, &file, table, more);
        assert_eq!(output.code, 0, "{table}: {}", output.stderr);
    }
    for table in ["t", "made"] {
        assert_eq!(
            database.psql(&format!(
                "SELECT string_agg(DISTINCT p::text || m::jsonb::text, ' ') FROM {table}"
            )),
            "{\"s\": \"a\\\"b\", \"x\": 1}{\"k\": 1} {\"s\": \"ü\", \"x\": null}{\"é\": 2}"
        );
    }
    let output = files.load(&database, &file, "u", &[]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for word in ["\"p\"", "struct<x: int64, s: string>", "jsonb", "--columns"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let output = files.load(&database, &file, "u", &["--columns", "id,-,m"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_no_leftovers(&database);
}

#[test]
fn spans_are_intervals_exactly() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (d interval); CREATE TABLE u (d bigint)");
    let files = Files::new();
    let spans = DurationMicrosecondArray::from(vec![Some(90_000_000_001), Some(-1_500_000), None]);
    let file = parquet(&files, "spans.parquet", &[("d", Arc::new(spans))]);
    for (table, more) in [("t", &[][..]), ("made", &["--create"])] {
        let output = files.load(&database, &file, table, more);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let found = database.psql(&format!(
            "SELECT string_agg(coalesce(extract(epoch FROM d)::text, '-'), ' ' ORDER BY d) FROM {table}"
        ));
        assert_eq!(found, "-1.500000 90000.000001 -");
    }
    let output = files.load(&database, &file, "u", &[]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(
        output.stderr.contains("\"d\"") && output.stderr.contains("interval"),
        "{}",
        output.stderr
    );
    // What no interval can be is a reject.
    let spans = DurationNanosecondArray::from(vec![1000, 1001]);
    let file = parquet(&files, "finer.parquet", &[("d", Arc::new(spans))]);
    let output = files.load(&database, &file, "t", &["--max-rejects", "1"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(files.reasons()[0]["row"].as_u64(), Some(2));
    assert_no_leftovers(&database);
}

#[test]
fn a_column_without_values_is_null_and_rounded_nanoseconds_are_counted() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (nothing int, at timestamp)");
    let files = Files::new();
    let moments = TimestampNanosecondArray::from(vec![1_000, 1_001, 2_500]);
    let columns: [(&str, ArrayRef); 2] =
        [("nothing", Arc::new(NullArray::new(3))), ("at", Arc::new(moments))];
    let file = parquet(&files, "odd.parquet", &columns);
    for (table, more) in [("t", &[][..]), ("made", &["--create"])] {
        let output = files.load(&database, &file, table, more);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stderr.contains("2 values in at"), "{}", output.stderr);
        assert!(output.stderr.contains("microseconds"), "{}", output.stderr);
        let found = format!("SELECT count(*), count(nothing), max(at) FROM {table}");
        assert_eq!(database.psql(&found), "3|0|1970-01-01 00:00:00.000002");
    }
    let planned = files.load(&database, &file, "t", &["--dry-run", "--if-loaded", "again"]);
    assert!(planned.stdout.contains("at is stored in nanoseconds"), "{}", planned.stdout);
    // Text keeps all digits, and there is nothing to tell.
    database.psql("CREATE TABLE u (nothing int, at text)");
    let output = files.load(&database, &file, "u", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("nanoseconds"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT max(at) FROM u"), "1970-01-01T00:00:00.000002500");
}

#[test]
fn values_of_another_kind_are_what_copy_makes_of_them() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (d date, n numeric(20, 0), l date[])");
    let files = Files::new();
    let days = Int32Array::from(vec![20_240_131]);
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(20_240_131), None]);
    let columns: [(&str, ArrayRef); 3] = [
        ("d", Arc::new(days)),
        ("n", Arc::new(Int64Array::from(vec![7]))),
        ("l", Arc::new(lists.finish())),
    ];
    let file = parquet(&files, "kinds.parquet", &columns);
    let output = files.load(&database, &file, "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("TABLE t"), "2024-01-31|7|{2024-01-31,NULL}");
    // What COPY refuses is rejected.
    let seconds: ArrayRef = Arc::new(Int64Array::from(vec![1_700_000_000]));
    let moments: ArrayRef =
        Arc::new(TimestampNanosecondArray::from(vec![1_700_000_000_000_000_000]));
    for (name, stored, wanted) in [
        ("moment", &seconds, "timestamptz"),
        ("number", &moments, "bigint"),
        ("bytes", &seconds, "time"),
    ] {
        database.psql(&format!("CREATE TABLE {name} (v {wanted})"));
        let file = parquet(&files, &format!("{name}.parquet"), &[("v", stored.clone())]);
        let output = files.load(&database, &file, name, &["--max-rejects", "1"]);
        assert_eq!(output.code, REJECTS, "{name}: {}", output.stderr);
    }
}
