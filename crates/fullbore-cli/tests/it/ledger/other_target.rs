//! `--resume` where the job was done before, but not for this table.

use crate::common::codes::REFUSED;
use crate::common::moments::assert_loaded;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};

const ARGS: [&str; 4] = ["--header", "none", "--statistics=none", "--resume"];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ARGS[..], more].concat()
}

fn assert_nothing_to_do(output: &Output) {
    assert_loaded(output);
    assert!(output.stderr.contains("nothing to do"), "{}", output.stderr);
}

fn count(database: &TestDatabase<'_>, table: &str) -> String {
    database.psql(&format!("SELECT count(*) FROM {table}"))
}

#[test]
fn each_schema_of_a_search_path_is_a_target_of_its_own() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for publish in ["append", "replace", "partitions"] {
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("a.csv", "1\n2\n3\n");
        let tail = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
        let url = |tenant: &str| format!("{}&options=-csearch_path%3D{tenant}", database.url());
        let args = args(&["--publish", publish]);
        let tenants = ["tenant1", "tenant2"];
        for tenant in tenants {
            database.psql(&format!(
                "CREATE SCHEMA {tenant}; CREATE TABLE {tenant}.t (k bigint) {tail}"
            ));
            let output = files.load_at(&url(tenant), &file, "t", &args);
            assert_loaded(&output);
            assert!(!output.stderr.contains("nothing to do"), "{publish}: {}", output.stderr);
        }
        // Each is known to be done, whichever was loaded last.
        for tenant in tenants {
            assert_nothing_to_do(&files.load_at(&url(tenant), &file, "t", &args));
            assert_eq!(count(&database, &format!("{tenant}.t")), "3", "{publish}");
        }
        assert_no_leftovers(&database);
    }
}

#[test]
fn a_table_that_was_made_anew_is_not_taken_for_the_one_that_was_loaded() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for publish in ["append", "replace", "partitions"] {
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("a.csv", "1\n2\n3\n");
        let tail = if publish == "partitions" { "PARTITION BY RANGE (k)" } else { "" };
        let make = format!("CREATE TABLE t (k bigint) {tail}");
        let args = args(&["--publish", publish]);
        database.psql(&make);
        assert_loaded(&files.load(&database, &file, "t", &args));
        // A swap of our own is no change.
        assert_nothing_to_do(&files.load(&database, &file, "t", &args));
        database.psql(&format!("DROP TABLE t; {make}"));
        let refused = files.load(&database, &file, "t", &args);
        assert_eq!(refused.code, REFUSED, "{publish}: {}", refused.stderr);
        for words in ["was dropped and created again", "hint:", "omit --resume"] {
            assert!(refused.stderr.contains(words), "{} lacks {words}", refused.stderr);
        }
        assert_eq!(count(&database, "t"), "0");
        let without: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--resume").collect();
        assert_loaded(&files.load(&database, &file, "t", &without));
        assert_nothing_to_do(&files.load(&database, &file, "t", &args));
        assert_eq!(count(&database, "t"), "3");
    }
}

#[test]
fn a_table_that_is_gone_is_loaded_again() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "1\n2\n3\n");
    let create = args(&["--create"]);
    assert_loaded(&files.load(&database, &file, "t", &create));
    assert_nothing_to_do(&files.load(&database, &file, "t", &create));
    database.psql("DROP TABLE t");
    let again = files.load(&database, &file, "t", &create);
    assert_loaded(&again);
    assert!(again.stderr.contains("no longer exists"), "{}", again.stderr);
    assert_eq!(count(&database, "t"), "3");
    // What was published and only lacks its end is held to its target too.
    database.psql(
        "UPDATE fullbore_ledger.runs SET state = 'published'; DROP TABLE t; CREATE TABLE t (c1 int)",
    );
    let refused = files.load(&database, &file, "t", &create);
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
    assert!(refused.stderr.contains("was dropped and created again"), "{}", refused.stderr);
}
