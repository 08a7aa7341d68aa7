use std::path::Path;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal64Array, Decimal128Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;

use super::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, true),
        Field::new("v", DataType::Utf8, true),
    ]))
}

fn batch(rows: &[(Option<i32>, String)]) -> RecordBatch {
    let keys = Int32Array::from_iter(rows.iter().map(|row| row.0));
    let values = StringArray::from_iter_values(rows.iter().map(|row| &row.1));
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]).expect("a batch")
}

fn rows(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Vec<(Option<i32>, String)> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.expect("a batch");
        let keys = batch.column(0).as_primitive::<Int32Type>().iter();
        let values = batch.column(1).as_string::<i32>().iter();
        rows.extend(
            keys.zip(values).map(|(key, value)| (key, value.unwrap_or_default().to_owned())),
        );
    }
    rows
}

fn key(column: &str, descends: bool) -> SortKey {
    SortKey { column: column.into(), descends }
}

fn form(keys: &[SortKey], schema: &SchemaRef) -> Form {
    Form::new(keys, schema).expect("a form")
}

fn run(folder: &Path, form: &Form, batches: impl Iterator<Item = RecordBatch>) -> Run {
    let mut unsorted = Unsorted::default();
    for batch in batches {
        let mut records = Vec::new();
        form.write(&batch, &mut records).expect("records");
        assert_eq!(unsorted.add(&records, 1000).expect("added"), batch.num_rows());
    }
    unsorted.write(RunWriter::new(folder).expect("a file")).expect("a run")
}

fn merged(form: Form, schema: &SchemaRef, runs: Vec<Run>) -> Merged {
    Merged::new(schema.clone(), form, runs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_come_in_their_order_from_any_number_of_runs(
        runs in prop::collection::vec(
            prop::collection::vec((prop::option::of(-50..50_i32), "[a-c]{0,3}"), 0..300), 0..9),
        descends in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = [key("k", descends), key("v", false)];
        let written = runs.iter().map(|rows| {
            run(folder.path(), &form(&keys, &schema()), rows.chunks(70).map(batch))
        });
        let merged = merged(form(&keys, &schema()), &schema(), written.collect());
        let found = rows(merged);
        let mut wanted: Vec<(Option<i32>, String)> = runs.concat();
        wanted.sort_by(|one, other| {
            // NULL is above all numbers.
            let rank = |row: &(Option<i32>, String)| (row.0.is_none(), row.0);
            let order = rank(one).cmp(&rank(other));
            (if descends { order.reverse() } else { order }).then_with(|| one.1.cmp(&other.1))
        });
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }
}

#[test]
fn rows_that_are_alike_stay_in_the_order_of_their_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = [key("k", false)];
    let alike: Vec<_> = (0..1000).map(|row| (Some(row % 3), row.to_string())).collect();
    let runs = alike
        .chunks(500)
        .map(|rows| run(folder.path(), &form(&keys, &schema()), rows.chunks(100).map(batch)));
    let found = rows(merged(form(&keys, &schema()), &schema(), runs.collect()));
    assert_eq!(found.len(), 1000);
    let number = |row: &(Option<i32>, String)| row.1.parse::<i32>().expect("a number");
    assert!(found.is_sorted_by_key(|row| (row.0, number(row))));
}

/// A column of each type that rows are parsed as, in one of which each row has NULL.
fn every_type() -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    lists.append_value([]);
    let uuids = [Some([1_u8; 16]), None, Some([3; 16])];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(vec![Some("last"), Some(""), None]))),
        ("bits", Arc::new(BooleanArray::from(vec![None, Some(true), Some(false)]))),
        ("shorts", Arc::new(Int16Array::from(vec![Some(-1), None, Some(3)]))),
        ("key", Arc::new(Int32Array::from(vec![Some(7), Some(-7), Some(0)]))),
        ("longs", Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(5)]))),
        ("floats", Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::NAN)]))),
        ("doubles", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(-0.0)]))),
        ("prices", Arc::new(Decimal64Array::from(vec![Some(-5), None, Some(99)]))),
        ("sums", Arc::new(Decimal128Array::from(vec![Some(i128::MAX / 2), None, Some(-1)]))),
        ("days", Arc::new(Date32Array::from(vec![None, Some(-1), Some(1)]))),
        (
            "times",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1), None, Some(-1)]).with_timezone("UTC"),
            ),
        ),
        (
            "ids",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids.into_iter(), 16)
                    .expect("ids"),
            ),
        ),
        ("bytes", Arc::new(BinaryArray::from(vec![Some(&b"\0\xff"[..]), None, Some(b"")]))),
        ("lists", Arc::new(lists.finish())),
    ];
    let fields =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect())
        .expect("a batch")
}

