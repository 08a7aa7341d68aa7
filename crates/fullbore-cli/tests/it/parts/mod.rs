//! Loads that several hosts make together: each has its own folder, files and state.

mod agree;

use crate::common::codes::{FAILED, REFUSED, STOPPED};
use crate::common::ways::{PIECE_SIZE, rows};
use std::process::Child;

use crate::common::held::{end_of, session};
use crate::common::moments::{Gate, Moment, assert_loaded, kill};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::{Output, TestDatabase, TestServer, extended_or_skip, shared_or_skip};

const HOSTS: usize = 3;

/// Hosts with a file each, of three pieces, one after the other in the order of the key; and a table
/// with the same rows as plain COPY loads them.
struct Hosts {
    files: Vec<(Files, String)>,
}

impl Hosts {
    fn new(database: &TestDatabase<'_>) -> Self {
        database.psql("CREATE TABLE plain (k bigint, n int, v text)");
        let files = (0..HOSTS)
            .map(|host| {
                let files = Files::new();
                let first = host as u32 * 25_000;
                let file = files.write("rows.csv", rows(first..first + 25_000));
                files.cut_into(PIECE_SIZE);
                database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
                (files, file)
            })
            .collect();
        Self { files }
    }

    fn args<'a>(&'a self, part: &'a str, publish: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["--header", "none", "--streams", "1", "--part", part];
        args.extend(publish);
        args
    }

    fn load(
        &self,
        database: &TestDatabase<'_>,
        host: usize,
        part: &str,
        publish: &[&str],
    ) -> Output {
        let (files, file) = &self.files[host];
        files.load(database, file, "together", &self.args(part, publish))
    }

    fn start(
        &self,
        database: &TestDatabase<'_>,
        host: usize,
        part: &str,
        publish: &[&str],
    ) -> Child {
        let (files, file) = &self.files[host];
        files.start_load(database.url(), file, "together", &self.args(part, publish))
    }
}

fn make(database: &TestDatabase<'_>, publish: &[&str]) {
    let tail = if publish.contains(&"partitions") { "PARTITION BY RANGE (k)" } else { "" };
    database.psql(&format!(
        "DROP TABLE IF EXISTS together;
         CREATE TABLE together (k bigint PRIMARY KEY, n int, v text) {tail};
         CREATE INDEX ON together (n)"
    ));
}

fn assert_together(database: &TestDatabase<'_>) {
    assert_same(database, "together", "plain");
    assert_no_leftovers(database);
    let states = database.psql("SELECT state, count(*) FROM fullbore_ledger.runs GROUP BY state");
    assert_eq!(states, "finished|3");
    assert_eq!(database.psql("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), "0");
}

const REPLACE: &[&str] = &["--publish", "replace"];
const ATOMIC: &[&str] = &["--atomic"];
const APPEND: &[&str] = &["--publish", "append"];
const PARTITIONS: &[&str] = &["--publish", "partitions"];

#[test]
fn the_last_part_shows_the_rows_of_all() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    let direct = ["--publish", "partitions", "--method", "direct"];
    for publish in [REPLACE, ATOMIC, APPEND, PARTITIONS, &direct] {
        if publish == direct {
            database.psql("CREATE EXTENSION fullbore");
        }
        make(&database, publish);
        for (host, part) in [(1, "2/3"), (2, "3/3")] {
            let output = hosts.load(&database, host, part, publish);
            assert_loaded(&output);
            assert!(output.stderr.contains(&format!("part {part} is loaded")), "{}", output.stderr);
            assert!(output.stderr.contains("part 1/3: not begun"), "{}", output.stderr);
            if publish != APPEND {
                assert_eq!(database.psql("SELECT count(*) FROM together"), "0", "{publish:?}");
            }
        }
        let output = hosts.load(&database, 0, "1/3", publish);
        assert_loaded(&output);
        assert!(!output.stderr.contains("is loaded;"), "{}", output.stderr);
        assert_together(&database);
        database.psql("DELETE FROM fullbore_ledger.runs");
    }
}

#[test]
fn parts_at_once_publish_once() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    for publish in [REPLACE, PARTITIONS] {
        make(&database, publish);
        let parts = ["1/3", "2/3", "3/3"];
        let children: Vec<Child> = parts
            .iter()
            .enumerate()
            .map(|(host, part)| hosts.start(&database, host, part, publish))
            .collect();
        children.into_iter().for_each(|child| assert_loaded(&end_of(child)));
        assert_together(&database);
        // The same again is another load, since nobody asked for --resume.
        assert_loaded(&hosts.files[0].0.fullbore(&["runs", "list", "--to", database.url()]));
        database.psql("DELETE FROM fullbore_ledger.runs");
    }
}

