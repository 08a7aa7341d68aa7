//! Locks that others hold are waited for in bounded attempts, between which readers pass, and whoever is in
//! the way is named.

use crate::common::codes::STOPPED;
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

use crate::common;
use crate::common::held::{Held, Load, session};
use crate::common::moments::assert_loaded;
use crate::common::ways::{ATOMIC, PARTITIONS, REPLACE, UPSERT, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

/// A transaction that has read a table and stays open, of a client with a name.
fn reader(database: &TestDatabase<'_>, table: &str) -> Held {
    let sql = format!("SET LOCAL application_name = 'slow report'; SELECT count(*) FROM {table}");
    Held::begin(database.url(), &sql)
}

/// Others read a table, however long a load waits for it.
fn assert_readable(database: &TestDatabase<'_>, table: &str) {
    let mut other = session(database.url());
    other.execute("SET statement_timeout = '30s'").expect("set");
    other.execute(&format!("SELECT count(*) FROM {table}")).expect("readers pass");
}

#[test]
fn readers_pass_while_a_swap_waits_for_one_of_them() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        REPLACE.make(&database);
        let reader = reader(&database, "replaced");
        let mut load =
            Load::begin(&database, &files, &file, &REPLACE, &["--lock-timeout", "300ms"]);
        let line = load.wait_for("waits for a lock");
        for words in [
            "publishing replaced waits for a lock held by process ",
            "user postgres, application slow report, idle in transaction for ",
            "at most 300ms an attempt and 120s in all",
        ] {
            assert!(line.contains(words), "{line} lacks {words}");
        }
        for _ in 0..5 {
            assert_readable(&database, "replaced");
        }
        reader.release();
        let (code, said) = load.end();
        assert_eq!(code, 0, "{said}");
        assert_same(&database, "replaced", "plain");
        let shown = files.fullbore(&["runs", "show", "last"]).stdout;
        assert!(shown.contains("waits for a lock held by"), "{shown}");
    }
}

#[test]
fn a_swap_that_gets_no_lock_is_given_up_and_published_by_a_resume() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    // What is in the way of each: a reader, a writer's lock, a reader.
    for (way, lock) in [
        (&REPLACE, "SELECT FROM replaced"),
        (&ATOMIC, "LOCK TABLE atomic IN SHARE MODE"),
        (&UPSERT, "LOCK TABLE upserted IN SHARE MODE"),
        (&PARTITIONS, "LOCK TABLE parted IN SHARE UPDATE EXCLUSIVE MODE"),
    ] {
        way.make(&database);
        // Partitions are tried before a row moves, too: there the lock must come later.
        let mut gate =
            common::moments::Gate::at(&database, common::moments::Moment::PieceBegins(2));
        let limits = ["--lock-timeout", "100ms", "--retry-for", "1"];
        let load = Load::begin(&database, &files, &file, way, &limits);
        gate.wait();
        let held = Held::begin(database.url(), lock);
        gate.open(&database);
        let (code, said) = load.end();
        assert_eq!(code, STOPPED, "{said}");
        for words in
            ["no lock within", "it is held by process", "fullbore runs resume", "publishes it"]
        {
            assert!(said.contains(words), "{said} lacks {words}");
        }
        assert_eq!(database.psql(&format!("SELECT count(*) FROM {}", way.name)), "0");
        held.release();
        assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
    }
}

#[test]
fn without_a_bound_a_swap_waits_until_it_is_its_turn() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let reader = reader(&database, "replaced");
    let limits = ["--lock-timeout", "0", "--retry-for", "0"];
    let mut load = Load::begin(&database, &files, &file, &REPLACE, &limits);
    let line = load.wait_for("waits for a lock");
    assert!(line.contains("without limit (--lock-timeout 0)"), "{line}");
    reader.release();
    let (code, said) = load.end();
    assert_eq!(code, 0, "{said}");
    assert_same(&database, "replaced", "plain");
}

