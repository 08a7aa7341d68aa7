//! Parquet values that a cast would change without a word: the server reads them, or they are refused.

use std::sync::Arc;

use crate::common::Files;
use crate::common::parquets::parquet;
use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array,
    StringArray, TimestampMicrosecondArray,
};
use fullbore_testing::{TestServer, shared_or_skip};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const REJECTS: i32 = 3;

#[test]
fn numeric_has_the_digits_that_the_server_reads() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE t (n numeric, r numeric(10,2), f numeric(20,10), d float8, a numeric[])",
    );
    let files = Files::new();
    let mut lists = ListBuilder::new(arrow_array::builder::Float64Builder::new());
    lists.append_value([Some(0.5), None, Some(1e21)]);
    lists.append_value([]);
    lists.append_null();
    let decimals = Decimal128Array::from(vec![Some(1_234_567), None, Some(-5)]);
    let columns: [(&str, ArrayRef); 5] = [
        ("n", Arc::new(Float64Array::from(vec![1e20, 1.5e-7, f64::NAN]))),
        ("r", Arc::new(Float64Array::from(vec![1.005, -2.5, 0.1]))),
        ("f", Arc::new(Float32Array::from(vec![0.1, 16_777_216.0, -3.25]))),
        ("d", Arc::new(decimals.with_precision_and_scale(10, 3).expect("fits"))),
        ("a", Arc::new(lists.finish())),
    ];
    let file = parquet(&files, "numbers.parquet", &columns);
    let output = files.load(&database, &file, "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        database.psql("SELECT string_agg(t::text, ' ' ORDER BY n) FROM t"),
        "(0.00000015,-2.50,16777216.0000000000,,{}) \
         (100000000000000000000,1.01,0.1000000000,1234.567,\"{0.5,NULL,1000000000000000000000}\") \
         (NaN,0.10,-3.2500000000,-0.005,)"
    );
    // What is no number at all is a reject, and not some number.
    for (name, array) in [
        ("words", Arc::new(StringArray::from(vec!["7", "n/a"])) as ArrayRef),
        ("truths", Arc::new(BooleanArray::from(vec![true, false]))),
        ("days", Arc::new(Date32Array::from(vec![1, 2]))),
    ] {
        database.psql("DROP TABLE IF EXISTS u; CREATE TABLE u (n numeric)");
        let file = parquet(&files, &format!("{name}.parquet"), &[("n", array)]);
        let output = files.load(&database, &file, "u", &["--max-rejects", "9"]);
        assert_eq!(output.code, REJECTS, "{name}: {}", output.stderr);
        let kept = if name == "words" { "7" } else { "" };
        assert_eq!(database.psql("SELECT string_agg(n::text, ' ') FROM u"), kept, "{name}");
    }
}

#[test]
fn what_leaves_its_range_is_told_by_its_row() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let files = Files::new();
    let cases: [(&str, ArrayRef, &str); 4] = [
        ("real", Arc::new(Float64Array::from(vec![1.0, 1e300])), "1e300"),
        ("real", Arc::new(Float64Array::from(vec![1.0, 1e-60])), "1e-60"),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MIN + 1])), "row 2"),
        ("date", Arc::new(Date32Array::from(vec![0, i32::MIN])), "row 2"),
    ];
    for (kind, array, said) in cases {
        let database = cluster.fresh_database();
        database.psql(&format!("CREATE TABLE t (v {kind})"));
        let file = parquet(&files, "range.parquet", &[("v", array)]);
        let output = files.load(&database, &file, "t", &["--atomic"]);
        assert_ne!(output.code, 0, "{kind}");
        for word in ["row 2", said, "--max-rejects"] {
            assert!(output.stderr.contains(word), "{kind}: {word}: {}", output.stderr);
        }
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    }
}

#[test]
fn moments_of_96_bits_reach_beyond_2262() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (at timestamp)");
    let files = Files::new();
    let path = files.path("spark.parquet");
    let schema =
        Arc::new(parse_message_type("message m { required int96 at; }").expect("a schema"));
    let file = std::fs::File::create(&path).expect("created");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("opened");
    // Nanoseconds of the day, and the Julian day: 2024-07-01 and 9999-12-31.
    let moments = [(3_723_000_001_000_u64, 2_460_493_u32), (0, 5_373_484)].map(|(nanos, day)| {
        let mut moment = Int96::new();
        moment.set_data(nanos as u32, (nanos >> 32) as u32, day);
        moment
    });
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("written").expect("a column");
    column.typed::<Int96Type>().write_batch(&moments, None, None).expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");
    let output = files.load(&database, path.to_str().expect("UTF-8"), "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        database.psql("SELECT string_agg(at::text, ' ' ORDER BY at) FROM t"),
        "2024-07-01 01:02:03.000001 9999-12-31 00:00:00"
    );
}

#[test]
fn columns_of_one_name_are_told_apart_by_their_place() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int, b int)");
    let files = Files::new();
    let numbers = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let columns = [("x", numbers([1, 2])), ("y", numbers([0, 0])), ("x", numbers([10, 20]))];
    let file = parquet(&files, "twice.parquet", &columns);
    let output = files.load(&database, &file, "t", &["--columns", "a,-,b"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT sum(a), sum(b) FROM t"), "3|30");
}

#[test]
fn a_missing_value_beside_bytes_is_one_reject() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id uuid, b bytea, n int NOT NULL)");
    let files = Files::new();
    let mut ids = FixedSizeBinaryBuilder::new(16);
    ids.append_value([0x1f; 16]).expect("16 bytes");
    ids.append_value([0x2f; 16]).expect("16 bytes");
    let mut numbers = Int32Builder::new();
    numbers.append_value(1);
    numbers.append_null();
    let bytes = arrow_array::BinaryArray::from(vec![&b"\xff"[..], b"\xfe"]);
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(ids.finish())), ("b", Arc::new(bytes)), ("n", Arc::new(numbers.finish()))];
    let file = parquet(&files, "ids.parquet", &columns);
    let output = files.load(&database, &file, "t", &["--max-rejects", "1"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "1");
    let rejected = files.read_ending(".rejected");
    assert!(rejected.contains(&"2f".repeat(16)) && rejected.contains("\\xfe"), "{rejected}");
}

#[test]
fn a_destination_that_cannot_judge_keeps_what_is_canonical() {
    let files = Files::new();
    let rows: String = (0..20_000)
        .map(|row| if row % 16 == 0 { format!("+{row}\n") } else { format!("{row}\n") })
        .collect();
    let file = files.write("odd.csv", rows);
    let to = format!("parquet:{}", files.path("out").display());
    let args =
        ["load", &file, "--to", &to, "--header", "none", "--create", "--type", "column1=int"];
    let output =
        files.fullbore(&[&args[..], &["--columns", "column1", "--max-rejects", "10%"]].concat());
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(files.reasons().len(), 1250);
    let refused = files.fullbore(&[&args[..], &["--columns", "column1", "--as-text"]].concat());
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("omit --as-text"), "{}", refused.stderr);
}
