//! Loads that are killed, at several moments, and gone on with: nothing is lost, nothing is twice.

mod deleted;
mod indexes;
mod loaded;
mod lost;
mod pause;
mod preparing;
mod published;
mod spelling;
mod told;

use crate::common;
use crate::common::codes::{REFUSED, STOPPED};
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, ledger, signal};
use crate::common::ways::{
    APPEND, ATOMIC, LEAVES_DIRECT, PARTITIONS, PARTITIONS_DIRECT, REPLACE, REPLACE_DIRECT, UPSERT,
    Way, prepared,
};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip};

/// Pieces that the big file is cut into, by one session's load.
const PIECES: usize = 3;

/// Kills a load at a moment, resumes it, and sees that the table is what COPY makes of the file.
fn kill_and_resume(database: &TestDatabase<'_>, files: &Files, file: &str, way: &Way, at: Moment) {
    println!("{} killed at {at:?}", way.name);
    way.make(database);
    files.kill_load_at(database, at, file, way.name, &way.args());
    let output = files.load(database, file, way.name, &way.resume_args());
    assert_loaded(&output);
    assert_same(database, way.name, "plain");
    assert_no_leftovers(database);
    assert!(ledger(database, way.name).starts_with("finished|"), "{}", ledger(database, way.name));
    let unfinished =
        database.psql("SELECT count(*) FROM fullbore_ledger.runs WHERE state <> 'finished'");
    assert_eq!(unfinished, "0");
    // And once more there is nothing to do.
    let again = files.load(database, file, way.name, &way.resume_args());
    assert_loaded(&again);
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    assert_same(database, way.name, "plain");
    database.psql(&format!("DROP TABLE {}", way.name));
}

#[test]
fn an_interrupt_says_at_once_what_is_waited_for() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    database.psql("CREATE TABLE t (k int)");
    let mut holder = common::held::session(database.url());
    holder.execute("BEGIN; LOCK TABLE t IN SHARE MODE").expect("locked");
    let args = ["load", &file, "--to", database.url(), "--table", "t", "--header", "none"];
    let child = files.start(&args);
    common::held::wait_for("a waiting load", || {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass";
        database.psql(waiting) != "0"
    });
    common::held::interrupt(&child);
    std::thread::sleep(std::time::Duration::from_secs(2));
    holder.execute("COMMIT").expect("released");
    let output = common::held::end_of(child);
    // The piece under way ended, and it was all there was to load.
    assert!(
        output.stderr.contains("stopping: finishing 1 piece; ^C again aborts"),
        "{}",
        output.stderr
    );
}

#[test]
fn killed_clients_are_gone_on_with_by_copy() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&APPEND, &ATOMIC, &REPLACE, &PARTITIONS, &UPSERT] {
        for at in [
            Moment::PieceBegins(1),
            Moment::PieceCommits(PIECES - 1),
            Moment::Publishes,
            Moment::PublishCommits,
        ] {
            kill_and_resume(&database, &files, &file, way, at);
        }
    }
}

#[test]
fn killed_clients_are_gone_on_with_on_an_older_server() {
    let cluster = shared_or_skip!(TestServer::Pg14);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (way, at) in [
        (&APPEND, Moment::PieceCommits(1)),
        (&ATOMIC, Moment::Publishes),
        (&REPLACE, Moment::PublishCommits),
        (&PARTITIONS, Moment::PieceBegins(2)),
        (&UPSERT, Moment::PublishCommits),
    ] {
        kill_and_resume(&database, &files, &file, way, at);
    }
}

#[test]
fn killed_clients_are_gone_on_with_by_the_direct_method() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let file = prepared(&database, &files);
    for at in [Moment::PieceBegins(1), Moment::PieceCommits(1), Moment::PublishCommits] {
        kill_and_resume(&database, &files, &file, &PARTITIONS_DIRECT, at);
    }
    for at in [Moment::PieceCommits(0), Moment::Publishes] {
        kill_and_resume(&database, &files, &file, &REPLACE_DIRECT, at);
    }
    for at in [Moment::PieceBegins(0), Moment::PieceCommits(0)] {
        kill_and_resume(&database, &files, &file, &LEAVES_DIRECT, at);
    }
}

