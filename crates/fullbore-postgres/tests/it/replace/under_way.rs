//! What others do during the load is noticed before anything is lost.

use fullbore_read::error::{DestinationFailure, Error};
use fullbore_testing::{TestCluster, TestDatabase, TestServer, shared_or_skip};

use super::{Replacement, snapshot};

const TABLE: &str = "
    CREATE TABLE other AS SELECT 1 AS id; ALTER TABLE other ADD PRIMARY KEY (id);
    CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT 'x', b int);
    ALTER TABLE t ADD CHECK (b > 0) NOT VALID;
    CREATE INDEX old_index ON t (a);
    INSERT INTO t VALUES (1, 'old', 1)";

/// What is left of the old table's rows, and of the run's own tables.
fn left(database: &TestDatabase<'_>) -> (String, String) {
    (database.psql("SELECT string_agg(a, ',' ORDER BY id) FROM t"), own_tables(database))
}

fn own_tables(database: &TestDatabase<'_>) -> String {
    database.psql("SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_fb\\_%'")
}

const CHANGES: [(&str, &str); 15] = [
    ("CREATE VIEW v AS TABLE t", "would lose: view v"),
    ("CREATE TABLE f (a int REFERENCES t)", "constraint f_a_fkey on table f"),
    ("ALTER TABLE t ADD c int", "its columns have changed"),
    ("ALTER TABLE t DROP b; ALTER TABLE t ADD b int", "constraint t_b_check differ"),
    ("ALTER TABLE t ALTER a SET DEFAULT 'y'", "column a differ"),
    ("ALTER TABLE t ALTER a SET STORAGE PLAIN", "column a differ"),
    ("ALTER TABLE t ADD CONSTRAINT checked CHECK (id > 0)", "constraint checked differ"),
    ("ALTER TABLE t DROP CONSTRAINT t_b_check", "constraint t_b_check differ"),
    ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES other", "foreign key t_b_fkey differ"),
    ("CREATE INDEX new_index ON t (b)", "the index new_index is new"),
    ("DROP INDEX old_index", "an index was dropped or changed"),
    ("ALTER TABLE t SET UNLOGGED", "was truncated or rewritten"),
    ("ALTER TABLE t ALTER id ADD GENERATED ALWAYS AS IDENTITY", "sequence of column id"),
    (
        "ALTER TABLE t RENAME TO t_old; CREATE TABLE t (LIKE t_old)",
        "it was dropped and created again",
    ),
    ("ALTER TABLE t RENAME TO gone", "does not exist"),
];

#[test]
fn changes_during_the_load_are_noticed() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    for (change, words) in CHANGES {
        let database = cluster.fresh_database();
        database.psql(TABLE);
        let oid = database.psql("SELECT 't'::regclass::oid");
        // The indexes are built by then, too: it is the publish itself that looks.
        let replacement = Replacement::new(database.url(), "t", &["id", "a", "b"], "2\tnew\t1\n");
        let meanwhile = || drop(database.psql(change));
        let error = replacement.run_until_shown(meanwhile).unwrap_err();
        let Error::Destination { message, kind, .. } = &error else { panic!("{error}") };
        assert_ne!(*kind, DestinationFailure::Refused, "{change}");
        let message = message.replace("public.", "");
        assert!(message.contains(words), "{change}: {message}");
        let name = database.psql(&format!("SELECT {oid}::regclass"));
        assert_eq!(database.psql(&format!("SELECT a FROM {name}")), "old", "{change}");
        assert_eq!(own_tables(&database), "0", "{change}");
    }
}

