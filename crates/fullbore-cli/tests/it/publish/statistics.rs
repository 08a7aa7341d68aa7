//! No query meets a table without statistics that replaced one which had some.

use fullbore_testing::{TestServer, shared_or_skip, wanted};

use crate::common::Files;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::ways::{REPLACE, prepared};

#[test]
fn a_table_has_its_statistics_before_it_replaces_another() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = prepared(&database, &files);
        // What is gathered only with the table's own name comes after the swap.
        for tuned in [
            "",
            "CREATE STATISTICS pairs ON k, n FROM replaced;
                           ALTER TABLE replaced ALTER n SET STATISTICS 7",
        ] {
            REPLACE.make(&database);
            database.psql(&format!("SELECT; {tuned}"));
            let mut gate = Gate::at(&database, Moment::PublishCommits);
            let args: Vec<&str> =
                REPLACE.args().into_iter().filter(|arg| *arg != "--statistics=none").collect();
            let load = files.start_load(database.url(), &file, REPLACE.name, &args);
            gate.wait();
            let staged = "SELECT count(*) FROM pg_stats WHERE tablename ~ '^replaced_fb_'";
            assert_eq!(database.psql(staged), "3");
            gate.open(&database);
            assert_loaded(&end_of(load));
            let stored = database.psql(
                "SELECT (SELECT count(*) FROM pg_stats WHERE tablename = 'replaced'),
                        (SELECT count(*) FROM pg_stats_ext WHERE tablename = 'replaced'),
                        (SELECT reltuples FROM pg_class WHERE relname = 'replaced')",
            );
            let extended = if tuned.is_empty() { 0 } else { 1 };
            assert_eq!(stored, format!("3|{extended}|25000"));
        }
    }
}
