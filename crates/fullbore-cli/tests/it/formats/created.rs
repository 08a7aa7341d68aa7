//! Tables that a load makes: nothing of them stays where it fails, and what says how they are made is
//! never passed over in silence.

use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::Files;

#[test]
fn a_failed_create_leaves_no_table_and_its_advice_works() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    // In the middle of a file of three samples nobody looks before it is loaded.
    let rows: String = (0..200_000).map(|n| format!("{n},{n}\n")).collect();
    let text = format!("k,v\n{rows}").replace("\n60000,60000\n", "\n60000,unknown\n");
    for ledger in [&[][..], &["--no-ledger"]] {
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("late.csv", &text);
        let load = |more: &[&str]| {
            files.load(&database, &file, "late", &[&["--create"], ledger, more].concat())
        };
        let output = load(&[]);
        assert_eq!(output.code, 1, "{}", output.stderr);
        assert!(output.stderr.contains("--type v=text"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT to_regclass('late')"), "", "{ledger:?}");
        let output = load(&["--type", "v=text"]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), max(v) FROM late"), "200000|unknown");
    }
}

#[test]
fn rows_that_were_committed_before_a_create_failed_stay_with_their_table() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    files.write("1.csv", (0..1000).map(|n| format!("{n},a\n")).collect::<String>());
    files.write("2.csv", "1,a\nx\n");
    // One stream, and pieces of one file each: the first is committed when the second fails.
    let job = "streams = 1\n[[table]]\nname = \"t\"\nsources = [\"1.csv\"]\nheader = \"none\"\n\
               create = true\n[[table]]\nname = \"u\"\nsources = [\"2.csv\"]\nheader = \"none\"\n\
               create = true\n";
    let job = files.write("job.toml", job);
    let output = files.fullbore(&["load", &job, "--to", database.url()]);
    assert_ne!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "1000");
    let run = database.psql("SELECT run FROM fullbore_ledger.runs");
    // Stopped, with rows that stay.
    assert_eq!(files.fullbore(&["runs", "abort", &run, "--to", database.url()]).code, 4);
    assert_eq!(database.psql("SELECT to_regclass('u'), count(*) FROM t"), "|1000");
}

#[test]
fn a_type_that_a_table_does_not_have_is_refused_where_none_is_made() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (k bigint, v numeric(10, 2))");
    let files = Files::new();
    let file = files.write("x.csv", "k,v\n1,2\n");
    let load = |types: &[&str]| {
        let given = types.iter().flat_map(|given| ["--type", given]);
        files.load(
            &database,
            &file,
            "t",
            &["--create", "--if-loaded", "again"].into_iter().chain(given).collect::<Vec<_>>(),
        )
    };
    for (given, words) in [
        ("v=text", "table t already exists, and its column \"v\" is numeric(10,2)"),
        ("v=numeric(10,3)", "is numeric(10,2)"),
        ("v=no type", "is numeric(10,2)"),
        ("z=text", "it has no column \"z\""),
    ] {
        let output = load(&[given]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        for words in [words, "has no effect", "hint: "] {
            assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
        }
    }
    assert_eq!(load(&["k=int8", "v=numeric(10,2)"]).code, 0);
    assert_eq!(load(&[]).code, 0);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
}