#[test]
fn committed_pieces_are_not_repeated() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    PARTITIONS.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(2), &file, "parted", &PARTITIONS.args());
    assert_eq!(ledger(&database, "parted"), "loading|2");
    let before = database.psql("SELECT string_agg(piece || ' ' || xid_from, ',' ORDER BY xid_from) FROM fullbore_ledger.pieces JOIN fullbore_ledger.runs USING (run) WHERE state = 'loading'");
    // By its id, from another folder, with other options of speed.
    let output = files.fullbore(&["runs", "resume", "last", "--streams", "2"]);
    assert_loaded(&output);
    let after = database.psql("SELECT string_agg(piece || ' ' || xid_from, ',' ORDER BY xid_from) FROM fullbore_ledger.pieces WHERE run = (SELECT run FROM fullbore_ledger.runs ORDER BY started DESC LIMIT 1)");
    assert!(after.starts_with(&before) && after != before, "{before} became {after}");
    assert_same(&database, "parted", "plain");
    let shown = files.fullbore(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("resumed: 2 pieces"), "{shown}");
    let shown = files.fullbore(&["runs", "show", "last", "--to", database.url()]).stdout;
    assert!(shown.contains("resumed: 2 pieces") && shown.contains("  finished "), "{shown}");
    let listed = files.fullbore(&["runs", "list", "--to", database.url()]).stdout;
    assert!(listed.contains("finished") && listed.contains("3 of 3 pieces"), "{listed}");
}

#[test]
fn a_signal_lets_pieces_under_way_end_and_a_second_one_does_not_wait() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (name, second) in [("-INT", false), ("-TERM", false), ("-INT", true)] {
        REPLACE.make(&database);
        let mut gate = Gate::at(&database, Moment::PieceCommits(1));
        let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
        gate.wait();
        signal(&child, name);
        if second {
            // One that the handler has surely seen: the process ends by it, not by the run.
            while child_is_alive(&child) {
                signal_if_alive(&child, name);
            }
        }
        gate.open(&database);
        let output = end_of(child);
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        let state = ledger(&database, "replaced");
        let newest = state.lines().next().expect("a run").to_owned();
        if second {
            assert!(newest == "loading|1" || newest == "loading|2", "{state}");
        } else {
            assert_eq!(newest, "loading|2", "{}", output.stderr);
            assert!(output.stderr.contains("fullbore runs resume"), "{}", output.stderr);
        }
        assert_eq!(database.psql("SELECT count(*) FROM replaced"), "0");
        assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        assert_same(&database, "replaced", "plain");
        assert_no_leftovers(&database);
    }
}

fn child_is_alive(child: &std::process::Child) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

fn signal_if_alive(child: &std::process::Child, name: &str) {
    let _ = std::process::Command::new("kill")
        .args([name, &child.id().to_string()])
        .stderr(std::process::Stdio::null())
        .status();
}

#[test]
fn two_runs_of_a_job_at_once_are_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child = files.start_load(database.url(), &file, "append", &APPEND.args());
    gate.wait();
    for args in [APPEND.args(), APPEND.resume_args()] {
        let second = files.load(&database, &file, "append", &args);
        assert_eq!(second.code, REFUSED, "{}", second.stderr);
        assert!(second.stderr.contains("already being loaded"), "{}", second.stderr);
    }
    let listed = files.fullbore(&["runs", "list", "--to", database.url()]).stdout;
    assert!(listed.contains("running"), "{listed}");
    let aborted = files.fullbore(&["runs", "abort", "last"]);
    assert_eq!(aborted.code, REFUSED, "{}", aborted.stderr);
    gate.open(&database);
    assert_loaded(&end_of(child));
    assert_same(&database, "append", "plain");
}

