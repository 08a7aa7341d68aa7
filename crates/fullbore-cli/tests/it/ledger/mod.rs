//! The ledger itself: where it is made, who may use it, what is said where it can't be; and finished
//! runs that are undone.

mod lineage;
mod other_target;
mod taken_back;
mod unheard;

use crate::common::codes::REFUSED;
use crate::common::held::{end_of, session};
use crate::common::moments::{Gate, Moment, assert_loaded};
use crate::common::parted::{PARTITIONS, SERVERS, partitioned, plain, rows};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::pooler::Pooler;
use fullbore_testing::{TestServer, extended_or_skip, shared_or_skip, skip, wanted};

const NO_HEADER: [&str; 2] = ["--header", "none"];

#[test]
fn a_role_that_may_not_make_it_loads_all_the_same_and_is_told() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let role = format!("loader_{}", database.name());
        database.psql(&format!(
            "CREATE ROLE {role} LOGIN; CREATE TABLE t (a int); ALTER TABLE t OWNER TO {role}"
        ));
        let url = database.url().replace("postgres@", &format!("{role}@"));
        assert_ne!(url, database.url());
        let files = Files::new();
        let file = files.write("x.csv", "1\n2\n");
        let planned = files.fullbore(&["plan", &file, "--to", &url, "--table", "t"]);
        assert!(planned.stdout.contains("not resumable: schema"), "{}", planned.stdout);
        assert_loaded(&files.load_at(&url, &file, "t", &NO_HEADER));
        assert_eq!(database.psql("SELECT count(*) FROM t"), "2");
        let resume = ["--header", "none", "--resume"];
        let refused = files.load_at(&url, &file, "t", &resume);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        assert!(refused.stderr.contains("--ledger-schema"), "{}", refused.stderr);
        // One of its own; and one that somebody else has and lets it use.
        database.psql(&format!("CREATE SCHEMA \"its Own\" AUTHORIZATION {role}"));
        let mut own = resume.to_vec();
        own.extend(["--ledger-schema", "its Own"]);
        // What was loaded without a ledger is not known to this one.
        let unknown = files.load_at(&url, &file, "t", &own);
        assert_eq!(unknown.code, REFUSED, "{}", unknown.stderr);
        own.extend(["--if-loaded", "again"]);
        assert_loaded(&files.load_at(&url, &file, "t", &own));
        assert_eq!(database.psql("SELECT count(*) FROM \"its Own\".pieces"), "1");
        assert_loaded(&files.load(&database, &file, "t", &NO_HEADER));
        let refused = files.load_at(&url, &file, "t", &resume);
        assert!(
            refused.stderr.contains("lacks USAGE privilege on schema fullbore_ledger"),
            "{}",
            refused.stderr
        );
        database.psql(&format!(
            "GRANT USAGE ON SCHEMA fullbore_ledger TO {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON \
             fullbore_ledger.runs, fullbore_ledger.pieces, fullbore_ledger.pieces_unlogged TO {role}"
        ));
        // What another role's run claims to have loaded is not taken for loaded.
        let others = files.load_at(&url, &file, "t", &resume);
        assert_eq!(others.code, REFUSED, "{}", others.stderr);
        let says = format!("was started by role postgres, but the current role is {role}");
        assert!(others.stderr.contains(&says), "{}", others.stderr);
        let again = ["--header", "none", "--if-loaded", "again"];
        assert_loaded(&files.load_at(&url, &file, "t", &again));
        let again = files.load_at(&url, &file, "t", &resume);
        assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
        database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    }
}

#[test]
fn nothing_is_made_where_it_is_not_wanted_or_of_no_use() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    assert_loaded(&files.load(&database, &file, "t", &["--header", "none", "--no-ledger"]));
    let mut args = vec!["load", "-", "--to", database.url(), "--table", "t"];
    args.extend(NO_HEADER);
    assert_loaded(&files.fullbore_with_input(&args, b"2\n"));
    args.push("--resume");
    let refused = files.fullbore_with_input(&args, b"3\n");
    assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
    assert!(refused.stderr.contains("can be read only once"), "{}", refused.stderr);
    database.psql("CREATE PUBLICATION everything FOR ALL TABLES");
    assert_loaded(&files.load(&database, &file, "t", &NO_HEADER));
    let refused = files.load(&database, &file, "t", &["--header", "none", "--resume"]);
    assert!(refused.stderr.contains("would replicate the ledger"), "{}", refused.stderr);
    assert_eq!(database.psql("SELECT to_regnamespace('fullbore_ledger')"), "");
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "4");
    // A schema of that name that holds something else is left alone.
    database
        .psql("DROP PUBLICATION everything; CREATE SCHEMA fullbore_ledger; CREATE TABLE fullbore_ledger.runs ()");
    assert_loaded(&files.load(&database, &file, "t", &NO_HEADER));
    assert_eq!(
        database.psql(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'fullbore_ledger'::regnamespace"
        ),
        "1"
    );
}

