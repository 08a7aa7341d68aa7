//! What can't be read is refused by name, and no password is said.

use super::table;
use crate::common::Files;
use crate::common::codes::REFUSED;
use crate::common::moments::assert_loaded;
use fullbore_testing::{TestCluster, TestServer, shared_or_skip, skip};

#[test]
fn what_is_no_table_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let (from, to) = (cluster.fresh_database(), cluster.fresh_database());
    let files = Files::new();
    from.psql(
        "CREATE TABLE t (k int, day date); CREATE SEQUENCE s;
         INSERT INTO t VALUES (1, 'infinity')",
    );
    to.psql("CREATE TABLE t (k int, day date)");
    for (source, words) in [
        (table(&from, "none"), "there is no table or view \"none\""),
        (table(&from, "s"), "there is no table or view \"s\""),
        (from.url().to_owned(), "a database among the sources names no table"),
    ] {
        let output = files.load(&to, &source, "t", &[]);
        assert_eq!(output.code, REFUSED, "{source}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{source}: {}", output.stderr);
    }
    let output = files.load(&to, &table(&from, "t"), "t", &[]);
    assert!(output.stderr.contains("column \"day\" has the value infinity"), "{}", output.stderr);
    assert_loaded(&files.load(&to, &table(&from, "t"), "t", &["--as-text"]));
    assert_eq!(to.psql("SELECT * FROM t"), "1|infinity");
}

#[test]
fn a_password_of_a_source_is_kept_nowhere() {
    let password = "s3cr%7Et";
    let from = match TestCluster::builder(TestServer::Embedded18).tcp("s3cr~t").start() {
        Ok(cluster) => cluster,
        Err(missing) => skip!("{missing}"),
    };
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let to = cluster.fresh_database();
    let files = Files::new();
    from.psql("CREATE TABLE t (k int); INSERT INTO t VALUES (1), (2)");
    to.psql("CREATE TABLE t (k int)");
    let url = from.cluster().tcp_url("postgres").expect("it listens");
    assert!(url.contains("s3cr"), "{url}");
    let source = format!("{}{}table=t", url, if url.contains('?') { '&' } else { '?' });
    let planned = files.fullbore(&["plan", &source, "--to", to.url(), "--table", "t"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let output = files.load(&to, &source, "t", &["--json"]);
    assert_loaded(&output);
    assert_eq!(to.psql("SELECT count(*) FROM t"), "2");
    let mut said = format!("{}{}{}", planned.stdout, output.stdout, output.stderr);
    let mut folders = vec![files.path("state")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    said.push_str(&String::from_utf8_lossy(&std::fs::read(path).expect("read")))
                }
            }
        }
    }
    said.push_str(&to.psql("SELECT r::text FROM fullbore_ledger.runs r"));
    for secret in [password, "s3cr~t"] {
        assert!(!said.contains(secret), "{said}");
    }
}