#[test]
fn a_client_that_was_only_thought_dead_adds_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for at in [Moment::PieceBegins(0), Moment::PieceCommits(1), Moment::Publishes] {
        REPLACE.make(&database);
        let mut gate = Gate::at(&database, at);
        let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
        gate.wait();
        signal(&child, "-STOP");
        // An administrator ends its control session, and with it the lock of the job.
        gate.terminate_control();
        // Its streams still have their transactions open, and nobody to end them.
        gate.release();
        assert_loaded(&files.load(&database, &file, "replaced", &REPLACE.resume_args()));
        assert_same(&database, "replaced", "plain");
        gate.open(&database);
        signal(&child, "-CONT");
        let output = end_of(child);
        // It finds its run in other hands; or, if it asks before it begins a piece, published.
        if output.code != 0 {
            assert_eq!(output.code, STOPPED, "{at:?}: {}", output.stderr);
            assert!(output.stderr.contains("taken over"), "{at:?}: {}", output.stderr);
        }
        assert_same(&database, "replaced", "plain");
        assert!(ledger(&database, "replaced").starts_with("finished|3"));
        assert_no_leftovers(&database);
    }
}

#[test]
fn a_changed_source_or_target_is_refused_with_what_changed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, "replaced", &REPLACE.args());
    let refused = |words: &str| {
        let output = files.load(&database, &file, "replaced", &REPLACE.resume_args());
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        for words in [words, "hint:"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    };
    database.psql("ALTER TABLE replaced ALTER n TYPE bigint");
    refused("the columns of");
    database.psql("ALTER TABLE replaced ALTER n TYPE int; ALTER TABLE replaced RENAME TO away");
    refused("does not exist");
    database.psql("CREATE TABLE replaced (LIKE away INCLUDING ALL)");
    refused("was dropped and created again");
    database.psql("DROP TABLE replaced; ALTER TABLE away RENAME TO replaced");
    let content = std::fs::read(&file).expect("read");
    let times = std::fs::metadata(&file).expect("there").modified().expect("known");
    std::fs::write(&file, &content).expect("written");
    refused("was modified since");
    files.write("big.csv", &content[..content.len() - 1]);
    refused("bytes, now");
    files.write("big.csv", &content);
    std::fs::File::options()
        .append(true)
        .open(&file)
        .expect("opened")
        .set_modified(times)
        .expect("set");
    database.psql(
        "CREATE TABLE saved AS SELECT run, pieces FROM fullbore_ledger.runs;
         UPDATE fullbore_ledger.runs SET pieces = regexp_replace(pieces, '\"end\":', '\"end\":1')
          WHERE state = 'loading'",
    );
    refused("don't cover");
    database.psql(
        "UPDATE fullbore_ledger.runs r SET pieces = s.pieces FROM saved s WHERE s.run = r.run",
    );
    // Put back as it was, it goes on; and says that it can't know whether the content is the same.
    let output = files.load(&database, &file, "replaced", &REPLACE.resume_args());
    assert_loaded(&output);
    for words in ["touched or replaced", "runs verify", "--against"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_same(&database, "replaced", "plain");
}

#[test]
fn an_abort_leaves_no_trace() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for way in [&REPLACE, &PARTITIONS, &ATOMIC, &UPSERT, &APPEND] {
        way.make(&database);
        // The ledger gets a table more once something is merged.
        let tables = "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'i', 'I')
            AND relnamespace NOT IN ('fullbore_ledger'::regnamespace, 'pg_toast'::regnamespace)";
        let before = database.psql(tables);
        files.kill_load_at(&database, Moment::PieceBegins(2), &file, way.name, &way.args());
        let aborted = files.fullbore(&["runs", "abort", "last"]);
        let kept = way.name == "append";
        assert_eq!(aborted.code, if kept { STOPPED } else { 0 }, "{}", aborted.stderr);
        assert_eq!(aborted.stderr.contains("nothing was removed"), kept, "{}", aborted.stderr);
        assert_eq!(ledger(&database, way.name), "");
        assert_eq!(database.psql(tables), before);
        assert_no_leftovers(&database);
        let resumed = files.fullbore(&["runs", "resume", "last"]);
        assert_eq!(resumed.code, REFUSED, "{}", resumed.stderr);
        assert!(resumed.stderr.contains("is not in the database's ledger"), "{}", resumed.stderr);
        database.psql(&format!("DROP TABLE {}", way.name));
    }
}
