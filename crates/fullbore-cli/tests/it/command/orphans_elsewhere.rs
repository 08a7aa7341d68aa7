//! `fullbore server orphans` where files that no catalog shows are none: on a standby, and beside
//! prepared transactions.

use std::path::Path;

use crate::common::Files;
use fullbore_testing::replica::Copied;
use fullbore_testing::{TestDatabase, TestServer, start_or_skip, wanted};
use serde_json::Value;

/// The exit code, and the paths of what is called an orphan and of what is maybe in progress.
fn look(files: &Files, database: &TestDatabase<'_>) -> (i32, [Vec<String>; 2]) {
    let output = files.fullbore(&["server", "orphans", database.url(), "--json"]);
    let found: Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", output.stderr));
    let paths = |list: &str| {
        let relations = found[list].as_array().expect("a list").iter();
        relations.map(|r| r["path"].as_str().expect("a path").to_owned()).collect()
    };
    (output.code, [paths("orphans"), paths("in_progress")])
}

#[test]
fn a_standby_is_refused() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let primary = start_or_skip!(server);
        let files = Files::new();
        let standby = primary.begin_backup(&["--wal-method=stream"]).start(&Copied::Standby);
        for more in [&[][..], &["--json"]] {
            let url = standby.url();
            let args = [&["server", "orphans", url.as_str()][..], more].concat();
            let output = files.fullbore(&args);
            assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
            assert!(output.stderr.contains("is a standby"), "{}", output.stderr);
            assert!(
                output.stderr.contains("hint: run this command on the primary"),
                "{}",
                output.stderr
            );
        }
        // As a server of its own it answers.
        assert_eq!(standby.psql("SELECT pg_promote()"), "t");
        let output = files.fullbore(&["server", "orphans", &standby.url()]);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
}

/// A prepared transaction can be older than its preparation tells: beside one, no file is called an
/// orphan.
#[test]
fn beside_a_prepared_transaction_nothing_is_called_an_orphan() {
    for server in wanted(TestServer::MAJORS) {
        let cluster = start_or_skip!(server, &[("max_prepared_transactions", "2")]);
        let database = cluster.fresh_database();
        let files = Files::new();
        // Left by a crash, as far as anybody can see.
        let folder = database
            .psql("SELECT 'base/' || oid FROM pg_database WHERE datname = current_database()");
        let orphan = format!("{folder}/99999999");
        let orphan_file = cluster.cluster().data_dir.join(Path::new(&orphan));
        std::fs::write(&orphan_file, [7; 8192]).expect("written");
        assert_eq!(look(&files, &database), (1, [vec![orphan.clone()], vec![]]));

        for end in ["COMMIT", "ROLLBACK"] {
            database.psql(
                "BEGIN; CREATE TABLE t AS SELECT generate_series(1, 1000) AS a;
                 PREPARE TRANSACTION 'load'",
            );
            let (code, [orphans, mut in_progress]) = look(&files, &database);
            assert_eq!((code, orphans.len(), in_progress.len()), (0, 0, 2), "{in_progress:?}");
            in_progress.retain(|path| *path != orphan);
            assert_eq!(in_progress.len(), 1, "the prepared table and the orphan");
            // It outlives the server, and its file does.
            cluster.crash_and_restart();
            let (code, [orphans, after]) = look(&files, &database);
            assert_eq!((code, orphans.len()), (0, 0), "{after:?}");
            assert!(after.contains(&in_progress[0]), "{after:?}");

            database.psql(&format!("{end} PREPARED 'load'"));
            // What was rolled back is empty, and gone with the next checkpoint.
            database.psql("CHECKPOINT");
            assert_eq!(look(&files, &database), (1, [vec![orphan.clone()], vec![]]), "{end}");
            database.psql("DROP TABLE IF EXISTS t");
            database.psql("CHECKPOINT");
        }
        std::fs::remove_file(&orphan_file).expect("removed");
        assert_eq!(look(&files, &database), (0, [vec![], vec![]]));
    }
}
