//! Delimiters, quotes, escapes and record ends.

use fullbore_testing::{TestServer, shared_or_skip};

use super::Lab;

#[test]
fn tab_separated_text_keeps_its_backslashes() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("t.tsv", "id\tpath\tnote\n1\tC:\\new\\table\t\n2\t\\\\host\tx\n", &[]);
    made.is(
        "id bigint, path text, note text",
        "(1,\"C:\\\\new\\\\table\",)\n(2,\"\\\\\\\\host\",x)",
    );
    // COPY's own format where it is asked for, or proven.
    let made =
        lab.created("t.tsv", "id\tpath\n1\tC:\\new\n2\tx\n", &["--format", "text", "--header"]);
    made.is("id bigint, path text", "(1,\"C:\new\")\n(2,x)");
    let made = lab.created("t.tsv", "id\tpath\n1\ta\\tb\n2\t\\N\n", &[]);
    made.is("id bigint, path text", "(1,\"a\tb\")\n(2,)");
    made.says("read as COPY text");
}

#[test]
fn quotes_within_unquoted_fields_are_characters() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let text = "id,place\n1,37.8\"N\n2,\"a, b\"\n3,12\" pipe\n4,8\"\n5,x\n";
    let made = lab.created("t.csv", text, &[]);
    let rows = "(1,\"37.8\"\"N\")\n(2,\"a, b\")\n(3,\"12\"\" pipe\")\n(4,\"8\"\"\")\n(5,x)";
    made.is("id bigint, place text", rows);
}

#[test]
fn single_quotes_and_backslashes_are_found() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("t.csv", "id;note\n1;'a; b'\n2;'it''s'\n3;'c; d'\n", &[]);
    made.is("id bigint, note text", "(1,\"a; b\")\n(2,it's)\n(3,\"c; d\")");
    made.says("quote '\\''");
    let made = lab.created("t.csv", "id,note\n1,\"a \\\"b\\\", c\"\n2,\"d\"\n3,\"e, f\"\n", &[]);
    made.is("id bigint, note text", "(1,\"a \"\"b\"\", c\")\n(2,d)\n(3,\"e, f\")");
    made.says("escape '\\\\'");
}

#[test]
fn delimiters_of_several_bytes_are_found() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    let made = lab.created("t.csv", "id, word, n\n1, \"a, b\", 5\n2, c, 6\n", &[]);
    made.is("id bigint, word text, n bigint", "(1,\"a, b\",5)\n(2,c,6)");
    made.says("delimiter \", \"");
    let made = lab.created("t.csv", "id||word\n1||a\n2||b\n", &[]);
    made.is("id bigint, word text", "(1,a)\n(2,b)");
}

#[test]
fn record_ends_of_all_kinds_are_found() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    for text in [
        "id,word\r1,a\r2,b\r",
        "id,word\r\n1,a\n2,b\r\n",
        "id,word\n1,a\r2,b",
        "id,word\n1,a\r\n2,b\r",
    ] {
        lab.created("t.csv", text, &[]).is("id bigint, word text", "(1,a)\n(2,b)");
    }
}

#[test]
fn the_number_of_fields_is_that_of_most_records() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE t (id int, word text, n int)");
    let text = "id,word,n\n1,a\n2,b,6\n3,c,7\n4,d,8\n";
    let output = lab.load("t.csv", text, "t", &["--max-rejects", "1"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT string_agg(word, '' ORDER BY id) FROM t"), "bcd");
}