#[test]
fn a_killed_part_is_gone_on_with() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    // A ledger, for the gate.
    make(&database, REPLACE);
    assert_loaded(&hosts.load(&database, 0, "1/1", REPLACE));
    for publish in [REPLACE, ATOMIC, PARTITIONS] {
        for at in [Moment::PieceBegins(1), Moment::PieceCommits(1)] {
            database.psql("DELETE FROM fullbore_ledger.runs");
            make(&database, publish);
            assert_loaded(&hosts.load(&database, 0, "1/3", publish));
            let mut gate = Gate::at(&database, at);
            let child = hosts.start(&database, 1, "2/3", publish);
            gate.wait();
            kill(child);
            gate.open(&database);
            let last = hosts.load(&database, 2, "3/3", publish);
            assert_loaded(&last);
            assert!(last.stderr.contains("part 2/3: not loaded yet"), "{}", last.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM together"), "0");
            let (files, _) = &hosts.files[1];
            let early = hosts.files[2].0.fullbore(&["runs", "publish", "last"]);
            assert_eq!(early.code, REFUSED, "{}", early.stderr);
            assert!(early.stderr.contains("not all parts are loaded"), "{}", early.stderr);
            assert_loaded(&files.fullbore(&["runs", "resume", "last"]));
            assert_together(&database);
            let again = hosts.files[1].0.fullbore(&["runs", "resume", "last"]);
            assert_loaded(&again);
            assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
        }
    }
}

#[test]
fn a_publish_that_was_killed_is_made_by_any_host() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    make(&database, REPLACE);
    assert_loaded(&hosts.load(&database, 0, "1/1", REPLACE));
    for publish in [REPLACE, PARTITIONS] {
        database.psql("DELETE FROM fullbore_ledger.runs");
        make(&database, publish);
        assert_loaded(&hosts.load(&database, 0, "1/3", publish));
        assert_loaded(&hosts.load(&database, 1, "2/3", publish));
        let mut gate = Gate::at(&database, Moment::Publishes);
        let child = hosts.start(&database, 2, "3/3", publish);
        gate.wait();
        kill(child);
        gate.open(&database);
        assert_loaded(&hosts.files[0].0.fullbore(&["runs", "publish", "last"]));
        assert_together(&database);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    make(&database, REPLACE);
    assert_loaded(&hosts.load(&database, 0, "1/3", REPLACE));
    let refused = |host, part, publish: &[&str], words: &str| {
        let output = hosts.load(&database, host, part, publish);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        for words in [words, "hint:"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    };
    refused(1, "1/3", REPLACE, "--part 1/3 already exists");
    refused(1, "2/4", REPLACE, "has 3 parts");
    refused(1, "2/3", ATOMIC, "another load in parts into");
    refused(1, "2/3", &["--publish", "replace", "--method", "direct"], "only one session");
    let abort = hosts.files[0].0.fullbore(&["runs", "undo", "last"]);
    assert_eq!(abort.code, REFUSED, "{}", abort.stderr);
    // A part with other files than before is no resume.
    hosts.files[0].0.write("rows.csv", "1,1,x\n");
    let (files, file) = &hosts.files[0];
    let mut args = hosts.args("1/3", REPLACE);
    args.push("--resume");
    let output = files.load(&database, file, "together", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("its sources changed"), "{}", output.stderr);
    // Nor one without them.
    std::fs::remove_file(file).expect("removed");
    let output = files.load(&database, file, "together", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    for words in ["can't be resumed", "can't read", "rows.csv", "fullbore runs abort"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}

#[test]
fn ranges_that_overlap_are_refused_before_a_row_moves() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    make(&database, PARTITIONS);
    assert_loaded(&hosts.load(&database, 0, "1/2", PARTITIONS));
    // The same keys again.
    hosts.files[1].0.write("rows.csv", "17,1,x\n18,2,y\n");
    let output = hosts.load(&database, 1, "2/2", PARTITIONS);
    assert_ne!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("overlap"), "{}", output.stderr);
    let runs = database.psql(
        "SELECT part, state FROM fullbore_ledger.parts JOIN fullbore_ledger.runs USING (run)",
    );
    assert_eq!(runs, "1|loading");
}

#[test]
fn hosts_whose_keys_take_turns_make_partitions() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE plain (k bigint, n int, v text)");
    make(&database, PARTITIONS);
    let hosts = [Files::new(), Files::new()];
    // Small files, which one host alone would put together.
    for turn in 0..6 {
        let rows: String = (turn * 100..(turn + 1) * 100).map(|k| format!("{k},1,x\n")).collect();
        let file = hosts[turn % 2].write(&format!("rows{turn}.csv"), rows);
        database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
    }
    for (files, part) in hosts.iter().zip(["1/2", "2/2"]) {
        let all = files.path("rows*.csv").display().to_string();
        let mut args = vec!["--header", "none", "--part", part];
        args.extend(PARTITIONS);
        assert_loaded(&files.load(&database, &all, "together", &args));
    }
    assert_same(&database, "together", "plain");
    assert_eq!(database.psql("SELECT count(*) FROM fullbore_ledger.pieces"), "6");
    assert_no_leftovers(&database);
}

