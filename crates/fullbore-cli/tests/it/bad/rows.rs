//! Every bad row is a reject with line and reason; what is no row at all ends the run.

use crate::common;
use crate::common::Files;
use crate::common::bad::{REJECTS, rejects, with};
use crate::common::codes::FAILED;
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn wrong_number_of_fields() {
    rejects(
        "a int, b int",
        "1,2\n3\n4,5\n",
        &["--columns", "a,b"],
        2,
        None,
        "missing data for column \"b\"",
    );
    rejects("a int, b int", "1,2\n3,4,5\n6,7\n", &["--columns", "a,b"], 2, None, "extra data");
}

#[test]
fn unterminated_quote() {
    rejects(
        "a int, b text",
        "1,x\n2,y\n3,\"never closed\n",
        &[],
        3,
        None,
        "unterminated CSV quoted field",
    );
}

#[test]
fn numbers_out_of_range() {
    rejects("a int, b int", "1,2\n3,2147483648\n5,6\n", &[], 2, Some("b"), "out of range");
    rejects(
        "a int, b numeric(5,2)",
        "1,999.99\n2,1000\n3,1\n",
        &[],
        2,
        Some("b"),
        "numeric field overflow",
    );
    rejects(
        "a int, b numeric(9,2)",
        "1,1e3\n2,1e400\n3,0\n",
        &[],
        2,
        Some("b"),
        "numeric field overflow",
    );
    rejects("a int, b numeric", "1,1e3\n2,1e200000\n3,0\n", &[], 2, Some("b"), "overflow");
    rejects("a int, b float8", "1,1e300\n2,1e400\n3,0\n", &[], 2, Some("b"), "out of range");
}

#[test]
fn thirtieth_of_february() {
    rejects(
        "a int, b date",
        "1,2024-02-29\n2,2024-02-30\n3,2024-03-01\n",
        &[],
        2,
        Some("b"),
        "date",
    );
}

#[test]
fn nul_bytes_and_bad_utf8() {
    rejects("a int, b text", "1,x\n2,y\0z\n3,w\n", &[], 2, None, "0x00");
    rejects("a int, b text", b"1,x\n2,\xff\xfe\n3,w\n", &[], 2, None, "invalid byte sequence");
}

#[test]
fn mixed_line_ends() {
    let told = |end| ["--line-end", end];
    rejects("a int, b int", "1,2\n3,4\r\n5,6\n", &told("lf"), 2, None, "carriage return");
    rejects("a int, b int", "1,2\r\n3,4\n5,6\r\n", &told("crlf"), 2, None, "newline");
}

#[test]
fn rejected_rows_load_again_once_mended() {
    with(
        "a int, b date",
        "a,b\n1,2024-01-01\n2,someday\n3,2024-01-03\n",
        &["--header", "true", "--max-rejects", "50%"],
        |output, database, files| {
            assert_eq!(output.code, REJECTS, "{}", output.stderr);
            let rejected = files.read_ending(".rejected");
            assert_eq!(rejected, "a,b\n2,someday\n");
            let mended = files.write("mended.csv", rejected.replace("someday", "2024-01-02"));
            let output =
                files.load(database, &mended, "t", &["--format", "csv", "--header", "true"]);
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_eq!(database.psql("SELECT sum(a) FROM t"), "6");
        },
    );
}

#[test]
fn fields_that_are_too_long() {
    let text = format!("1,{}\n", "x".repeat(3_000_000));
    with(
        "a int, b text",
        &text,
        &["--header", "none", "--max-field-bytes", "1000000"],
        |output, _, _| {
            assert_eq!(output.code, FAILED, "{}", output.stderr);
            assert!(output.stderr.contains("--max-field-bytes"), "{}", output.stderr);
        },
    );
    with("a int, b text", &text, &["--header", "none"], |output, database, _| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT length(b) FROM t"), "3000000");
    });
}

#[test]
fn fields_that_are_too_long_in_a_stream() {
    let text = format!("1,{}\n", "x".repeat(3_000_000));
    let [(_, gzip), ..] = common::packed(text.as_bytes());
    let limit = ["--header", "none", "--max-field-bytes", "1000000"];
    with("a int, b text", gzip, &limit, |output, database, _| {
        assert_eq!(output.code, FAILED, "{}", output.stderr);
        assert!(output.stderr.contains("--max-field-bytes"), "{}", output.stderr);
        assert!(output.stderr.contains("record at byte 0"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    });
    let beyond = ["--header", "none", "--max-field-bytes", "2000000000"];
    with("a int, b text", "1,x\n", &beyond, |output, _, _| {
        assert_eq!(output.code, common::codes::REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains("COPY's own limit"), "{}", output.stderr);
    });
}

#[test]
fn a_file_of_bad_records_alone_loads_nothing_and_tells_all() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int, b int, c timestamp, d numeric(9,2))");
    let files = Files::new();
    let file = files.write("long.csv", "a,b,c,d\n1,2,2024-01-01,3,4\n1,2,someday,3\n1\n");
    let output = files.load(&database, &file, "t", &["--header", "true", "--max-rejects", "5"]);
    assert_eq!(output.code, REJECTS, "{}", output.stderr);
    assert_eq!(files.reasons().len(), 3);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
}
