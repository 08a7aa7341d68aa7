//! What the feed of rows gives against what was written, however it was written, and in how little memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, DictionaryArray, Float64Array,
    Int32Array, ListArray, NullArray, RecordBatch, StringArray,
};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use fullbore_parse::Lane;
use fullbore_parse::types::{FieldType, ParseColumn};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use super::*;
use crate::columnar::Reading;
use crate::constants::{MAX_FIELD_BYTES_DEFAULT, PARQUET_BATCH_BYTES, PARQUET_UNIT_BYTES};
use crate::discover::discover;
use crate::feed::{Fed, Rows};

/// A file of these columns, and the folder that it lies in.
fn written(
    columns: &[(&str, ArrayRef)],
    properties: WriterProperties,
) -> (tempfile::TempDir, SourceFile) {
    let columns = columns.iter().map(|(name, array)| (*name, array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.parquet");
    let file = File::create(&path).expect("created");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("opened");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
    (folder, source)
}

fn shape(types: &[(&str, FieldType)]) -> Arc<ParseShape> {
    let columns = types.iter().enumerate().map(|(field, (name, field_type))| ParseColumn {
        name: (*name).into(),
        field,
        field_type: field_type.clone(),
        guess: None,
    });
    Arc::new(ParseShape {
        fields: types.len(),
        columns: columns.collect(),
        field_names: types.iter().map(|(name, _)| (*name).into()).collect(),
        orders: BTreeMap::new(),
        json: None,
    })
}

fn opened(
    source: &SourceFile,
    types: &[(&str, FieldType)],
    rows: std::ops::Range<u64>,
) -> ParquetFeed {
    let reading = Reading::alone(shape(types), MAX_FIELD_BYTES_DEFAULT);
    ParquetFeed::open(Arc::new(source.clone()), 0, rows, &reading).expect("opened")
}

fn all_of(mut feed: ParquetFeed, lane: Lane) -> Vec<Rows> {
    let mut all = Vec::new();
    loop {
        match feed.next(lane).expect("read") {
            Fed::Rows(rows) => all.push(rows),
            Fed::End => return all,
            Fed::Block | Fed::Later => unreachable!("rows of one file, read alone"),
        }
    }
}

/// A column of all rows, one after the other.
fn column(all: &[Rows], at: usize) -> ArrayRef {
    let parts: Vec<&dyn Array> = all.iter().map(|rows| rows.batch.column(at).as_ref()).collect();
    concat(&parts).expect("of one type")
}

fn texts(count: usize) -> Vec<Option<String>> {
    // Beginnings that are shared, empty ones, NULLs, and some that are long.
    let text = |n: usize| match n % 7 {
        0 => None,
        1 => Some(String::new()),
        2 => Some(format!("shared beginning {}", n / 50)),
        3 if n.is_multiple_of(500) => Some("long ".repeat(20_000) + &n.to_string()),
        _ => Some(format!("{n} é")),
    };
    (0..count).map(text).collect()
}

#[test]
fn rows_are_those_that_were_written_however_that_was_done() {
    const ROWS: usize = 20_000;
    let strings = StringArray::from(texts(ROWS));
    let numbers: Int32Array = (0..ROWS as i32).map(|n| (n % 11 > 0).then_some(n / 100)).collect();
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..ROWS as i32 {
        match row % 5 {
            0 => lists.append_null(),
            rest => lists.append_value((0..(rest - 1) * 3).map(|n| (n != 2).then_some(n + row))),
        }
    }
    let lists = lists.finish();
    let bytes: BinaryArray =
        texts(ROWS).into_iter().map(|text| text.map(String::into_bytes)).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("s", Arc::new(strings.clone())),
        ("n", Arc::new(numbers.clone())),
        ("l", Arc::new(lists.clone())),
        ("b", Arc::new(bytes.clone())),
    ];
    let types = [
        ("s", FieldType::text()),
        ("n", FieldType::Int64),
        ("l", FieldType::Array(Box::new(FieldType::Int32))),
        ("b", FieldType::Bytea),
    ];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (encoding, codec) in [
            (None, Compression::UNCOMPRESSED),
            (None, Compression::SNAPPY),
            (Some(Encoding::PLAIN), Compression::ZSTD(Default::default())),
            (Some(Encoding::DELTA_BYTE_ARRAY), Compression::LZ4_RAW),
            (Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), Compression::GZIP(Default::default())),
        ] {
            let mut properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_compression(codec)
                .set_max_row_group_row_count(Some(7000))
                .set_data_page_size_limit(40_000);
            if let Some(encoding) = encoding {
                for name in ["s", "b"] {
                    properties = properties
                        .set_column_dictionary_enabled(name.into(), false)
                        .set_column_encoding(name.into(), encoding);
                }
            }
            let (_folder, source) = written(&columns, properties.build());
            for rows in [0..ROWS as u64, 6_999..14_001, 5..6] {
                let all = all_of(opened(&source, &types, rows.clone()), Lane::Binary);
                let (start, length) = (rows.start as usize, (rows.end - rows.start) as usize);
                let what = format!("{version:?} {encoding:?} {codec:?} {rows:?}");
                assert!(all.iter().all(|rows| rows.faults.is_empty()), "{what}");
                let numbered: Vec<u64> = all.iter().flat_map(|rows| rows.numbers.clone()).collect();
                assert_eq!(numbered, rows.collect::<Vec<u64>>(), "{what}");
                assert_eq!(*column(&all, 0), strings.slice(start, length), "{what}");
                let wanted = arrow_cast::cast(&numbers.slice(start, length), &DataType::Int64);
                assert_eq!(*column(&all, 1), *wanted.expect("cast"), "{what}");
                assert_eq!(
                    column(&all, 3).as_binary::<i32>(),
                    &bytes.slice(start, length),
                    "{what}"
                );
                let found = column(&all, 2);
                let found = found.as_list::<i32>();
                for row in 0..length {
                    assert_eq!(found.is_null(row), lists.is_null(start + row), "{what}");
                    assert_eq!(*found.value(row), *lists.value(start + row), "{what} {row}");
                }
            }
        }
    }
}

