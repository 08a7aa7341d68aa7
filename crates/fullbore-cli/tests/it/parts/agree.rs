//! Parts of one load show their rows in one way, whatever each was told.

use crate::common::Files;
use crate::common::moments::assert_loaded;
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};

fn part(files: &Files, database: &TestDatabase<'_>, part: &str, more: &[&str]) -> Output {
    let rows: String = (0..100).map(|row| format!("{row}\n")).collect();
    let file = files.write("rows.csv", rows);
    let mut args = vec!["--header", "none", "--part", part];
    args.extend(more);
    files.load(database, &file, "t", &args)
}

#[test]
fn a_limit_of_rejects_is_all_parts_or_none() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let limited = ["--max-rejects", "10"];
    for (first, second) in [(&limited[..], &[][..]), (&[], &limited)] {
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE t (a int)");
        let hosts = [Files::new(), Files::new()];
        assert_loaded(&part(&hosts[0], &database, "1/2", first));
        // A limit makes it atomic: the rows of the one would never be shown with those of the other.
        let refused = part(&hosts[1], &database, "2/2", second);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        for words in ["another part publishes them", "hint:", "--max-rejects"] {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
        assert_loaded(&part(&hosts[1], &database, "2/2", first));
        assert_eq!(database.psql("SELECT count(*) FROM t"), "200");
    }
}
