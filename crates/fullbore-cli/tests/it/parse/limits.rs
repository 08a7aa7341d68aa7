//! What a limit of rejects means where a stray quote takes in more than its row.

use fullbore_testing::{TestServer, shared_or_skip};

use super::{clear, told, ways};
use crate::common::{Files, assert_no_leftovers};

/// As COPY reads it, line 3 takes in all up to line 10.
const SWALLOWED: &str = "1,a\n2,b\n3,5\" disk\n4,d\n5,e\n6,f\n7,g\n8,h\n9,i\n10,3\" disk,x\n11,k\n";

#[test]
fn what_a_quote_takes_in_counts_line_by_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let options = |most| ["--format", "csv", "--header", "none", "--max-rejects", most];
    ways(&files, &database, SWALLOWED.as_bytes(), &options("7"), |way, output| {
        assert_eq!(output.code, 1, "{way}: {}", output.stderr);
        assert!(output.stderr.contains("8 rows rejected, 7 allowed"), "{way}: {}", output.stderr);
        assert!(output.stderr.contains("line 3"), "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0", "{way}");
    });
    ways(&files, &database, SWALLOWED.as_bytes(), &options("8"), |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        assert!(output.stderr.contains("8 rows rejected"), "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "3", "{way}");
        let found = told(&files);
        assert_eq!((found[0].0, found[0].2, found.len()), (3, 8, 1), "{way}: {found:?}");
        assert!(found[0].1.contains("a record of 8 lines"), "{found:?}");
        assert!(found[0].1.contains("--quotes strict"), "{found:?}");
        // All of them are there to be loaded again.
        let lost: Vec<&str> = SWALLOWED.split_inclusive('\n').skip(2).take(8).collect();
        assert_eq!(files.read_ending(".rejected"), lost.concat(), "{way}");
    });
    assert_no_leftovers(&database);
}

#[test]
fn strict_quotes_lose_none_of_these_rows() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let options =
        ["--delimiter", ",", "--quotes", "strict", "--header", "none", "--max-rejects", "1"];
    ways(&files, &database, SWALLOWED.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 3, "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "10", "{way}");
        assert_eq!(told(&files)[0].0, 10, "{way}");
    });
}

#[test]
fn a_quote_that_never_closes_is_refused_with_its_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    let text = "1,a\n2,5\" disk\n3,c\n4,d\n";
    let options = ["--format", "csv", "--header", "none", "--max-rejects", "1000"];
    ways(&files, &database, text.as_bytes(), &options, |way, output| {
        assert_eq!(output.code, 1, "{way}: {}", output.stderr);
        let words = "line 2: unterminated CSV quoted field (a record of 3 lines";
        assert!(output.stderr.contains(words), "{way}: {}", output.stderr);
        assert!(output.stderr.contains("hint: "), "{way}: {}", output.stderr);
        assert!(output.stderr.contains("--quotes strict"), "{way}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0", "{way}");
        assert_no_leftovers(&database);
    });
}

#[test]
fn a_run_that_is_resumed_finds_rejects_of_several_lines_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, a text)");
    let files = Files::new();
    // Two files, the second of which is refused at first.
    files.write("a.csv", SWALLOWED);
    let bad = "0,u\n1,x\n2,\"y\n3,z\n4,w\",v\n";
    files.write("b.csv", bad);
    let args = |most| {
        [
            "load",
            "*.csv",
            "--to",
            database.url(),
            "--table",
            "t",
            "--format",
            "csv",
            "--header",
            "none",
            "--resume",
            "--streams",
            "1",
            "--max-rejects",
            most,
        ]
    };
    let output = files.fullbore(&args("8"));
    assert_ne!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("11 rows rejected, 8 allowed"), "{}", output.stderr);
    clear(&files);
    let output = files.fullbore(&args("11"));
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(told(&files).iter().map(|reject| reject.2).sum::<u64>(), 11);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "5");
}
