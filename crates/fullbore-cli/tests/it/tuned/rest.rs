//! A slow piece is split among streams without other work, and each of its rows is loaded once.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use fullbore_testing::disk::{Disk, DiskOptions};
use fullbore_testing::{TestServer, shared_or_skip, skip};
use parquet::file::properties::WriterProperties;

use super::events;
use crate::common::{Files, assert_no_leftovers};

/// Rows that make 20 MB, of which every hundredth is quoted and of several lines, where that is asked for.
const ROWS: i64 = 500_000;

fn text(delimiter: char, quoted: bool) -> String {
    let mut text = String::new();
    for n in 0..ROWS {
        let note = match n % 100 {
            0 if quoted => format!("\"line\n{n}\""),
            _ => format!("row number {n}, and more of it").replace(',', ";"),
        };
        let end = if delimiter == '|' { "|" } else { "" };
        let _ = writeln!(text, "{n}{delimiter}{note}{end}");
    }
    text
}

/// A disk from which one stream alone would read 20 MB in five seconds.
fn slow() -> DiskOptions {
    DiskOptions { bytes_per_second: 2e6, arms: 16, ..DiskOptions::default() }
}

fn loads_each_row_once(name: &str, content: &[u8], more: &[&str], publish: &[&str]) {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE sales (id bigint, note text)");
    let files = Files::new();
    let (fast, mounted) = (files.path("fast"), files.path("slow"));
    for folder in [&fast, &mounted] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::fs::write(fast.join(name), content).expect("written");
    let disk = match Disk::mount(&fast, &mounted, slow()) {
        Ok(disk) => disk,
        Err(error) => skip!("no file system of our own: {error}"),
    };
    let file = mounted.join(name).display().to_string();
    let args = [&["--streams", "4", "--piece-size", "64MB"], more, publish].concat();
    let loaded = files.load_at(database.url(), &file, "sales", &args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    drop(disk);
    let halved = events(&files, "piece_halved");
    assert!(!halved.is_empty(), "nothing was split");
    let found = database.psql("SELECT count(*), count(DISTINCT id), sum(id) FROM sales");
    assert_eq!(found, format!("{ROWS}|{ROWS}|{}", ROWS * (ROWS - 1) / 2));
    let pieces = database.psql("SELECT count(*) > 1, sum(rows) FROM fullbore_ledger.pieces");
    assert_eq!(pieces, format!("t|{ROWS}"));
    assert_no_leftovers(&database);
}

#[test]
fn text_is_split_between_any_two_rows() {
    loads_each_row_once("sales.tbl", text('|', false).as_bytes(), &["--header", "none"], &[]);
}

#[test]
fn quoted_text_is_split_where_it_was_looked_through() {
    let text = text(',', true);
    let replace = ["--publish", "replace", "--method", "copy"];
    loads_each_row_once(
        "sales.csv",
        text.as_bytes(),
        &["--header", "none", "--format", "csv"],
        &replace,
    );
}

#[test]
fn a_parquet_file_is_split_between_row_groups() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let notes = (0..ROWS).map(|n| format!("{:x}", (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let notes: ArrayRef = Arc::new(StringArray::from_iter_values(notes));
    let batch =
        arrow_array::RecordBatch::try_from_iter([("id", ids), ("note", notes)]).expect("rows");
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(10_000)).build();
    let mut bytes = Vec::new();
    let writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), Some(groups));
    let mut writer = writer.expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    loads_each_row_once("sales.parquet", &bytes, &[], &[]);
}