#[test]
fn values_of_every_type_are_the_same_afterwards_as_key_and_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let batch = every_type();
    let schema = batch.schema();
    for field in schema.fields() {
        for descends in [false, true] {
            let keys = [key(field.name(), descends)];
            // Batches may begin anywhere in their arrays.
            let parts = [batch.slice(0, 1), batch.slice(1, 2)];
            let run = run(folder.path(), &form(&keys, &schema), parts.into_iter());
            let mut merged = merged(form(&keys, &schema), &schema, vec![run]);
            let found = merged.next().expect("a batch").expect("its rows");
            let order: Vec<usize> = (0..3)
                .map(|row| {
                    let key = found.column_by_name("key").expect("the key");
                    match key.as_primitive::<Int32Type>().value(row) {
                        7 => 0,
                        -7 => 1,
                        _ => 2,
                    }
                })
                .collect();
            for (place, row) in order.iter().enumerate() {
                assert_eq!(found.slice(place, 1), batch.slice(*row, 1), "by {field}");
            }
            assert!(merged.next().is_none());
        }
    }
}

proptest! {
    #[test]
    fn numbers_of_any_size_are_the_same_afterwards(
        rows in prop::collection::vec(
            (any::<i16>(), any::<i64>(), 0..64_u32, "[a-c]{0,9}", prop::option::of(any::<i32>())),
            1..40,
        ),
    ) {
        let longs = rows.iter().map(|(_, long, shift, ..)| long >> shift);
        let columns: [(_, ArrayRef); 7] = [
            ("key", Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| row.0)))),
            ("long", Arc::new(Int64Array::from_iter_values(longs.clone()))),
            ("text", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.3)))),
            ("bit", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.2 > 9))))),
            ("float", Arc::new(Float64Array::from_iter_values(longs.clone().map(|n| n as f64)))),
            ("int", Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.4)))),
            ("last", Arc::new(Int64Array::from_iter_values(longs.map(|long| !long)))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        ).expect("a batch");
        let form = form(&[key("key", false)], &batch.schema());
        let mut records = Vec::new();
        form.write(&batch, &mut records).expect("records");
        prop_assert_eq!(form.read(&records).expect("rows"), batch);
    }
}

/// Records that say otherwise than they are.
#[test]
fn damaged_records_are_not_taken_for_rows() {
    let form = form(&[key("k", false)], &schema());
    let mut records = Vec::new();
    form.write(&batch(&[(Some(1), "one".into())]), &mut records).expect("records");
    assert!(form.read(&records).is_ok());
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut records = records.clone();
        change(&mut records);
        form.read(&records)
    };
    assert!(changed(|records| records.truncate(records.len() - 1)).is_err());
    assert!(changed(|records| records.push(0)).is_err());
    // The length that comes first is true, and the values are not as long.
    assert!(
        changed(|records| {
            records[0] += 1;
            records.push(0);
        })
        .is_err()
    );
    for bytes in 1..=5 {
        let mut short = records.clone();
        short[0] -= bytes;
        short.truncate(records.len() - usize::from(bytes));
        assert!(form.read(&short).is_err(), "{bytes}");
    }
}

#[test]
fn many_runs_become_fewer_while_others_are_sorted() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = vec![key("k", false)];
    let sorted = Sorted::new(folder.path().to_owned(), 100_000, vec![keys.clone()], || {
        unreachable!("no row is text")
    });
    let form = form(&keys, &schema());
    let all: Vec<_> = (0..900).map(|row| (Some(row * 7 % 300), row.to_string())).collect();
    let mut unsorted = Unsorted::default();
    for rows in all.chunks(3) {
        let mut records = Vec::new();
        form.write(&batch(rows), &mut records).expect("records");
        unsorted.add(&records, 1000).expect("added");
        sorted.keep(0, &mut unsorted).expect("kept");
    }
    let Extent { rows: count, runs, .. } = sorted.extent(0);
    assert_eq!(count, 900);
    assert!(runs < 2 * MERGED_AT_ONCE, "{runs}");
    let runs = std::mem::take(&mut sorted.lock().runs[0]);
    let mut found = rows(merged(form, &schema(), runs));
    assert!(found.is_sorted_by_key(|row| row.0));
    let mut wanted = all;
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn values_of_any_length_are_read_also_longer_than_what_is_read_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = [key("k", false)];
    for length in [253, 254, 255, 256, 3 * spill::BUFFER_BYTES] {
        let long = "x".repeat(length);
        let all: Vec<_> = [2, 1, 3].map(|number| (Some(number), long.clone())).into();
        let run = run(folder.path(), &form(&keys, &schema()), std::iter::once(batch(&all)));
        let found = rows(merged(form(&keys, &schema()), &schema(), vec![run]));
        assert_eq!(found, [(Some(1), long.clone()), (Some(2), long.clone()), (Some(3), long)]);
    }
}
