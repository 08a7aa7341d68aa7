//! What the tests of bad input share: a load of bad text, and what must come of it.

use crate::common::codes::{FAILED, REFUSED};
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip, wanted};

use super::{Files, assert_no_leftovers};

pub const REJECTS: i32 = 3;

/// Loads `text` into a fresh table of `columns` and hands everything to `check`.
pub fn with(
    columns: &str,
    text: impl AsRef<[u8]>,
    more: &[&str],
    check: impl Fn(&Output, &TestDatabase<'_>, &Files),
) {
    for server in wanted([TestServer::Embedded18, TestServer::Pg16]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(&format!("CREATE TABLE t ({columns})"));
        let files = Files::new();
        let file = files.write("input.csv", text.as_ref());
        let mut args = vec!["--format", "csv"];
        args.extend(more);
        let output = files.load(&database, &file, "t", &args);
        check(&output, &database, &files);
        assert_no_leftovers(&database);
    }
}

/// One bad line among good ones: rejected with its line, reason and column, the others loaded.
pub fn rejects(
    columns: &str,
    text: impl AsRef<[u8]>,
    more: &[&str],
    line: u64,
    column: Option<&str>,
    reason: &str,
) {
    let mut args = vec!["--max-rejects", "10", "--header", "none"];
    args.extend(more);
    with(columns, text.as_ref(), &args, |output, database, files| {
        assert_eq!(output.code, REJECTS, "{}", output.stderr);
        let reasons = files.reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let said = reasons[0]["reason"].as_str().expect("a reason");
        assert!(said.contains(reason), "{said:?} lacks {reason:?}");
        assert_eq!(reasons[0]["line"], line, "{:?}", reasons[0]);
        if let Some(column) = column {
            assert_eq!(reasons[0]["column"], column, "{:?}", reasons[0]);
        }
        assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
    });
    // Without an allowance the run fails and keeps nothing.
    let args = [more, &["--header", "none", "--atomic"]].concat();
    with(columns, text, &args, |output, database, _| {
        assert_eq!(output.code, FAILED, "{}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    });
}

/// Refused before anything is touched, with words that name the matter.
pub fn refused(columns: &str, text: &str, more: &[&str], words: &str) {
    with(columns, text, more, |output, database, _| {
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    });
}