/// Columns of a few bytes in the file and of very many in memory.
fn large(rows: usize) -> Vec<(&'static str, ArrayRef, Encoding)> {
    let long = "x".repeat(100_000);
    let shared: StringArray = (0..rows).map(|n| Some(format!("{long}{}", n % 10))).collect();
    let repeated: DictionaryArray<Int32Type> =
        (0..rows).map(|n| if n % 3 == 0 { "" } else { &long }).collect();
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        let items = if row % 100 == 0 { 100_000 } else { 1 };
        lists.append_value(std::iter::repeat_n(Some(7), items));
    }
    vec![
        ("shared", Arc::new(shared), Encoding::DELTA_BYTE_ARRAY),
        ("repeated", Arc::new(repeated), Encoding::PLAIN),
        ("lists", Arc::new(lists.finish()), Encoding::PLAIN),
    ]
}

#[test]
fn what_repeats_in_a_file_is_handed_out_a_little_at_a_time() {
    const ROWS: usize = 2000;
    for (name, array, encoding) in large(ROWS) {
        let is_shared = encoding == Encoding::DELTA_BYTE_ARRAY;
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::None)
            .set_compression(Compression::ZSTD(Default::default()))
            .set_dictionary_enabled(!is_shared);
        let properties = match is_shared {
            true => properties.set_encoding(encoding),
            false => properties.set_dictionary_page_size_limit(1 << 20),
        };
        let (_folder, source) = written(&[(name, array.clone())], properties.build());
        assert!(source.size < 100_000, "{name}: {} bytes", source.size);
        let wanted = match name {
            "lists" => FieldType::Array(Box::new(FieldType::Int32)),
            _ => FieldType::text(),
        };
        let all = all_of(opened(&source, &[(name, wanted)], 0..ROWS as u64), Lane::Binary);
        let mut row = 0;
        for rows in &all {
            let bytes = rows.batch.column(0).get_array_memory_size() as u64;
            assert!(bytes < 3 * PARQUET_UNIT_BYTES, "{name}: {bytes} bytes at once");
            for at in 0..rows.batch.num_rows() {
                let found = rows.batch.column(0);
                let is_right = match name {
                    "shared" => found.as_string::<i32>().value(at).len() == 100_001,
                    "repeated" => {
                        found.as_string::<i32>().value(at).len()
                            == if row % 3 == 0 { 0 } else { 100_000 }
                    }
                    _ => {
                        let items = found.as_list::<i32>().value(at).len();
                        items == if row % 100 == 0 { 100_000 } else { 1 }
                    }
                };
                assert!(is_right, "{name}, row {row}");
                row += 1;
            }
        }
        assert_eq!(row, ROWS, "{name}");
    }
}

#[test]
fn a_batch_is_decoded_within_its_bounds() {
    // As the library would decode them at once: 8192 rows of 100 kB.
    let rows = 8192;
    let (name, array, encoding) = large(rows).remove(0);
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(encoding)
        .set_statistics_enabled(EnabledStatistics::None);
    let (_folder, source) = written(&[(name, array)], properties.build());
    let mut feed = opened(&source, &[(name, FieldType::text())], 0..rows as u64);
    let Fed::Rows(_) = feed.next(Lane::Binary).expect("read") else { panic!("there are rows") };
    let decoded = feed.rows_at_a_time();
    assert!(decoded as u64 * 100_000 <= PARQUET_BATCH_BYTES, "{decoded} rows at a time");
}