#[test]
fn behind_a_pooler_there_is_none() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    for mode in ["session", "transaction"] {
        let pooler = match Pooler::start(cluster, mode, "ignore_startup_parameters = IntervalStyle")
        {
            Ok(pooler) => pooler,
            Err(missing) => skip!("{missing}"),
        };
        let url = pooler.url(database.name());
        let planned = files.fullbore(&["plan", &file, "--to", &url, "--table", "t"]);
        assert!(
            planned.stdout.contains("not resumable: the connection goes through a pooler"),
            "{}",
            planned.stdout
        );
        // Nothing stays locked for those who come next.
        for _ in 0..3 {
            assert_loaded(&files.load_at(&url, &file, "t", &NO_HEADER));
        }
        let refused = files.load_at(&url, &file, "t", &["--header", "none", "--resume"]);
        assert!(refused.stderr.contains("connect to the server itself"), "{}", refused.stderr);
    }
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "6");
    assert_eq!(database.psql("SELECT to_regnamespace('fullbore_ledger')"), "");
}

#[test]
fn it_lives_beside_the_extension_whichever_comes_first() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    for extension_first in [true, false] {
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE t (a int)");
        let load = || {
            let direct = ["--header", "none", "--publish", "replace"];
            assert_loaded(&files.load(&database, &file, "t", &direct));
        };
        if extension_first {
            database.psql("CREATE EXTENSION fullbore");
            load();
        } else {
            load();
            database.psql("CREATE EXTENSION fullbore");
        }
        load();
        let pieces = "SELECT count(*) FROM fullbore_ledger.pieces";
        assert_eq!(database.psql(pieces), "2");
        // The ledger is not dropped with the extension.
        database.psql("DROP EXTENSION fullbore");
        assert_eq!(database.psql(pieces), "2");
        database.psql("DROP SCHEMA fullbore_ledger CASCADE");
        load();
        assert_eq!(database.psql(pieces), "1");
    }
}

#[test]
fn a_job_with_other_sources_is_a_new_run_and_says_so() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let resume = ["--header", "none", "--resume"];
    let file = files.write("x.1.csv", "1\n");
    let glob = file.replace("x.1.csv", "x.*.csv");
    assert_loaded(&files.load(&database, &glob, "t", &resume));
    assert!(files.load(&database, &glob, "t", &resume).stderr.contains("nothing to do"));
    files.write("x.2.csv", "2\n");
    let more = files.load(&database, &glob, "t", &resume);
    assert_loaded(&more);
    assert!(more.stderr.contains("x.1.csv is skipped"), "{}", more.stderr);
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "3");
    // It is loaded as often as it is asked for.
    let again = ["--header", "none", "--if-loaded", "again"];
    assert_loaded(&files.load(&database, &glob, "t", &again));
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "6");
    // A table that is replaced has what there is.
    let replace = ["--header", "none", "--resume", "--publish", "replace"];
    assert_loaded(&files.load(&database, &glob, "t", &replace));
    files.write("x.3.csv", "3\n");
    let more = files.load(&database, &glob, "t", &replace);
    assert_loaded(&more);
    assert!(more.stderr.contains("there were 2 files, now there are 3"), "{}", more.stderr);
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "6");
}

