//! `--log-file`, and that no secret is told: not there, not in output, not in records.

use std::path::Path;

use crate::common::Files;
use fullbore_testing::{TestCluster, TestServer, skip};

/// The content of all files below a folder.
fn everything_in(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("listed").flatten() {
        if entry.path().is_dir() {
            text.push_str(&everything_in(&entry.path()));
        } else {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).expect("read")));
        }
    }
    text
}

#[test]
fn the_log_tells_what_was_done_and_no_secret() {
    let secret = "s3cret-w0rd";
    let Ok(cluster) = TestCluster::builder(TestServer::Embedded18).tcp(secret).start() else {
        skip!("no PostgreSQL 18")
    };
    cluster.psql("CREATE TABLE t (a int, b date)");
    let url = cluster.cluster().tcp_url("postgres").expect("it listens");
    assert!(url.contains(secret), "the test would prove nothing");
    let files = Files::new();
    let file = files.write("x.csv", "a,b\n1,2024-01-01\n2,someday\n3,2024-01-03\n");
    let mut args = vec!["load", &file, "--to", &url, "--table", "t", "--log-file", "run.log"];
    args.extend(["--publish", "replace", "--max-rejects", "1", "--json"]);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let log = std::fs::read_to_string(files.path("run.log")).expect("a log");
    for words in [
        "connected",
        "plan: table t",
        "run started",
        "piece started",
        "COPY ",
        "reject: ",
        "line 3, column b",
        "piece committed",
        "ALTER TABLE",
        "phase finished",
        "run finished",
    ] {
        assert!(log.contains(words), "the log lacks {words:?}:\n{log}");
    }
    for line in log.lines() {
        let is_timed =
            line.len() > 20 && line.as_bytes()[10] == b'T' && line[..4].parse::<u16>().is_ok();
        assert!(is_timed, "no time: {line}");
    }
    // A second run comes after the first; one that fails says why.
    let wrong = url.replace(secret, "wr0ng-w0rd");
    let mut args = vec!["load", &file, "--to", &wrong, "--table", "t", "--log-file", "run.log"];
    args.push("--json");
    let refused = files.fullbore(&args);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let both = std::fs::read_to_string(files.path("run.log")).expect("a log");
    assert!(both.starts_with(&log), "the file is appended to");
    assert!(both[log.len()..].contains("password authentication failed"), "{both}");
    // The same with a server that fails under the run.
    cluster.psql("TRUNCATE t; ALTER TABLE t ADD CONSTRAINT small CHECK (a < 3)");
    let failed = files.load_at(&url, &file, "t", &["--max-rejects", "1", "--log-file", "run.log"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let shown = files.fullbore(&["runs", "show", "last"]);
    assert!(shown.stdout.contains("small"), "{}", shown.stdout);
    let all = everything_in(files.folder());
    assert!(all.contains("run failed") && all.contains("run_failed"), "log and record are there");
    let outputs = [&output, &refused, &failed, &shown];
    let said = outputs.map(|output| format!("{}{}", output.stdout, output.stderr)).concat();
    for secret in [secret, "wr0ng-w0rd"] {
        assert!(!all.contains(secret), "a file tells it");
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_log_that_can_not_be_written_is_refused() {
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let output = files.fullbore(&["load", &file, "--to", "null:", "--log-file", "no/such/run.log"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("can't write no/such/run.log"), "{}", output.stderr);
}
