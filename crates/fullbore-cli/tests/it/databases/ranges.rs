//! Queries and views, whose rows are divided by ranges of a key.

use super::table;
use crate::common::codes::REFUSED;
use crate::common::moments::assert_loaded;
use crate::common::{Files, checksum};
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn rows_of_a_query_are_divided_by_a_key() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    from.psql(
        "CREATE TABLE t (k bigint, d date, m timestamptz, v text);
         INSERT INTO t SELECT CASE WHEN g % 50 > 0 THEN g * 7 - 90000 END, date '2024-01-01' + g % 400,
                timestamptz '2024-01-01' + g * interval '1 min', 'text ' || g
           FROM generate_series(1, 30000) g;
         INSERT INTO t VALUES (9223372036854775807, NULL, NULL, NULL), (-9223372036854775808, NULL, NULL, 'x');
         CREATE VIEW seen AS SELECT k, d, m, upper(v) AS v FROM t WHERE v IS DISTINCT FROM 'text 3';
         CREATE TABLE all_of_it AS SELECT * FROM seen; CREATE INDEX ON all_of_it (k)",
    );
    let query = "SELECT k, d, m, upper(v) AS v FROM t WHERE v IS DISTINCT FROM 'text 3';";
    // The server finds a least value by a limit of its own.
    let least = "SELECT * FROM all_of_it WHERE k IS NULL OR k >= (SELECT min(k) FROM all_of_it)";
    let url = from.url();
    let sign = if url.contains('?') { '&' } else { '?' };
    let ways = [
        (url.to_owned(), Some(query)),
        (format!("{url}{sign}key=k"), Some(query)),
        (format!("{url}{sign}key=m"), Some(query)),
        (format!("{url}{sign}key=k"), Some(least)),
        (table(&from, "seen"), None),
        (format!("{}&key=k", table(&from, "seen")), None),
        (format!("{}&key=m", table(&from, "all_of_it")), None),
    ];
    for (number, (source, query)) in ways.iter().enumerate() {
        let name = format!("copy{number}");
        let mut args = vec!["--create", "--streams", "3"];
        args.extend(query.iter().flat_map(|query| ["--query", query]));
        assert_loaded(&files.load(&to, source, &name, &args));
        assert_eq!(checksum(&to, &name), checksum(&from, "all_of_it"), "{source}");
    }
    // A key of days with one that has no neighbours.
    let output = files.load(&to, &format!("{}&key=d", table(&from, "seen")), "days", &["--create"]);
    assert_loaded(&output);
    assert_eq!(checksum(&to, "days"), checksum(&from, "all_of_it"));
}

#[test]
fn what_can_not_be_divided_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    from.psql("CREATE TABLE t (k int, v text)");
    let url = from.url().to_owned();
    let of_table = table(&from, "t");
    for (source, args, words) in [
        (format!("{of_table}&key=v"), vec![], "a key of type text is not divided into ranges"),
        (format!("{of_table}&key=no"), vec![], "there is no column \"no\""),
        (url.clone(), vec!["--query", "DELETE FROM t"], "--query takes one SELECT"),
        (url.clone(), vec!["--query", "SELECT 1, 2"], "--query takes one SELECT"),
        (of_table.clone(), vec!["--query", "SELECT 1 AS a"], "two answers to what is read"),
        (
            format!("{url}&key=k"),
            vec!["--query", "SELECT * FROM t LIMIT 5"],
            "with LIMIT, the query may give other rows",
        ),
        (
            format!("{url}&key=k"),
            vec!["--query", "SELECT DISTINCT ON (k) k, v FROM t"],
            "with DISTINCT ON, the query may give other rows",
        ),
        (url.clone(), vec![], "names no table"),
        (files.write("f.csv", "1\n"), vec!["--query", "SELECT 1 AS a"], "--query is for a source"),
    ] {
        let mut all = vec!["--create"];
        all.extend(args);
        let output = files.load(&to, &source, "target", &all);
        assert_eq!(output.code, REFUSED, "{words}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
}
