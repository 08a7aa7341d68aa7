//! What logical decoding shows of a table that is replaced is said before it happens.

use fullbore_testing::{TestDatabase, TestServer, start_or_skip};

use crate::common::Files;
use crate::common::moments::assert_loaded;

const REPLACE: [&str; 4] = ["--publish", "replace", "--header", "none"];

/// What a plan and a load say of slots; both must say the same.
fn said(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) -> Option<String> {
    let plan = ["plan", file, "--to", database.url(), "--table", "t"];
    let planned = files.fullbore(&[&plan[..], &REPLACE, more].concat());
    assert_loaded(&planned);
    let loaded = files.load(database, file, "t", &[&REPLACE[..], more].concat());
    assert_loaded(&loaded);
    let note = |text: &str| {
        let line = text.lines().find(|line| line.contains("note: logical slot"));
        line.map(|line| line.trim().to_owned())
    };
    let (planned, loaded) = (note(&planned.stdout), note(&loaded.stderr));
    assert_eq!(planned, loaded);
    loaded
}

#[test]
fn slots_that_see_a_replaced_table_under_another_name_are_named() {
    // The one server here that has a plugin beside pgoutput.
    let cluster = start_or_skip!(TestServer::Debian15, &[("wal_level", "logical")]);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("few.csv", "1,a\n2,b\n");
    database.psql("CREATE TABLE t (a bigint, b text); CREATE TABLE other (a int)");
    assert_eq!(said(&database, &files, &file, &[]), None);

    // Its subscribers see what is published, and the table is not.
    database.psql(
        "CREATE PUBLICATION few FOR TABLE other;
         SELECT pg_create_logical_replication_slot('published', 'pgoutput')",
    );
    assert_eq!(said(&database, &files, &file, &[]), None);

    database.psql("SELECT pg_create_logical_replication_slot('cdc', 'test_decoding')");
    let note = said(&database, &files, &file, &[]).expect("a note");
    for words in
        ["slot \"cdc\" (test_decoding)", "INSERTs", "without a TRUNCATE of \"public\".\"t\""]
    {
        assert!(note.contains(words), "{note} lacks {words}");
    }
    // What it says is so.
    let changes = |pattern: &str| {
        database.psql(&format!(
            "SELECT count(*) FROM pg_logical_slot_peek_changes('cdc', NULL, NULL)
              WHERE data ~ '{pattern}'"
        ))
    };
    assert_eq!(changes("^table public.t_fb_\\w+_new: INSERT"), "2");
    assert_eq!(changes("^table public.t: |TRUNCATE"), "0");

    database.psql("CREATE PUBLICATION everything FOR ALL TABLES");
    let note = said(&database, &files, &file, &["--allow-publication"]).expect("a note");
    assert!(note.contains("\"cdc\" (test_decoding), \"published\" (pgoutput) show"), "{note}");
    // Such a table is in nobody's log.
    database.psql(
        "DROP PUBLICATION everything; DROP TABLE t; CREATE UNLOGGED TABLE t (a bigint, b text)",
    );
    assert_eq!(said(&database, &files, &file, &[]), None);
}
