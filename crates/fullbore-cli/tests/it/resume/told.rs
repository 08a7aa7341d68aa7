//! What is said of a load that ended, where nothing or not all of it can be resumed.

use std::process::Stdio;

use fullbore_testing::{TestServer, fullbore_command, shared_or_skip};

use super::{REFUSED, STOPPED};
use crate::common;
use crate::common::Files;
use crate::common::held::{Held, end_of};
use crate::common::moments::{Gate, Moment, assert_loaded, kill, signal};
use crate::common::ways::{APPEND, REPLACE, prepared};

#[test]
fn a_row_of_the_ledger_that_was_deleted_does_not_double_the_rows() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    database.psql("CREATE TABLE append (k bigint, n int, v text)");
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "append", &APPEND.args());
    let rows = database.psql("SELECT count(*) FROM append");
    database.psql("DELETE FROM fullbore_ledger.runs WHERE state = 'loading'");
    for table in ["append", "public.append"] {
        let refused = files.load(&database, &file, table, &APPEND.resume_args());
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        for words in ["is not in the ledger", "--if-loaded again"] {
            assert!(refused.stderr.contains(words), "{} lacks {words}", refused.stderr);
        }
    }
    assert_eq!(database.psql("SELECT count(*) FROM append"), rows);
    database.psql("TRUNCATE append");
    assert_loaded(&files.load(&database, &file, "append", &APPEND.resume_args()));
}

#[test]
fn a_load_without_a_ledger_says_that_it_can_not_be_resumed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let good: String = (0..20_000).map(|k| format!("{k},{}\n", "x".repeat(1900))).collect();
    let file = files.write("bad.csv", good + "oops,x\n");
    database.psql("CREATE TABLE t (k bigint, v text)");
    let args = ["--header", "none", "--streams", "1", "--method", "copy"];
    let failed = files.load(&database, &file, "t", &[&args[..], &["--no-ledger"]].concat());
    assert_eq!(failed.code, STOPPED, "{}", failed.stderr);
    for words in ["rows of committed pieces stay", "can't be resumed", "--no-ledger"] {
        assert!(failed.stderr.contains(words), "{} lacks {words}", failed.stderr);
    }
    let rows = database.psql("SELECT count(*) FROM t");
    assert_ne!(rows, "0");
    // With a ledger nobody knows of them either.
    files.write("bad.csv", std::fs::read_to_string(&file).expect("read").replace("oops", "20000"));
    let refused = files.load(&database, &file, "t", &[&args[..], &["--resume"]].concat());
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), rows);
}

#[test]
fn a_second_signal_says_what_becomes_of_the_run() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceCommits(1));
    let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
    gate.wait();
    signal(&child, "-INT");
    signal(&child, "-INT");
    let output = end_of(child);
    assert_eq!(output.code, STOPPED, "{}", output.stderr);
    for words in ["second signal", "fullbore runs resume", "fullbore runs abort"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    gate.open(&database);
    assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
}

#[test]
fn a_table_that_a_killed_pipe_left_is_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE t (k bigint)");
    let args =
        ["load", "-", "--to", database.url(), "--table", "t", "--header", "none", "--publish"];
    let mut first = args.to_vec();
    first.extend(["replace", "--format", "csv", "--method", "copy"]);
    let mut child = files.start_with_stdin(&first);
    let mut held = Held::begin(database.url(), "SELECT 1");
    use std::io::Write as _;
    child.stdin.as_mut().expect("piped").write_all(&b"1234567\n".repeat(500_000)).expect("written");
    common::held::wait_for("staging table", || {
        let sql = "SELECT FROM pg_class WHERE relname LIKE '%\\_fb\\_%'";
        !held.session().query(sql).expect("asked").is_empty()
    });
    held.release();
    kill(child);
    let file = files.write("a.csv", "1\n");
    let output = files.load(&database, &file, "t", &["--header", "none"]);
    assert_loaded(&output);
    for words in ["t_fb_", "DROP TABLE"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}

#[test]
fn an_answer_that_can_not_be_written_is_no_success() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE t (k bigint)");
    let file = files.write("a.csv", "1\n");
    for command in ["load", "plan"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("opened");
        let mut child = fullbore_command();
        child.args([command, file.as_str(), "--to", database.url(), "--table", "t", "--json"]);
        child.args(["--header", "none", "--if-loaded", "again"]).current_dir(files.folder());
        child.env("FULLBORE_HOME", files.path("state")).env_remove("DATABASE_URL");
        child.stdout(full).stderr(Stdio::piped());
        let output = end_of(child.spawn().expect("started"));
        assert_ne!(output.code, 0, "{command}: {}", output.stderr);
        assert!(output.stderr.contains("standard output"), "{}", output.stderr);
    }
}