fn harmless_on(cluster: &TestCluster) {
    let database = cluster.fresh_database();
    database.psql(TABLE);
    let replacement = Replacement::new(database.url(), "t", &["id", "a", "b"], "2\tnew\t1\n");
    let expected = std::cell::OnceCell::new();
    replacement
        .run_until_shown(|| {
            // What is told from the old table with the swap may change until then.
            database.psql(
                "CREATE ROLE late_reader; GRANT SELECT ON t TO late_reader;
                 COMMENT ON TABLE t IS 'late'; ALTER INDEX old_index RENAME TO late_index;
                 REINDEX TABLE CONCURRENTLY t; ALTER TABLE t SET (fillfactor = 33);
                 ALTER TABLE t RENAME CONSTRAINT t_pkey TO late_key;
                 CREATE STATISTICS late ON a, b FROM t; ALTER TABLE t REPLICA IDENTITY FULL",
            );
            let snapshot = snapshot::of_table(&database, "t");
            // The check has been passed by every row that is there then.
            let valid = snapshot.replace("((b > 0)) NOT VALID - f", "((b > 0)) - t");
            assert_ne!(valid, snapshot);
            expected.set(valid).unwrap();
        })
        .unwrap();
    assert_eq!(snapshot::of_table(&database, "t"), *expected.get().unwrap());
    assert_eq!(left(&database), ("new".into(), "0".into()));
    cluster.psql_in(database.url(), "DROP OWNED BY late_reader; DROP ROLE late_reader");
}

#[test]
fn what_the_swap_tells_anew_may_change_on_18() {
    harmless_on(shared_or_skip!(TestServer::Embedded18));
}

#[test]
fn what_the_swap_tells_anew_may_change_on_14() {
    harmless_on(shared_or_skip!(TestServer::Pg14));
}

#[test]
fn rows_that_break_a_constraint_leave_the_old_table() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE t (id int PRIMARY KEY, a text, parent int REFERENCES t,
                         span int4range, EXCLUDE USING gist (span WITH &&));
         INSERT INTO t VALUES (1, 'old', 1)",
    );
    for (rows, words) in [
        ("2\tx\t\\N\t\\N\n2\ty\t\\N\t\\N\n", "t_pkey"),
        ("2\tx\t3\t\\N\n", "t_parent_fkey"),
        ("2\tx\t2\t[1,5)\n3\tx\t2\t[2,3)\n", "t_span_excl"),
    ] {
        let columns = ["id", "a", "parent", "span"];
        let error = Replacement::new(database.url(), "t", &columns, rows).run(|| {}).unwrap_err();
        let Error::Destination { message, kind, .. } = &error else { panic!("{error}") };
        assert_eq!(*kind, DestinationFailure::Constraint, "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(left(&database), ("old".into(), "0".into()));
    }
}

#[test]
fn identity_values_go_on_for_rows_that_bring_none() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE UNLOGGED TABLE t (id int GENERATED ALWAYS AS IDENTITY, a text);
         INSERT INTO t (a) VALUES ('1'), ('2'), ('3')",
    );
    let before = snapshot::of_table(&database, "t");
    Replacement::new(database.url(), "t", &["a"], "x\ny\n").run(|| {}).unwrap();
    database.psql("INSERT INTO t (a) VALUES ('z')");
    assert_eq!(database.psql("SELECT string_agg(id || a, ' ' ORDER BY id) FROM t"), "4x 5y 6z");
    assert_eq!(snapshot::of_table(&database, "t"), before.replace(" f 1 3\n", " f 1 6\n"));
}

#[test]
fn a_table_made_by_the_run_is_replaced_as_any_other() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let create = "CREATE TABLE t (id int PRIMARY KEY, a text)";
    let mut replacement = Replacement::new(database.url(), "t", &["id", "a"], "1\tx\n");
    replacement.create = Some(create);
    replacement.tablespaces = &["pg_default"];
    replacement.run(|| {}).unwrap();
    assert_eq!(left(&database), ("x".into(), "0".into()));
    let made = snapshot::of_table(&database, "t");
    database.psql(&format!("DROP TABLE t; {create}"));
    assert_eq!(snapshot::of_table(&database, "t"), made);
}
