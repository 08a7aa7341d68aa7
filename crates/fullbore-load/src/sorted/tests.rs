use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Int32Array, StringArray};
use arrow_schema::{DataType, Field, Schema};
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_come_in_their_order_from_any_number_of_runs(
        runs in prop::collection::vec(
            prop::collection::vec((prop::option::of(-50..50_i32), "[a-c]{0,3}"), 0..300), 0..9),
        descends in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = || Keys::new(&[key("k", descends), key("v", false)], &schema()).expect("keys");
        let written = runs.iter().map(|run| {
            let batches = run.chunks(70).map(batch).collect();
            Run::write(folder.path(), &schema(), keys().sorted(batches).expect("sorted")).expect("written")
        });
        let merged = Merged::of(keys(), &schema(), written.collect()).expect("merged");
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
    let keys = || Keys::new(&[key("k", false)], &schema()).expect("keys");
    let alike: Vec<_> = (0..1000).map(|row| (Some(row % 3), row.to_string())).collect();
    let blocks = keys().sorted(alike.chunks(100).map(batch).collect()).expect("sorted");
    let run = Run::write(folder.path(), &schema(), blocks).expect("written");
    assert_eq!(run.rows, 1000);
    let found = rows(Merged::of(keys(), &schema(), vec![run]).expect("merged"));
    let number = |row: &(Option<i32>, String)| row.1.parse::<i32>().expect("a number");
    assert!(found.is_sorted_by_key(|row| (row.0, number(row))));
}
