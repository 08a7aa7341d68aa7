//! Headers and the target's columns: other orders, and columns that a header lacks.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{Lab, assert_refused};

#[test]
fn files_of_one_table_may_have_their_columns_in_another_order() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (publish, more) in [
        ("append", &[][..]),
        ("append", &["--as-text"]),
        ("append", &["--line-end", "mixed"]),
        ("replace", &[]),
    ] {
        let lab = Lab::new(cluster.fresh_database());
        lab.database.psql("CREATE TABLE t (id int, word text, at date)");
        let one = lab.files.write("1.csv", "id,word,at\n1,a,2024-01-01\n2,\"b,\",2024-01-02\n");
        let two = lab.files.write("2.csv", "at,id,word\n2024-02-01,3,c\n2024-02-02,4,\"d\"\"\"\n");
        let bad = lab.files.write("3.csv", "Word,AT,id\ne,2024-03-01,5\nf,2024-03-02,x\n");
        let to = lab.database.url();
        let args = ["load", &one, &two, &bad, "--to", to, "--table", "t", "--publish", publish];
        let args = [&args[..], &["--max-rejects", "1"], more].concat();
        let output = lab.files.fullbore(&args);
        assert_eq!(output.code, 3, "{publish} {more:?}: {}", output.stderr);
        assert!(
            output.stderr.contains("2.csv: its columns are in a different order"),
            "{}",
            output.stderr
        );
        let rows = lab.database.psql("SELECT * FROM t ORDER BY id");
        let wanted =
            "1|a|2024-01-01\n2|b,|2024-01-02\n3|c|2024-02-01\n4|d\"|2024-02-02\n5|e|2024-03-01";
        assert_eq!(rows, wanted, "{publish} {more:?}");
        let reasons = lab.files.reasons();
        assert_eq!(reasons[0]["column"], "id", "{publish} {more:?}");
        assert_eq!(reasons[0]["line"], 3, "{publish} {more:?}");
    }
}

#[test]
fn partitions_are_cut_by_keys_of_files_in_any_order() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE p (k bigint, word text) PARTITION BY RANGE (k)");
    let rows =
        |from: u64, order: fn(u64) -> String| -> String { (from..from + 50).map(order).collect() };
    let one = lab.files.write("1.csv", format!("k,word\n{}", rows(0, |k| format!("{k},w{k}\n"))));
    let two = lab.files.write("2.csv", format!("word,k\n{}", rows(50, |k| format!("w{k},{k}\n"))));
    let to = lab.database.url();
    let args = ["load", &one, &two, "--to", to, "--table", "p", "--publish", "partitions"];
    let output = lab.files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let sums = lab
        .database
        .psql("SELECT count(*), sum(k), count(*) FILTER (WHERE word = 'w' || k) FROM p");
    assert_eq!(sums, "100|4950|100");
}

#[test]
fn rejects_of_a_file_in_another_order_can_be_loaded() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql("CREATE TABLE t (id int, word text)");
    let one = lab.files.write("1.csv", "id,word\n1,a\n7x,b\n");
    let two = lab.files.write("2.csv", "word,id\nc,3\nd,8x\n");
    let to = lab.database.url();
    let args = ["load", &one, &two, "--to", to, "--table", "t", "--max-rejects", "2"];
    let output = lab.files.fullbore(&args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    // Those of each order stand in files of their own, under their header.
    assert_eq!(lab.files.read_ending(".2.rejected"), "word,id\nd,8x\n");
    let of_both: Vec<_> =
        std::fs::read_dir(lab.files.folder()).expect("listed").flatten().collect();
    let rejected = of_both
        .iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rejected"));
    let mut texts: Vec<String> =
        rejected.map(|path| std::fs::read_to_string(path).expect("read")).collect();
    texts.sort();
    assert_eq!(texts, ["id,word\n7x,b\n", "word,id\nd,8x\n"]);
}

#[test]
fn a_header_may_lack_what_the_database_fills() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let lab = Lab::new(cluster.fresh_database());
    lab.database.psql(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, word text, n int,
                         made text DEFAULT 'here', twice int GENERATED ALWAYS AS (n * 2) STORED)",
    );
    let output = lab.load("t.csv", "n,word\n5,a\n6,b\n", "t", &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("the header lacks id, made"), "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT * FROM t ORDER BY id"), "1|a|5|here|10\n2|b|6|here|12");
    // What would be NULL in every row is a loss that nobody asked for.
    lab.database.psql("CREATE TABLE u (word text, n int, note text)");
    let output = lab.load("t.csv", "n,word\n5,a\n", "u", &[]);
    assert_refused(&output, &["the header lacks the table's columns note", "--columns"]);
    let output = lab.load("t.csv", "n,word\n5,a\n", "u", &["--columns", "n,word"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(lab.database.psql("SELECT * FROM u"), "a|5|");
}
