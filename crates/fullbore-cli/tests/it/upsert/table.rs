//! What the table has of its own: triggers, generated and identity columns, defaults, other keys, other writers.

use super::{merged, upsert};
use crate::common::codes::STOPPED;
use crate::common::held::end_of;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn triggers_defaults_generated_and_identity_columns_do_what_they_do() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE TABLE log (what text, k int, v int);
         CREATE TABLE ours (k int PRIMARY KEY, v int, id int GENERATED ALWAYS AS IDENTITY,
                            twice int GENERATED ALWAYS AS (v * 2) STORED, made text DEFAULT 'new', touched int DEFAULT 0);
         CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.touched = coalesce(OLD.touched, 0) + 1; RETURN NEW; END $$;
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO log VALUES (TG_OP, NEW.k, NEW.v); RETURN NULL; END $$;
         CREATE TRIGGER touch BEFORE UPDATE ON ours FOR EACH ROW EXECUTE FUNCTION touch();
         CREATE TRIGGER note AFTER INSERT OR UPDATE ON ours FOR EACH ROW EXECUTE FUNCTION note();
         INSERT INTO ours (k, v, made) VALUES (1, 1, 'old'), (2, 2, 'old'); TRUNCATE log",
    );
    let file = files.write("a.csv", "k,v\n1,10\n2,2\n3,30\n3,31\n");
    let output = upsert(&files, &database, &[&file], &["--verify", "full"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let rows = database.psql("SELECT * FROM ours ORDER BY k");
    assert_eq!(rows, "1|10|1|20|old|1\n2|2|2|4|old|0\n3|31|3|62|new|0");
    assert_eq!(database.psql("SELECT * FROM log ORDER BY k"), "UPDATE|1|10\nINSERT|3|31");
}

#[test]
fn a_key_alone_is_inserted_once() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (k text PRIMARY KEY); INSERT INTO ours VALUES ('b')");
    let file = files.write("a.csv", "k\na\nb\na\n");
    let output = upsert(&files, &database, &[&file], &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "a\nb");
}

#[test]
fn texts_are_one_key_where_their_column_says_so() {
    // The embedded server has no ICU.
    let cluster = shared_or_skip!(TestServer::Debian15);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE ours (k text COLLATE alike PRIMARY KEY, v int); INSERT INTO ours VALUES ('Ann', 1)",
    );
    let file = files.write("a.csv", "k,v\nANN,2\nbob,3\nBob,4\n");
    let output = upsert(&files, &database, &[&file], &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours ORDER BY v"), "Ann|2\nBob|4");
}

#[test]
fn a_row_that_another_key_refuses_stops_the_merge_and_it_goes_on_once_mended() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let file = "k,parent\n1,1\n2,2\n3,9\n";
    for atomic in [false, true] {
        let files = Files::new();
        database.psql(
            "DROP TABLE IF EXISTS ours, parents; CREATE TABLE parents (id int PRIMARY KEY);
             INSERT INTO parents VALUES (1), (2);
             CREATE TABLE ours (k int PRIMARY KEY, parent int REFERENCES parents)",
        );
        let file = files.write("a.csv", file);
        let args = ["--if-loaded", "again", "--atomic"];
        let args = if atomic { &args[..] } else { &args[..2] };
        let output = upsert(&files, &database, &[&file], args);
        assert!(output.stderr.contains("violates foreign key"), "{}", output.stderr);
        if atomic {
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
            assert_no_leftovers(&database);
            continue;
        }
        assert_eq!(output.code, STOPPED, "{}", output.stderr);
        assert!(output.stderr.contains("rows that were merged before stay"), "{}", output.stderr);
        database.psql("INSERT INTO parents VALUES (9)");
        let run = database.psql("SELECT run FROM fullbore_ledger.runs WHERE state = 'loading'");
        let output = files.fullbore(&["runs", "resume", &run, "--to", database.url()]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(merged(&output), "3 inserted, 0 updated, 0 unchanged");
        assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "1|1\n2|2\n3|9");
        assert_no_leftovers(&database);
    }
}

#[test]
fn a_row_that_another_unique_key_refuses_is_told_as_such() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    for atomic in [&[][..], &["--atomic"]] {
        let files = Files::new();
        database.psql(
            "DROP TABLE IF EXISTS ours; CREATE TABLE ours (k int PRIMARY KEY, mail text UNIQUE);
             INSERT INTO ours VALUES (1, 'a@b')",
        );
        let file = files.write("a.csv", "k,mail\n2,a@b\n");
        let args = [&["--key", "k", "--if-loaded", "again"], atomic].concat();
        let output = upsert(&files, &database, &[&file], &args);
        assert_ne!(output.code, 0, "{}", output.stderr);
        assert!(output.stderr.contains("duplicate key value"), "{}", output.stderr);
        assert!(!output.stderr.contains("no lock within"), "{}", output.stderr);
    }
}

/// Loads of the same keys, and an application that writes them too: nobody is ended by a deadlock.
#[test]
fn loads_side_by_side_do_not_lock_each_other_out() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE ours (k int PRIMARY KEY, v int, w int)");
    let rounds = if std::env::var_os("FULLBORE_TEST_ALL").is_some() { 200 } else { 3 };
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    for round in 0..rounds {
        let sources: Vec<String> = (0..4)
            .map(|load| {
                let keys = (0..400).map(|k| (k * (2 * load + 3)) % 401);
                let lines: String = keys.map(|k| format!("{k},{load},{round}\n")).collect();
                files.write(&format!("{load}.csv"), format!("k,v,w\n{lines}"))
            })
            .collect();
        let args = [
            "--publish",
            "upsert",
            "--streams",
            "4",
            "--statistics",
            "none",
            "--if-loaded",
            "again",
        ];
        let loads: Vec<_> = sources
            .iter()
            .map(|source| files.start_load(database.url(), source, "ours", &args))
            .collect();
        for load in loads {
            let output = end_of(load);
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
        let rows = database.psql("SELECT count(*), count(DISTINCT v), min(w), max(w) FROM ours");
        let expected = format!("401|{}|{round}|{round}", rows.split('|').nth(1).expect("a count"));
        assert_eq!(rows, expected);
    }
    assert_eq!(database.psql(deadlocks), "0");
}
