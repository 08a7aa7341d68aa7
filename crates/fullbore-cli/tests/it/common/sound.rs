//! Whether what was loaded is what the server itself would have written: its own checkers, VACUUM,
//! index builds, scans by compiled code, and a dump restored elsewhere find nothing.

use std::fs;

use fullbore_testing::TestDatabase;

use super::Files;

/// Count and checksum of a table by way of each of its columns, so that a scan takes every row apart.
fn by_columns(database: &TestDatabase<'_>, table: &str, settings: &str) -> String {
    let columns = database.psql(&format!(
        "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
          WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
    ));
    database.psql(&format!(
        "{settings}; SELECT count(*), sum(hashtextextended(concat_ws('|', {columns}), 0)) FROM {table}"
    ))
}

/// The tables that hold a table's rows: its partitions, or itself.
fn leaves(database: &TestDatabase<'_>, table: &str) -> Vec<String> {
    let found = database.psql(&format!(
        "SELECT oid::regclass FROM pg_class WHERE oid = '{table}'::regclass AND relkind = 'r'
         UNION SELECT relid FROM pg_partition_tree('{table}') WHERE isleaf"
    ));
    let leaves: Vec<String> = found.lines().map(str::to_owned).collect();
    assert!(!leaves.is_empty(), "{table} has no storage");
    leaves
}

/// Makes an extension where the server has it.
fn has(database: &TestDatabase<'_>, extension: &str) -> bool {
    let there = database
        .psql(&format!("SELECT count(*) FROM pg_available_extensions WHERE name = '{extension}'"));
    if there != "0" {
        database.psql(&format!("CREATE EXTENSION IF NOT EXISTS {extension}"));
    }
    there != "0"
}

/// What the checkers that the server has say of a heap; empty where all is well.
fn complaints(database: &TestDatabase<'_>, leaf: &str) -> String {
    let mut said = String::new();
    if has(database, "amcheck") {
        said += &database
            .psql(&format!("SELECT * FROM verify_heapam('{leaf}', check_toast => true) LIMIT 5"));
    }
    if has(database, "amcheck") {
        // What it finds is an error.
        database.psql(&format!(
            "SELECT count(bt_index_parent_check(indexrelid, true, true))
               FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
              WHERE indrelid = '{leaf}'::regclass AND relam = 403"
        ));
    }
    if has(database, "pg_visibility") {
        said += &database.psql(&format!(
            "SELECT 'not visible to all', t FROM pg_check_visible('{leaf}') AS t LIMIT 5;
             SELECT 'not frozen', t FROM pg_check_frozen('{leaf}') AS t LIMIT 5"
        ));
    }
    said
}

/// Asserts that nothing is wrong with a table that was just loaded directly. What is built here to
/// find out is taken away again.
pub fn assert_sound(database: &TestDatabase<'_>, table: &str) {
    assert_sound_but(database, table, |_, _| 0);
}

/// The same where rows were also inserted or deleted: `unfrozen` says of a leaf, with so many
/// pages, how many of them may be written so.
pub fn assert_sound_but(
    database: &TestDatabase<'_>,
    table: &str,
    unfrozen: impl Fn(&str, u64) -> u64,
) {
    let expected = by_columns(database, table, "SET jit = off");
    let leaves = leaves(database, table);
    for leaf in &leaves {
        assert_eq!(complaints(database, leaf), "", "{leaf} as it was loaded");
        if has(database, "pg_visibility") {
            let counted = database.psql(&format!(
                "SELECT all_frozen, all_visible, pg_relation_size('{leaf}') / 8192
                   FROM pg_visibility_map_summary('{leaf}')"
            ));
            let counts: Vec<u64> =
                counted.split('|').map(|count| count.parse().expect("a number")).collect();
            let [frozen, visible, pages] = counts[..] else { panic!("{counted}") };
            assert_eq!(frozen, visible, "{leaf}: what is visible to all is frozen");
            let others = pages - frozen;
            assert!(others <= unfrozen(leaf, pages), "{leaf}: {others} of {pages} not frozen");
        }
    }
    let compiled = "SET jit = on; SET jit_above_cost = 0; SET jit_optimize_above_cost = 0;
                    SET jit_inline_above_cost = 0";
    assert_eq!(by_columns(database, table, compiled), expected, "{table} by compiled code");
    assert_indexes(database, table, &leaves);
    // Every page is read, whatever the visibility map says; what was not frozen would be changed.
    database.psql(&format!("VACUUM (DISABLE_PAGE_SKIPPING) {table}"));
    database.psql(&format!("VACUUM (FREEZE, ANALYZE) {table}"));
    for leaf in &leaves {
        assert_eq!(complaints(database, leaf), "", "{leaf} after VACUUM");
    }
    assert_eq!(by_columns(database, table, "SET jit = off"), expected, "{table} after VACUUM");
}

/// An index on every column that can have one; each holds every row, and finds what a scan finds.
fn assert_indexes(database: &TestDatabase<'_>, table: &str, leaves: &[String]) {
    let columns = database.psql(&format!(
        "SELECT quote_ident(attname) FROM pg_attribute
          WHERE attrelid = '{table}'::regclass AND attnum > 0
            AND atttypid NOT IN ('json'::regtype, 'point'::regtype)"
    ));
    for (number, column) in columns.lines().enumerate() {
        let index = format!("sound_{}_{number}", table.trim_matches('"'));
        database.psql(&format!("CREATE INDEX {index} ON {table} ({column})"));
        let counted = |off: &[&str]| {
            let off: String = off.iter().map(|way| format!("SET enable_{way} = off; ")).collect();
            database.psql(&format!(
                "{off} SELECT count(*), min({column}::text), max({column}::text) FROM {table}
                  WHERE {column} >= (SELECT {column} FROM {table} ORDER BY {column} LIMIT 1)"
            ))
        };
        let by_index = counted(&["seqscan", "bitmapscan"]);
        let by_scan = counted(&["indexscan", "indexonlyscan", "bitmapscan"]);
        assert_eq!(by_index, by_scan, "{table}.{column}");
        if has(database, "amcheck") {
            for leaf in leaves {
                database.psql(&format!(
                    "SELECT bt_index_check(indexrelid, heapallindexed => true)
                       FROM pg_index WHERE indrelid = '{leaf}'::regclass"
                ));
            }
        }
        database.psql(&format!("DROP INDEX {index}"));
    }
}

/// Asserts that a dump of the database, restored into another one, holds the same rows.
pub fn assert_dump_restores(database: &TestDatabase<'_>, files: &Files, tables: &[&str]) {
    let cluster = database.cluster();
    let dump = files.path("database.dump").display().to_string();
    cluster.program("pg_dump", &["--format=custom", "--file", &dump, database.url()]);
    let restored = cluster.fresh_database();
    let into = ["--exit-on-error", "--dbname", restored.url(), &dump];
    cluster.program("pg_restore", &into);
    fs::remove_file(&dump).expect("the dump is removed");
    for table in tables {
        let expected = by_columns(database, table, "SET jit = off");
        assert!(!expected.starts_with("0|"), "{table} is empty: nothing would be proven");
        assert_eq!(by_columns(&restored, table, "SET jit = off"), expected, "{table} restored");
    }
}
