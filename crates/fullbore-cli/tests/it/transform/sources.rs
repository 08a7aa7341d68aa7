//! Every kind of source and destination is transformed, and compared once more afterwards.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Int64Array, StringArray};

use crate::common::Files;
use crate::common::parquets::parquet;
use crate::common::refused::fresh;
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip};

const SELECT: [&str; 6] =
    ["--select", "total=price*quantity", "--select", "name=upper(name)", "--where", "quantity > 0"];
const EXPECTED: &str = "1|ANN|7.50\n3||0.50";

/// Numbers, names, prices and quantities; the second row is left out.
fn columns() -> [(&'static str, ArrayRef); 4] {
    let prices = Decimal128Array::from(vec![250, 100, 50]);
    [
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("name", Arc::new(StringArray::from(vec![Some("Ann"), Some("Bob"), None]))),
        ("price", Arc::new(prices.with_precision_and_scale(9, 2).expect("decimals"))),
        ("quantity", Arc::new(Int64Array::from(vec![3, 0, 1]))),
    ]
}

fn assert_loaded(database: &TestDatabase<'_>, what: &str) {
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY id"), EXPECTED, "{what}");
}

#[test]
fn parquet_and_json_are_transformed_as_text_is() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for as_text in [false, true] {
        let files = Files::new();
        let path = parquet(&files, "a.parquet", &columns());
        files.write(
            "a.ndjson",
            "{\"id\": 1, \"name\": \"Ann\", \"price\": 2.50, \"quantity\": 3}\n\
             {\"id\": 2, \"name\": \"Bob\", \"price\": 1.00, \"quantity\": 0}\n\
             {\"quantity\": 1, \"price\": 0.50, \"id\": 3, \"name\": null}\n",
        );
        files.write("a.csv", "id,name,price,quantity\n1,Ann,2.50,3\n2,Bob,1.00,0\n3,,0.50,1\n");
        for source in [path.as_str(), "a.ndjson", "a.csv"] {
            let database = fresh(cluster);
            database.psql("CREATE TABLE ours (id int, name varchar(5), total numeric(9,2))");
            let mut args = SELECT.to_vec();
            args.extend(if as_text { &["--as-text"][..] } else { &[] });
            let output = files.load(&database, source, "ours", &args);
            assert_eq!(output.code, 0, "{source}: {}", output.stderr);
            assert_loaded(&database, source);
        }
        // A value that is too long is rejected, by its row.
        let database = fresh(cluster);
        database.psql("CREATE TABLE ours (id int, name varchar(2), total numeric(9,2))");
        let args = [&SELECT[..], &["--max-rejects", "1"]].concat();
        let output = files.load(&database, &path, "ours", &args);
        assert_eq!(output.code, 3, "{}", output.stderr);
        let reasons = files.reasons();
        assert_eq!(reasons[0]["row"], 1, "{reasons:?}");
        assert_eq!(reasons[0]["column"], "name");
    }
}

#[test]
fn rows_are_compared_with_their_files_through_the_same_expressions() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for method in ["direct", "copy"] {
        let database = fresh(cluster);
        let files = Files::new();
        let text: String =
            (0..3000).map(|n| format!("{n},n{n},{}.25,{}\n", n % 90, n % 3)).collect();
        files.write("a.csv", format!("id,name,price,quantity\n{text}"));
        database.psql("CREATE TABLE ours (id int, name text, total numeric(9,2))");
        let more = ["--publish", "replace", "--method", method, "--verify", "full"];
        let output = files.load(&database, "a.csv", "ours", &[&SELECT[..], &more].concat());
        assert_eq!(output.code, 0, "{method}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "2000");
        let verify = ["runs", "verify", "last", "--against", "--to", database.url()];
        let output = files.fullbore(&verify);
        assert_eq!(output.code, 0, "{method}: {}{}", output.stdout, output.stderr);
        database.psql("UPDATE ours SET total = total + 1 WHERE id = 2000");
        let output = files.fullbore(&verify);
        assert_ne!(output.code, 0, "{method}: {}{}", output.stdout, output.stderr);
    }
}

#[test]
fn parquet_files_are_written_with_what_is_computed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("a.csv", "id,name,price,quantity\n1,Ann,2.50,3\n2,Bob,1.00,0\n3,,0.50,1\n");
    let out = files.path("out");
    let to = format!("parquet:{}", out.display());
    let more = ["--select", "price=", "--select", "quantity="];
    let output = files.load_at(&to, "a.csv", "ours", &[&SELECT[..], &more].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql("CREATE TABLE ours (id int, name text, total numeric(9,2))");
    let written = format!("{}/**/*.parquet", out.display());
    let output = files.load(&database, &written, "ours", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_loaded(&database, "parquet");
}