#[test]
fn rows_longer_than_allowed_are_faults_and_the_others_come() {
    let long = "y".repeat(5000);
    let strings = StringArray::from(vec![Some("a"), Some(&long), None, Some("b"), Some(&long)]);
    let numbers = Int32Array::from(vec![1, 2, 3, 4, 5]);
    let columns: [(&str, ArrayRef); 2] = [("s", Arc::new(strings)), ("n", Arc::new(numbers))];
    let (_folder, source) = written(&columns, WriterProperties::builder().build());
    let types = [("s", FieldType::text()), ("n", FieldType::Int32)];
    let reading = Reading::alone(shape(&types), 4999);
    let feed = ParquetFeed::open(Arc::new(source), 0, 0..5, &reading).expect("opened");
    let all = all_of(feed, Lane::Binary);
    let numbers: Vec<u64> = all.iter().flat_map(|rows| rows.numbers.clone()).collect();
    assert_eq!(numbers, [0, 2, 3]);
    assert_eq!(column(&all, 1).as_primitive::<Int32Type>().values(), &[1, 3, 4]);
    let faults: Vec<_> = all.iter().flat_map(|rows| &rows.faults).collect();
    assert_eq!(faults.iter().map(|fault| fault.row).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(faults[0].column.as_deref(), Some("s"));
    assert!(faults[0].reason.contains("5000 bytes") && faults[0].reason.contains("4999"));
    assert!(faults[0].raw.starts_with(b"yyy") && faults[0].raw.ends_with(b"\t2\n"));
}

#[test]
fn values_that_do_not_fit_are_faults_each_with_its_value() {
    let floats =
        Float64Array::from_iter((0..3000).map(|n| (n % 7 > 0).then_some(f64::from(n) / 4.0)));
    let (_folder, source) =
        written(&[("f", Arc::new(floats.clone()))], WriterProperties::default());
    let all = all_of(opened(&source, &[("f", FieldType::Int32)], 0..3000), Lane::Binary);
    let mut numbers: Vec<u64> = Vec::new();
    let mut faults = 0;
    for rows in &all {
        numbers.extend(&rows.numbers);
        for fault in &rows.faults {
            let value = floats.value(fault.row as usize);
            assert!(value.fract() != 0.0, "row {}", fault.row);
            assert_eq!(fault.value.as_deref(), Some(&*value.to_string()));
            assert!(fault.reason.contains("is not exact as integer"), "{}", fault.reason);
            faults += 1;
        }
    }
    assert_eq!(faults + numbers.len(), 3000);
    let found = column(&all, 0);
    for (number, found) in numbers.iter().zip(found.as_primitive::<Int32Type>().iter()) {
        let at = *number as usize;
        let stored = floats.is_valid(at).then(|| floats.value(at));
        assert_eq!(found.map(f64::from), stored, "row {number}");
    }
}

#[test]
fn columns_without_values_are_null_in_every_type() {
    let columns: [(&str, ArrayRef); 2] = [
        ("nothing", Arc::new(NullArray::new(3))),
        ("d", Arc::new(Date32Array::from(vec![1, 2, 3]))),
    ];
    let (_folder, source) = written(&columns, WriterProperties::default());
    for wanted in [FieldType::Int32, FieldType::Jsonb, FieldType::Array(Box::new(FieldType::Date))]
    {
        for lane in [Lane::Binary, Lane::Text] {
            let types = [("nothing", wanted.clone()), ("d", FieldType::Date)];
            let all = all_of(opened(&source, &types, 0..3), lane);
            assert_eq!(column(&all, 0).null_count(), 3, "{wanted:?} {lane:?}");
        }
    }
}

#[test]
fn lists_of_lists_are_arrays_of_several_dimensions_or_faults() {
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut add = |row: &[&[Option<&str>]]| {
        for items in row {
            lists.values().append_value(items.iter().copied());
        }
        lists.append(true);
    };
    add(&[&[Some("a, "), None], &[Some("\"b\""), Some("c\\")]]);
    add(&[&[Some("a")], &[Some("b"), Some("c")]]);
    add(&[]);
    add(&[&[]]);
    let lists: ListArray = lists.finish();
    let booleans = BooleanArray::from(vec![true, false, true, false]);
    let columns: [(&str, ArrayRef); 2] = [("m", Arc::new(lists)), ("b", Arc::new(booleans))];
    let (_folder, source) = written(&columns, WriterProperties::default());
    let array = FieldType::Array(Box::new(FieldType::text()));
    let all = all_of(opened(&source, &[("m", array), ("b", FieldType::Boolean)], 0..4), Lane::Text);
    let found = column(&all, 0);
    let found: Vec<_> = found.as_string::<i32>().iter().collect();
    assert_eq!(found, [Some("{{\"a, \",NULL},{\"\\\"b\\\"\",\"c\\\\\"}}"), Some("{}")]);
    let faults: Vec<_> = all.iter().flat_map(|rows| &rows.faults).collect();
    assert_eq!(faults.iter().map(|fault| fault.row).collect::<Vec<_>>(), [1, 3]);
    assert!(faults.iter().all(|fault| fault.reason.contains("jsonb")), "{faults:?}");
    let types = [("m", FieldType::Jsonb), ("b", FieldType::Boolean)];
    for lane in [Lane::Binary, Lane::Text] {
        let all = all_of(opened(&source, &types, 0..4), lane);
        let found = column(&all, 0);
        let found: Vec<_> = found.as_string::<i32>().iter().flatten().collect();
        assert_eq!(
            found,
            ["[[\"a, \",null],[\"\\\"b\\\"\",\"c\\\\\"]]", "[[\"a\"],[\"b\",\"c\"]]", "[]", "[[]]"]
        );
    }
}
