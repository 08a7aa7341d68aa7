//! Rows of plain append, deleted by the transactions that wrote them: all, or none.

use fullbore_testing::{TestServer, shared_or_skip, wanted};

use super::{REFUSED, STOPPED};
use crate::common::Files;
use crate::common::moments::{Moment, assert_loaded};
use crate::common::ways::{APPEND, prepared};

const CONTENT: &str = "SELECT count(*), coalesce(sum(k), 0) FROM append";

#[test]
fn abort_deletes_the_rows_of_the_run_and_no_others() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        APPEND.make(&database);
        database.psql("INSERT INTO append SELECT -k, 0, 'before' FROM generate_series(1, 1000) k");
        let before = database.psql(CONTENT);
        files.kill_load_at(&database, Moment::PieceBegins(2), &file, "append", &APPEND.args());
        assert_ne!(database.psql(CONTENT), before);
        // A row that somebody has updated is no longer told: nothing goes then.
        database.psql("UPDATE append SET n = 7 WHERE k = 3");
        let refused = files.fullbore(&["runs", "abort", "last", "--delete-rows"]);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        for words in ["can't be deleted exactly", "nothing was deleted"] {
            assert!(refused.stderr.contains(words), "{} lacks {words}", refused.stderr);
        }
        // The run is still there, and can be resumed; but not verified, with that row.
        database.psql("DELETE FROM append WHERE k = 3; UPDATE fullbore_ledger.pieces SET rows = rows - 1 WHERE piece = 0");
        database.psql("INSERT INTO append VALUES (-5000, 0, 'after')");
        let aborted = files.fullbore(&["runs", "abort", "last", "--delete-rows"]);
        assert_loaded(&aborted);
        assert!(aborted.stderr.contains("rows were deleted"), "{}", aborted.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM append WHERE k > 0"), "0");
        assert_eq!(database.psql("SELECT count(*) FROM append"), "1001");
        assert_eq!(
            database.psql("SELECT count(*) FROM fullbore_ledger.runs WHERE state <> 'finished'"),
            "0"
        );
    }
}

#[test]
fn without_the_option_nothing_is_removed_and_it_says_so() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "append", &APPEND.args());
    let rows = database.psql("SELECT count(*) FROM append");
    let aborted = files.fullbore(&["runs", "abort", "last"]);
    assert_eq!(aborted.code, STOPPED, "{}", aborted.stderr);
    for words in ["is closed", "it had committed", "nothing was removed", "--delete-rows"] {
        assert!(aborted.stderr.contains(words), "{} lacks {words}", aborted.stderr);
    }
    assert!(!aborted.stderr.contains("rolled back"), "{}", aborted.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM append"), rows);
}

#[test]
fn undo_deletes_what_a_finished_run_appended() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for more in [&[][..], &["--atomic"]] {
        APPEND.make(&database);
        database.psql("INSERT INTO append VALUES (-1, 0, 'before')");
        let mut args = APPEND.args();
        args.extend(more);
        assert_loaded(&files.load(&database, &file, "append", &args));
        let refused = files.fullbore(&["runs", "undo", "last"]);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        assert!(refused.stderr.contains("--delete-rows"), "{}", refused.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM append"), "25001");
        assert_loaded(&files.fullbore(&["runs", "undo", "last", "--delete-rows"]));
        assert_eq!(database.psql("SELECT k, v FROM append"), "-1|before");
        // What is undone may be loaded again.
        assert_loaded(&files.load(&database, &file, "append", &args));
    }
    let replace = ["--header", "none", "--publish", "replace"];
    assert_loaded(&files.load(&database, &file, "append", &replace));
    let refused = files.fullbore(&["runs", "undo", "last", "--delete-rows"]);
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
}