#[test]
fn an_abort_takes_all_parts_back() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    for publish in [REPLACE, ATOMIC, PARTITIONS, APPEND] {
        make(&database, publish);
        assert_loaded(&hosts.load(&database, 0, "1/3", publish));
        assert_loaded(&hosts.load(&database, 1, "2/3", publish));
        let aborted = hosts.files[1].0.fullbore(&["runs", "abort", "last"]);
        let kept = publish == APPEND;
        assert_eq!(aborted.code, if kept { STOPPED } else { 0 }, "{}", aborted.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM fullbore_ledger.runs"), "0");
        let left = database.psql("SELECT count(*) FROM together");
        assert_eq!(left, if kept { "50000" } else { "0" });
        assert_no_leftovers(&database);
    }
}

#[test]
fn what_a_crash_took_of_a_loaded_part_is_not_left_out() {
    let cluster = fullbore_testing::start_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    make(&database, ATOMIC);
    assert_loaded(&hosts.load(&database, 0, "1/2", ATOMIC));
    // Where rows wait for `append --atomic`, a crash empties the table.
    cluster.crash_and_restart();
    let output = hosts.load(&database, 1, "2/2", ATOMIC);
    assert_loaded(&output);
    assert!(output.stderr.contains("part 1/2: lost in a crash"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM together"), "0");
    assert_loaded(&hosts.files[0].0.fullbore(&["runs", "resume", "last"]));
    assert_eq!(database.psql("SELECT count(*) FROM together"), "50000");
    assert_no_leftovers(&database);
}

#[test]
fn what_an_abort_could_not_drop_is_not_loaded_into() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let hosts = Hosts::new(&database);
    let abort = || hosts.files[0].0.fullbore(&["runs", "abort", "last"]);
    database.psql(&format!("ALTER DATABASE {} SET lock_timeout = '1s'", database.name()));
    for publish in [REPLACE, ATOMIC] {
        make(&database, publish);
        assert_loaded(&hosts.load(&database, 0, "1/3", publish));
        let staging = database.psql("SELECT relname FROM pg_class WHERE relname ~ '_fb_.*_new$'");
        let mut reader = session(database.url());
        reader
            .execute(&format!("BEGIN; LOCK TABLE \"{staging}\" IN ACCESS SHARE MODE"))
            .expect("read");
        let aborted = abort();
        assert_eq!(aborted.code, FAILED, "{}", aborted.stderr);
        assert!(aborted.stderr.contains(&staging), "{}", aborted.stderr);
        // The ledger still knows what those rows are of.
        for part in ["1/3", "2/3"] {
            let refused = hosts.load(&database, 0, part, publish);
            assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
            assert!(refused.stderr.contains("fullbore runs abort"), "{}", refused.stderr);
        }
        reader.execute("COMMIT").expect("read");
        // By its own id: those that were refused came to nothing.
        let run = database.psql("SELECT run FROM fullbore_ledger.runs");
        assert_loaded(&hosts.files[0].0.fullbore(&["runs", "abort", &run]));
        assert_no_leftovers(&database);
        // A table of that name that nobody knows of, as an abort once could leave.
        assert_loaded(&hosts.load(&database, 0, "1/3", publish));
        database.psql("DELETE FROM fullbore_ledger.runs");
        for (host, part) in ["1/3", "2/3", "3/3"].into_iter().enumerate() {
            assert_loaded(&hosts.load(&database, host, part, publish));
        }
        assert_together(&database);
        database.psql("DELETE FROM fullbore_ledger.runs");
    }
}