#[test]
fn new_partitions_are_tried_without_keeping_readers_waiting() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    PARTITIONS.make(&database);
    database.psql("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (5000)");
    let reader = reader(&database, "parted");
    let mut load = Load::begin(&database, &files, &file, &PARTITIONS, &["--lock-timeout", "200ms"]);
    let line = load.wait_for("waits for a lock");
    assert!(line.contains("trying the new partitions of"), "{line}");
    assert_readable(&database, "parted");
    reader.release();
    let (code, said) = load.end();
    assert_eq!(code, 0, "{said}");
    assert_same(&database, "parted", "plain");
}

#[test]
fn an_undo_does_not_keep_readers_waiting() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    PARTITIONS.make(&database);
    assert_loaded(&files.load(&database, &file, "parted", &PARTITIONS.args()));
    let reader = reader(&database, "parted");
    let undo = files.start(&["runs", "undo", "last"]);
    let mut watcher = session(database.url());
    let pid = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'parted'::regclass";
    common::held::wait_for("undo that waits", || !watcher.query(pid).expect("asked").is_empty());
    assert_readable(&database, "parted");
    reader.release();
    let output = common::held::end_of(undo);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM parted"), "0");
}

#[test]
fn a_reader_that_wants_to_write_is_not_ended_by_a_swap() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    database.psql("INSERT INTO replaced VALUES (1, 1, 'old')");
    for timeout in ["100ms", "5s"] {
        let mut other = reader(&database, "replaced");
        let limits = ["--lock-timeout", timeout];
        let mut load = Load::begin(&database, &files, &file, &REPLACE, &limits);
        load.wait_for("waits for a lock");
        // It waits for the load, which waits for it: the load gives way.
        other.session().execute("UPDATE replaced SET v = 'newer'").expect("it is not ended");
        other.release();
        let (code, said) = load.end();
        assert_eq!(code, STOPPED, "{said}");
        assert!(
            said.contains("1 row of \"public\".\"replaced\" was inserted or updated"),
            "{said}"
        );
        files.fullbore(&["runs", "abort", "last"]);
    }
}

#[test]
fn settings_of_the_role_do_not_end_a_load() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let role = format!("hasty_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER;
         ALTER ROLE {role} SET lock_timeout = '20ms'; ALTER ROLE {role} SET statement_timeout = '1s'"
    ));
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    for more in [&[][..], &["--no-ledger"]] {
        database.psql("DROP TABLE IF EXISTS append; CREATE TABLE append (k bigint, n int, v text)");
        let mut held = Held::lock(&url, "append");
        let args = [&["--header", "none", "--streams", "1"][..], more].concat();
        let load = Load::of(files.start_load(&url, &file, "append", &args));
        held.wait_for_load();
        // Longer than either setting allows.
        held.session()
            .execute("SET LOCAL statement_timeout = 0; SELECT pg_sleep(1.2)")
            .expect("slept");
        held.release();
        let (code, said) = load.end();
        assert_eq!(code, 0, "{said}");
        assert_same(&database, "append", "plain");
    }
    database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn waits_that_could_not_be_are_refused() {
    let files = Files::new();
    let file = files.write("few.csv", "1,2\n");
    for (args, words) in [
        (&["--lock-timeout", "5s"][..], "--lock-timeout applies only to atomic publishing"),
        (&["--replace-anyway"], "--replace-anyway applies only to --publish replace"),
        (&["--lock-writers"], "--lock-writers applies only to --publish replace"),
        (&["--lock-timeout", "5"], "not a time such as 2s or 500ms"),
        (&["--publish", "replace", "--lock-writers", "--replace-anyway"], "cannot be used with"),
    ] {
        let all = [&["load", &file, "--to", "postgresql://nowhere/x"][..], args].concat();
        let output = files.fullbore(&all);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    let job = files.write(
        "job.toml",
        "lock_timeout = \"1s\"\nlock_writers = true\nreplace_anyway = true\n[[table]]\nname = \"t\"\n\
         sources = [\"few.csv\"]\npublish = \"replace\"\n",
    );
    let output = files.fullbore(&["load", &job, "--to", "postgresql://nowhere/x"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("has no effect with --lock-writers"), "{}", output.stderr);
}
