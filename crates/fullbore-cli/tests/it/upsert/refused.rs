//! What an upsert refuses, and what it rejects.

use super::upsert;
use crate::common::codes::REFUSED;
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn what_can_not_be_merged_is_refused_by_name() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "k,v\n1,2\n");
    let empty = files.write("empty.csv", "k,v\n");
    database.psql(
        "CREATE TABLE ours (k int, v int);
         CREATE UNIQUE INDEX partial ON ours (k) WHERE v > 0; CREATE UNIQUE INDEX ON ours ((k + v));
         ALTER TABLE ours ADD CONSTRAINT late UNIQUE (k) DEFERRABLE; CREATE UNIQUE INDEX ON ours (v, k)",
    );
    let cases: [(&str, &[&str], &str); 9] = [
        (&file, &[], "has no primary key"),
        (
            &file,
            &["--key", "k"],
            "no unique index of \"public\".\"ours\" is on (k); it has them on (v, k)",
        ),
        (&file, &["--key", "x"], "has no column \"x\"; it has k, v"),
        (&file, &["--key", "k,k"], "--key names \"k\" twice"),
        (&file, &["--key", "k,v", "--on-conflict", "newest:w"], "has no column \"w\""),
        (
            &file,
            &["--key", "k,v", "--on-conflict", "replace"],
            "neither update, nothing nor newest:COLUMN",
        ),
        (&file, &["--create"], "--create makes no key unless it is named"),
        (&file, &["--key", "k,v", "--delete-missing", "--max-rejects", "1"], "--delete-missing"),
        (&empty, &["--key", "k,v", "--delete-missing"], "would empty \"public\".\"ours\""),
    ];
    for (file, args, words) in cases {
        let output = upsert(&files, &database, &[file], args);
        assert_ne!(output.code, 0, "{args:?}");
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
    }
    for option in [&["--key", "k"][..], &["--on-conflict", "nothing"], &["--delete-missing"]] {
        let output = files.load(&database, &file, "ours", option);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        let words = format!("{} applies only to --publish upsert", option[0]);
        assert!(output.stderr.contains(&words), "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
    assert_no_leftovers(&database);
}

#[test]
fn a_role_needs_the_rights_that_it_uses() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("a.csv", "k,v\n1,2\n");
    let role = format!("merger_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE TABLE ours (k int PRIMARY KEY, v int); GRANT CREATE ON SCHEMA public TO {role};
         GRANT CREATE ON DATABASE {} TO {role}; GRANT SELECT, INSERT ON ours TO {role}",
        database.name()
    ));
    let url = format!("{}&user={role}", database.url());
    let load = |more: &[&str]| {
        let args = [&["--publish", "upsert", "--statistics", "none"], more].concat();
        files.load_at(&url, &file, "ours", &args)
    };
    let output = load(&[]);
    assert!(output.stderr.contains("lacks SELECT, INSERT or UPDATE"), "{}", output.stderr);
    database.psql(&format!("GRANT UPDATE ON ours TO {role}"));
    let output = load(&["--delete-missing"]);
    assert!(output.stderr.contains("lacks DELETE privilege"), "{}", output.stderr);
    let output = load(&[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM ours"), "1|2");
}

#[test]
fn rows_without_a_key_are_rejected_with_their_lines() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    for lane in [&[][..], &["--as-text"]] {
        let files = Files::new();
        database.psql(
            "DROP TABLE IF EXISTS ours; CREATE TABLE ours (k int UNIQUE, v int CHECK (v < 100))",
        );
        let file = files.write("a.csv", "k,v\n1,2\n,3\n2,100\nx,4\n5,5\n");
        let args = [&["--key", "k", "--max-rejects", "5", "--if-loaded", "again"], lane].concat();
        let output = upsert(&files, &database, &[&file], &args);
        assert_eq!(output.code, 3, "{}", output.stderr);
        assert_eq!(database.psql("SELECT * FROM ours ORDER BY k"), "1|2\n5|5");
        let lines: Vec<_> = files.reasons().iter().map(|one| one["line"].as_u64()).collect();
        let mut lines: Vec<u64> = lines.into_iter().flatten().collect();
        lines.sort_unstable();
        assert_eq!(lines, [3, 4, 5], "{lane:?}");
    }
}
