//! Folders of Parquet files whose names hold values: `day=2024-01-02/`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::Files;
use crate::common::parquets::parquet;

fn folders(files: &Files) {
    for (folder, id) in [
        ("pq/year=2023/kind=a%2Fb", 1),
        ("pq/year=2024/kind=plain", 2),
        ("pq/year=2024/kind=__HIVE_DEFAULT_PARTITION__", 3),
    ] {
        std::fs::create_dir_all(files.path(folder)).expect("made");
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![id, id + 10]));
        parquet(files, &format!("{folder}/part-0.parquet"), &[("id", ids)]);
        files.write(&format!("{folder}/_SUCCESS"), "");
    }
}

const ROWS: &str = "1|2023|a/b\n2|2024|plain\n3|2024|\n11|2023|a/b\n12|2024|plain\n13|2024|";

#[test]
fn folder_names_fill_columns_of_parquet_files() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    folders(&files);
    for source in ["pq", "pq/*/*/*.parquet", "pq/**/*.parquet"] {
        for more in [&[][..], &["--as-text"], &["--atomic", "--verify", "full"]] {
            database.psql("DROP TABLE IF EXISTS made");
            let output = files.load(&database, source, "made", &[&["--create"], more].concat());
            assert_eq!(output.code, 0, "{source} {more:?}: {}", output.stderr);
            assert!(output.stderr.contains("column year is filled from"), "{}", output.stderr);
            assert_eq!(
                database.psql("SELECT id, year, kind FROM made ORDER BY id"),
                ROWS,
                "{source} {more:?}"
            );
            let types = "SELECT pg_typeof(year), pg_typeof(kind) FROM made LIMIT 1";
            assert_eq!(database.psql(types), "bigint|text");
        }
    }
    // Columns of a table that is there, of its own types; what it lacks is left out and said.
    database.psql("CREATE TABLE there (year smallint, id bigint)");
    let output = files.load(&database, "pq", "there", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("key kind is not a column of the table"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), sum(year) FROM there"), "6|12142");
}

#[test]
fn folders_that_can_not_be_read_so_say_what_to_do() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    folders(&files);
    let refused = |source: &str, table: &str, words: &[&str]| {
        let output = files.load(&database, source, table, &[]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        for words in words {
            assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
        }
    };
    database.psql("CREATE TABLE wrong (id bigint, kind int)");
    refused("pq", "wrong", &["kind=a/b is not a valid value of column \"kind\" (integer)"]);
    std::fs::create_dir_all(files.path("deep/inner")).expect("made");
    files.write("deep/inner/a.csv", "1\n");
    refused("deep", "wrong", &["deep contains only directories", "'deep/**/*'"]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    parquet(&files, "pq/year=2023/loose.parquet", &[("id", ids)]);
    refused("pq", "wrong", &["its folders have keys"]);
}
