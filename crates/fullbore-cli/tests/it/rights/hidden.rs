//! What waits to be published, and what is written beside, is for nobody else to read.

use std::os::unix::fs::PermissionsExt;

use fullbore_testing::{TestServer, shared_or_skip};

use super::LEDGER;
use crate::common::Files;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{ATOMIC, PARTITIONS, REPLACE, UPSERT, Way, prepared};

const REJECTING: Way = Way { name: "rejecting", options: &["--max-rejects", "5"], tail: "" };

#[test]
fn staged_rows_are_hidden_from_roles_that_default_privileges_let_read_new_tables() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
         ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC",
    );
    let peeper = format!("peeper_{}", database.name());
    database.psql(&format!("CREATE ROLE {peeper} LOGIN"));
    let file = prepared(&database, &files);
    let readable = |condition: &str| {
        database.psql(&format!(
            "SELECT count(*), count(*) FILTER (WHERE has_any_column_privilege('{peeper}', c.oid, 'SELECT'))
               FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
              WHERE relkind IN ('r', 'p') AND {condition}"
        ))
    };
    assert_eq!(readable(&format!("nspname = '{LEDGER}'")), "5|0");
    for way in [ATOMIC, REPLACE, PARTITIONS, REJECTING, UPSERT] {
        way.make(&database);
        database.psql(&format!("REVOKE ALL ON {} FROM PUBLIC", way.name));
        let mut gate = Gate::at(&database, Moment::Publishes);
        let child = files.start_load(database.url(), &file, way.name, &way.args());
        gate.wait();
        let staged = readable("relname ~ '_fb_' AND NOT relispartition");
        assert!(staged.ends_with("|0") && !staged.starts_with("0|"), "{}: {staged}", way.name);
        gate.open(&database);
        assert_loaded(&end_of(child));
        assert_eq!(readable(&format!("relname = '{}'", way.name)), "1|0", "{}", way.name);
    }
    // A partition that is published has what default privileges give of one that is made by hand.
    let parts = readable("relispartition");
    let (all, open) = parts.split_once('|').expect("two counts");
    assert_eq!(all, open);
    database.psql(&format!("DROP ROLE {peeper}"));
}

#[test]
fn a_log_file_is_its_users_alone() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    assert_loaded(&files.load(
        &database,
        &file,
        "t",
        &["--header", "none", "--log-file", "load.log"],
    ));
    let mode = std::fs::metadata(files.path("load.log")).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_load_of_which_no_ledger_is_kept_says_so() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let role = format!("loader_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE TABLE t (a int); ALTER TABLE t OWNER TO {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    let loaded = files.load_at(&url, &file, "t", &["--header", "none"]);
    assert_loaded(&loaded);
    for says in
        ["note: no ledger is kept", "lacks CREATE privilege on database", "no ledger was kept: "]
    {
        assert!(loaded.stderr.contains(says), "{}", loaded.stderr);
    }
    let loaded = files.load_at(&url, &file, "t", &["--header", "none", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    assert!(summary["no_ledger"].as_str().is_some_and(|why| why.contains("schema")), "{summary}");
    let asked_for = files.load(&database, &file, "t", &["--header", "none", "--no-ledger"]);
    assert!(!asked_for.stderr.contains("no ledger"), "{}", asked_for.stderr);
    database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
