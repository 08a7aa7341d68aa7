//! Identity columns that are not in the files are filled by their sequence, whatever the way.

use crate::common::moments::assert_loaded;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, extended_or_skip, shared_or_skip, wanted};

const WITH_REJECTS: i32 = 3;

fn rows(count: u32) -> String {
    (0..count).map(|k| format!("{k},x\n")).collect()
}

const ARGS: [&str; 4] = ["--header", "none", "--columns", "a,v"];

#[test]
fn rows_that_wait_to_be_shown_get_their_numbers_as_they_are() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("t.csv", rows(100));
        let bad = files.write("bad.csv", format!("{}oops,x\n", rows(100)));
        for kind in ["ALWAYS", "BY DEFAULT"] {
            for more in [&[][..], &["--atomic"], &["--max-rejects", "100%"]] {
                database.psql(&format!(
                    "DROP TABLE IF EXISTS t; CREATE TABLE t (
                         id bigint GENERATED {kind} AS IDENTITY PRIMARY KEY, a int NOT NULL, v text)"
                ));
                assert_loaded(&files.load(&database, &file, "t", &[&ARGS[..], more].concat()));
                assert_eq!(
                    database.psql("SELECT count(*), count(DISTINCT id), sum(a) FROM t"),
                    "100|100|4950"
                );
            }
            let output =
                files.load(&database, &bad, "t", &[&ARGS[..], &["--max-rejects", "1"]].concat());
            assert_eq!(output.code, WITH_REJECTS, "{}", output.stderr);
            assert_eq!(database.psql("SELECT count(*), count(DISTINCT id) FROM t"), "200|200");
            // One that is in the files must have a value, as ever.
            let given = files.write("given.csv", "1000,1,x\n,2,x\n");
            let args = ["--header", "none", "--max-rejects", "1", "--reject-dir", "given"];
            let output = files.load(&database, &given, "t", &args);
            assert_eq!(output.code, WITH_REJECTS, "{}", output.stderr);
            assert_eq!(database.psql("SELECT max(id) FROM t"), "1000");
            for name in ["given", "."] {
                let old = std::fs::read_dir(files.path(name)).expect("listed").flatten();
                for entry in old.filter(|e| e.file_name().to_string_lossy().contains("reject")) {
                    std::fs::remove_file(entry.path()).expect("removed");
                }
            }
        }
        assert_no_leftovers(&database);
    }
}

#[test]
fn partitions_take_their_numbers_from_the_sequence_of_the_whole() {
    for server in wanted([TestServer::Embedded18, TestServer::Debian15]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("t.csv", rows(1000));
        database.psql(
            "CREATE TABLE t (\"the id\" bigint GENERATED ALWAYS AS IDENTITY, a int NOT NULL, v text)
                 PARTITION BY RANGE (a)",
        );
        let more = ["--publish", "partitions", "--partition-bounds", "0,300,600,2000"];
        for bad in ["", "1500,x,y\n1501,x\n"] {
            let (file, code) = match bad {
                "" => (file.clone(), 0),
                bad => {
                    database.psql(
                        "TRUNCATE t; DO $$ DECLARE p regclass; BEGIN
                        FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 't'::regclass
                        LOOP EXECUTE format('DROP TABLE %s', p); END LOOP; END $$",
                    );
                    (files.write("bad.csv", rows(1000) + bad), WITH_REJECTS)
                }
            };
            let limit = ["--max-rejects", "1"];
            let output = files.load(&database, &file, "t", &[&ARGS[..], &more, &limit].concat());
            assert_eq!(output.code, code, "{}", output.stderr);
            let loaded = if code == 0 { "1000" } else { "1001" };
            assert_eq!(
                database.psql("SELECT count(*), count(DISTINCT \"the id\") FROM t"),
                format!("{loaded}|{loaded}")
            );
            // What was borrowed is given back.
            assert_eq!(
                database.psql("SELECT count(*) FROM pg_attrdef WHERE adrelid IN
                                   (SELECT inhrelid FROM pg_inherits WHERE inhparent = 't'::regclass)"),
                "0"
            );
        }
        assert_no_leftovers(&database);
    }
}

/// Rows that are laid out here have no room for what only the server knows.
#[test]
fn the_direct_method_fills_them_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let file = files.write("t.csv", rows(1000));
    for method in ["auto", "direct"] {
        database.psql(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (
                 id bigint GENERATED ALWAYS AS IDENTITY, a int NOT NULL, v text)
                 PARTITION BY RANGE (a)",
        );
        let more = ["--publish", "partitions", "--method", method];
        assert_loaded(&files.load(&database, &file, "t", &[&ARGS[..], &more].concat()));
        assert_eq!(database.psql("SELECT count(*), count(DISTINCT id) FROM t"), "1000|1000");
    }
    assert_no_leftovers(&database);
}
