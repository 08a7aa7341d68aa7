//! Connections that are not to be had: fewer streams load the same, and one that is lost is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fullbore_pgwire::{ConnectionOptions, Environment, Session};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, start_or_skip, wanted};

use crate::common::held::{end_of, wait_for};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{APPEND, REPLACE, prepared};
use crate::common::{Files, assert_no_leftovers, assert_same};

/// A role that may have so many connections and owns the table of a way, and a URL that logs in as it.
fn limited(database: &TestDatabase<'_>, limit: usize) -> (String, String) {
    let role = format!("few_{}", database.name());
    database.psql(&format!(
        "DROP TABLE IF EXISTS append; CREATE TABLE append (k bigint PRIMARY KEY, n int, v text);
         CREATE ROLE {role} LOGIN CONNECTION LIMIT {limit};
         ALTER TABLE append OWNER TO {role}; GRANT ALL ON SCHEMA public TO {role};
         GRANT CREATE ON DATABASE {} TO {role}",
        database.name()
    ));
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    (role, url)
}

#[test]
fn a_role_with_few_connections_loads_by_fewer_streams() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        let (role, url) = limited(&database, 3);
        let plan = |more: &[&str]| {
            let args = ["plan", &file, "--to", &url, "--table", "append", "--header", "none"];
            let planned = files.fullbore(&[&args[..], more].concat());
            assert_loaded(&planned);
            planned.stdout
        };
        // One is the session of the plan itself, one watches.
        let words =
            format!("role {role:?} is limited to 3 connections (CONNECTION LIMIT), 1 in use");
        let said = plan(&[]);
        assert!(said.contains(&words) && said.contains("over 1 stream,"), "{said}");
        let said = plan(&["--streams", "6"]);
        assert!(said.contains(&words) && said.contains("6 streams were requested"), "{said}");

        for streams in ["auto", "6"] {
            database.psql("TRUNCATE append");
            let args = ["--header", "none", "--streams", streams, "--statistics=none"];
            assert_loaded(&files.load_at(&url, &file, "append", &args));
            assert_same(&database, "append", "plain");
        }
        database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    }
}

#[test]
fn whose_limit_it_is_is_said() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    let (role, url) = limited(&database, 1);
    let args = ["--header", "none", "--retry-for", "1"];
    let output = files.load_at(&url, &file, "append", &args);
    assert_ne!(output.code, 0, "{}", output.stderr);
    for words in ["too many connections for role", "the role's own limit", "CONNECTION LIMIT"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    database.psql(&format!(
        "ALTER ROLE {role} CONNECTION LIMIT -1; ALTER DATABASE {} CONNECTION LIMIT 0",
        database.name()
    ));
    let output = files.load_at(&url, &file, "append", &args);
    assert_ne!(output.code, 0, "{}", output.stderr);
    for words in ["too many connections for database", "the database's own limit"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// Takes every connection that there is, until it is told to let them go.
fn take_all(url: &str, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let options = ConnectionOptions::resolve(Some(url), &Environment::empty()).expect("a URL");
    let is_over = is_over.clone();
    std::thread::spawn(move || {
        let mut taken = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            match Session::connect(&options) {
                Ok(session) => taken.push(session),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    })
}

#[test]
fn a_connection_that_others_took_is_waited_for() {
    let settings = [("max_connections", "14"), ("superuser_reserved_connections", "0")];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    for (way, at) in [
        (&APPEND, Moment::PieceBegins(1)),
        (&APPEND, Moment::PieceCommits(2)),
        (&REPLACE, Moment::PieceCommits(1)),
        (&REPLACE, Moment::Publishes),
        (&REPLACE, Moment::PublishCommits),
    ] {
        println!("{} at {at:?}", way.name);
        way.make(&database);
        let mut gate = Gate::at(&database, at);
        let args = [&way.args()[..], &["--retry-for", "40"]].concat();
        let child = files.start_load(database.url(), &file, way.name, &args);
        gate.wait();
        let is_over = Arc::new(AtomicBool::new(false));
        let others = take_all(database.url(), &is_over);
        std::thread::sleep(Duration::from_millis(500));
        gate.terminate_waiting();
        gate.release();
        std::thread::sleep(Duration::from_secs(3));
        is_over.store(true, Ordering::Relaxed);
        others.join().expect("it ends");
        let output = end_of(child);
        assert_loaded(&output);
        // Backends of the others may be ending still.
        wait_for("connection", || database.try_psql("SELECT 1").is_ok());
        gate.open(&database);
        assert_same(&database, way.name, "plain");
        assert_no_leftovers(&database);
        database.psql(&format!("DROP TABLE {}", way.name));
    }
}
