//! Parquet files of a few kilobytes that stand for gigabytes: memory stays within a load's limit.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use fullbore_testing::{TestServer, fullbore_command, shared_or_skip};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};

use crate::common::parquets::parquet;
use crate::common::{Files, assert_no_leftovers};

const MEMORY_BYTES_MAX: u64 = 300 << 20;

/// The exit code, and the most memory that was resident at a time: read while the command runs, since what
/// the kernel says of one that has ended counts in the process that it was begun from.
fn peak_memory(mut command: Command) -> (i32, u64) {
    let mut child = command.stdout(Stdio::null()).spawn().expect("fullbore starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let ended = child.try_wait().expect("it can be waited for");
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(kilobytes.unwrap_or(0u64) * 1024);
        if let Some(ended) = ended {
            return (ended.code().unwrap_or(-1), peak);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes batches of one column, `v`, eight times: so that eight streams have a file each.
fn eight(files: &Files, batches: &[ArrayRef], properties: WriterPropertiesBuilder) -> u64 {
    let properties = properties
        .set_statistics_enabled(EnabledStatistics::None)
        .set_compression(Compression::ZSTD(Default::default()))
        .build();
    std::fs::create_dir(files.path("eight")).expect("made");
    let path = files.path("eight/0.parquet");
    let batch =
        |array: &ArrayRef| RecordBatch::try_from_iter([("v", array.clone())]).expect("a batch");
    let file = File::create(&path).expect("created");
    let schema = batch(&batches[0]).schema();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).expect("opened");
    batches.iter().for_each(|array| writer.write(&batch(array)).expect("written"));
    writer.close().expect("closed");
    for copy in 1..8 {
        std::fs::copy(&path, files.path(&format!("eight/{copy}.parquet"))).expect("copied");
    }
    path.metadata().expect("there").len()
}

/// Loads the eight files into nothing, all encoded.
fn loaded_in_little_memory(files: &Files, rows: u64, what: &str) {
    let mut command = fullbore_command();
    command.args(["load", "eight", "--to", "null:", "--table", "t", "--streams", "8", "--quiet"]);
    command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
    let (code, bytes) = peak_memory(command);
    assert_eq!(code, 0, "{what}");
    println!("{what}: {} MB", bytes >> 20);
    assert!(
        (1 << 20..=MEMORY_BYTES_MAX).contains(&bytes),
        "{what}: {} MB were resident",
        bytes >> 20
    );
    let shown = files.fullbore(&["runs", "show", "last"]);
    let loaded = format!("loaded {} rows", fullbore_report::words::grouped(rows));
    assert!(shown.stdout.contains(&loaded), "{what}: {}", shown.stdout);
}

/// Rows by a dictionary of these values.
fn repeated(values: &[String], rows: usize) -> ArrayRef {
    let array: DictionaryArray<Int32Type> =
        (0..rows).map(|row| &*values[row % values.len()]).collect();
    Arc::new(array)
}

#[test]
fn a_long_value_that_repeats_is_never_there_a_thousand_times() {
    let files = Files::new();
    let values: Vec<String> = (0..3).map(|n| format!("{n}{}", "d".repeat(50_000))).collect();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(8 << 20);
    let size = eight(&files, &[repeated(&values, 20_000)], properties);
    assert!(size < 20_000, "{size} bytes");
    // A gigabyte in each.
    loaded_in_little_memory(&files, 160_000, "by a dictionary");
}

#[test]
fn a_long_run_of_one_value_takes_no_more_than_others() {
    let files = Files::new();
    let values = ["r".repeat(5000)];
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(8 << 20);
    let size = eight(&files, &[repeated(&values, 200_000)], properties);
    assert!(size < 8_000, "{size} bytes");
    loaded_in_little_memory(&files, 1_600_000, "in runs");
}

#[test]
fn values_that_begin_alike_are_measured_before_they_are_decoded() {
    let files = Files::new();
    let begin = "b".repeat(100_000);
    let batch = |part: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (0..500).map(|row| format!("{begin}{}", part + row)),
        ))
    };
    let batches: Vec<ArrayRef> = (0..10).map(batch).collect();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY);
    let size = eight(&files, &batches, properties);
    assert!(size < 40_000, "{size} bytes");
    loaded_in_little_memory(&files, 40_000, "with shared beginnings");
}

#[test]
fn pages_that_unpack_to_more_than_may_be_are_refused() {
    let files = Files::new();
    // One page of 400 MB, which packs well.
    let values = [" ".repeat(4_000_000)];
    let batch: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|_| &values[0])));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_write_batch_size(1000);
    let size = eight(&files, &[batch], properties);
    assert!(size < 100_000, "{size} bytes");
    let load = |more: &[&str]| {
        let args = ["load", "eight/0.parquet", "--to", "null:", "--table", "t"];
        files.fullbore(&[&args[..], more].concat())
    };
    let output = load(&[]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    for word in ["0.parquet", "\"v\"", "page", "--max-field-bytes"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let mut command = fullbore_command();
    command.args(["load", "eight", "--to", "null:", "--table", "t", "--streams", "8", "--quiet"]);
    command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
    let (_, bytes) = peak_memory(command);
    assert!(bytes <= MEMORY_BYTES_MAX + (256 << 20), "{} MB were resident", bytes >> 20);
    // Who says that it is so gets it.
    let output = load(&["--max-field-bytes", "110000000"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn long_texts_and_many_of_them_arrive_as_they_are() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (v text)");
    let files = Files::new();
    // The library can't decode 8192 of them at once: their ends pass 2 GiB.
    let value = "t".repeat(270_000);
    let path = files.path("long.parquet");
    let batch = RecordBatch::try_from_iter([("v", repeated(&[value], 8000))]).expect("a batch");
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(8 << 20).build();
    let file = File::create(&path).expect("created");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("opened");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    let args = ["load", path.to_str().expect("UTF-8"), "--to", "null:", "--table", "t"];
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Into a server it is a few.
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..40).map(|row| format!("{row} {}", "é".repeat(200_000 + row))),
    ));
    let file = parquet(&files, "texts.parquet", &[("v", texts)]);
    let output = files.load(&database, &file, "t", &["--verify", "full"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = "SELECT count(*), sum(length(v)), count(DISTINCT md5(v)) FROM t \
                 WHERE v = split_part(v, ' ', 1) || ' ' || repeat('é', 200000 + split_part(v, ' ', 1)::int)";
    assert_eq!(database.psql(found), "40|8000890|40");
    assert_no_leftovers(&database);
}

#[test]
fn values_longer_than_allowed_are_rejects_with_row_and_column() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (v text)");
    let written = Files::new();
    let long = "x".repeat(2000);
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), Some(&long), None, Some("b")]));
    let file = parquet(&written, "long.parquet", &[("v", texts)]);
    let bound = ["--max-field-bytes", "1000"];
    let output = written.load(&database, &file, "t", &[&bound[..], &["--atomic"]].concat());
    assert_eq!(output.code, 1, "{}", output.stderr);
    for word in ["long.parquet", "row 2", "column v", "2000 bytes", "--max-field-bytes"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let files = Files::new();
    let output = files.load(&database, &file, "t", &[&bound[..], &["--max-rejects", "1"]].concat());
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), max(v) FROM t"), "3|b");
    let reason = &files.reasons()[0];
    assert_eq!((reason["row"].as_u64(), reason["column"].as_str()), (Some(2), Some("v")));
}