#[test]
fn finished_partitions_are_undone_exactly_or_not_at_all() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql(
            "CREATE INDEX parent_v ON ours (v);
             CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (100);
             ALTER INDEX low_v_idx RENAME TO low_index",
        );
        let before =
            "SELECT string_agg(c.oid::regclass || ' ' || pg_get_expr(relpartbound, c.oid), ',')
                        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
                       WHERE inhparent = 'ours'::regclass";
        let state = database.psql(before);
        let files = Files::new();
        // One odd row, which the server judges: in a subtransaction, before 17.
        let text = rows(0..250).replace("row 1 of key 7\n", "row 1 of key 7\n 7,odd\n");
        let file = files.write("x.csv", text);
        assert_loaded(&files.load(&database, &file, "ours", &PARTITIONS));
        plain(&database, &[&file]);
        assert_same(&database, "ours", "plain");
        database.psql("UPDATE ours SET v = v WHERE k = 3");
        let refused = files.fullbore(&["runs", "undo", "last"]);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        assert!(refused.stderr.contains("changed since"), "{}", refused.stderr);
        assert_same(&database, "ours", "plain");

        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql(
            "CREATE INDEX parent_v ON ours (v);
             CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (100);
             ALTER INDEX low_v_idx RENAME TO low_index",
        );
        assert_loaded(&files.load(&database, &file, "ours", &PARTITIONS));
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "751");
        assert_loaded(&files.fullbore(&["runs", "undo", "last"]));
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
        assert_eq!(database.psql(before), state);
        assert_eq!(database.psql("SELECT 'low_index'::regclass"), "low_index");
        assert_no_leftovers(&database);
        let again = files.fullbore(&["runs", "undo", "last"]);
        assert!(again.stderr.contains("already undone"), "{}", again.stderr);
        // It can be loaded again.
        let mut args = PARTITIONS.to_vec();
        args.push("--resume");
        assert_loaded(&files.load(&database, &file, "ours", &args));
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "751");
    }
}

#[test]
fn what_cant_be_undone_says_why() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    for (publish, words) in
        [("append", "among other rows"), ("replace", "the old table was not kept")]
    {
        assert_loaded(&files.load(
            &database,
            &file,
            "t",
            &["--header", "none", "--publish", publish],
        ));
        let refused = files.fullbore(&["runs", "undo", "last"]);
        assert_eq!(refused.code, REFUSED, "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
        let aborted = files.fullbore(&["runs", "abort", "last"]);
        assert!(aborted.stderr.contains("its rows are published"), "{}", aborted.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM t"), "1");
}

#[test]
fn what_others_wrote_with_a_number_from_the_time_of_the_load_is_not_undone() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let keep_old = ["--header", "none", "--publish", "replace", "--keep-old"];
        for args in [&PARTITIONS[..], &keep_old] {
            // Their transaction got its number while rows were loaded: or its savepoint did.
            for savepoint in ["", "SAVEPOINT s; INSERT INTO scratch VALUES (1);"] {
                let database = cluster.fresh_database();
                match args == PARTITIONS {
                    true => partitioned(&database),
                    false => drop(database.psql("CREATE TABLE ours (k bigint, v text)")),
                }
                database.psql("CREATE TABLE scratch (a int); CREATE TABLE first (a int)");
                let files = Files::new();
                let first = files.write("first.csv", "1\n");
                assert_loaded(&files.load(&database, &first, "first", &NO_HEADER));
                let file = files.write("x.csv", rows(0..250));
                let mut gate = Gate::at(&database, Moment::PieceCommits(0));
                let child = files.start_load(database.url(), &file, "ours", args);
                gate.wait();
                let mut others = session(database.url());
                others.execute("BEGIN; SELECT pg_current_xact_id()").expect("begun");
                others.execute(savepoint).expect("set");
                gate.open(&database);
                assert_loaded(&end_of(child));
                let changed = others.execute("UPDATE ours SET v = 'theirs' WHERE k = 3; COMMIT");
                changed.expect("updated");
                let undone = files.fullbore(&["runs", "undo", "last"]);
                assert_eq!(undone.code, REFUSED, "{args:?}: {}", undone.stderr);
                assert!(undone.stderr.contains("changed since"), "{}", undone.stderr);
                let theirs = "SELECT count(*) FROM ours WHERE v = 'theirs'";
                assert_eq!(database.psql(theirs), "3", "{args:?}");
            }
        }
    }
}

#[test]
fn others_that_were_at_work_elsewhere_do_not_keep_a_load_from_being_undone() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        let mut others = session(database.url());
        others.execute("BEGIN; SELECT pg_current_xact_id()").expect("begun");
        let files = Files::new();
        let file = files.write("x.csv", rows(0..250));
        assert_loaded(&files.load(&database, &file, "ours", &PARTITIONS));
        assert_loaded(&files.fullbore(&["runs", "undo", "last"]));
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
        others.execute("COMMIT").expect("committed");
    }
}
