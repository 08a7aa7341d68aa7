//! Replicas and backups of a server with wal_level=replica, taken while rows are loaded directly,
//! equal the primary; logical replication, which would miss them, is refused by name.

use std::io::Write;
use std::process::{Child, ChildStdin};

use crate::common::held::{end_of, wait_for};
use crate::common::sound::assert_sound;
use crate::common::{Files, checksum};
use fullbore_testing::replica::Copied;
use fullbore_testing::{
    TestCluster, TestDatabase, TestServer, extended_or_skip, extension, skip, start_or_skip, wanted,
};

/// Rows of half a load: enough that pages are logged and written long before its end.
const HALF: usize = 150_000;

fn rows(keys: std::ops::Range<usize>) -> String {
    keys.map(|k| format!("{k},row {k} {}\n", "x".repeat(k % 90))).collect()
}

/// A direct load into a table by `replace` that waits for the second half of its rows.
struct HalfLoad {
    load: Child,
    stdin: ChildStdin,
}

impl HalfLoad {
    fn begin(database: &TestDatabase<'_>, files: &Files, table: &str) -> Self {
        let log = || database.psql("SELECT pg_current_wal_insert_lsn()");
        let before = log();
        let mut args = vec!["load", "-", "--to", database.url(), "--table", table];
        args.extend(["--format", "csv", "--header", "none"]);
        args.extend(["--publish", "replace", "--method", "direct"]);
        let mut load = files.start_with_stdin(&args);
        let mut stdin = load.stdin.take().expect("piped");
        stdin.write_all(rows(0..HALF).as_bytes()).expect("the load reads");
        wait_for("half a load in the log", || {
            let grown = database.psql(&format!("SELECT '{}'::pg_lsn - '{before}'", log()));
            grown.parse::<f64>().expect("a number") > (2 << 20) as f64
        });
        Self { load, stdin }
    }

    fn complete(self) {
        let Self { load, mut stdin } = self;
        stdin.write_all(rows(HALF..2 * HALF).as_bytes()).expect("the load reads");
        drop(stdin);
        let output = end_of(load);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stdout.is_empty(), "{}", output.stdout);
    }
}

/// Loads a whole table directly, as partitions.
fn load_partitions(database: &TestDatabase<'_>, files: &Files, table: &str) {
    let file = files.write("rows.csv", rows(0..2 * HALF));
    let args = ["--publish", "partitions", "--method", "direct", "--header", "none"];
    let output = files.load(database, &file, table, &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

/// Asserts that a copy of the server holds the tables as the server itself does.
fn assert_copy(copy: &TestCluster, database: &TestDatabase<'_>, tables: &[&str]) {
    let url = copy.cluster().url(database.name());
    for table in tables {
        let ours = checksum(database, table);
        assert!(ours.starts_with(&format!("{}|", 2 * HALF)), "{table}: {ours}");
        let sql = format!("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t");
        assert_eq!(copy.psql_in(&url, &sql), ours, "{table} of the copy");
        let heaps = "SELECT relid AS heap FROM pg_partition_tree('{}') WHERE isleaf
                     UNION SELECT oid FROM pg_class WHERE oid = '{}'::regclass AND relkind = 'r'";
        let heaps = heaps.replace("{}", table);
        for (extension, check) in
            [("amcheck", "verify_heapam"), ("pg_visibility", "pg_check_frozen")]
        {
            let made = format!("SELECT count(*) FROM pg_extension WHERE extname = '{extension}'");
            if copy.psql_in(&url, &made) != "0" {
                let sql = format!("SELECT heap, f FROM ({heaps}) AS h, {check}(heap) AS f LIMIT 5");
                assert_eq!(copy.psql_in(&url, &sql), "", "{table} of the copy");
            }
        }
    }
}

/// Where a standby stands; the primary's end is given to wait for.
fn wait_for_replay(standby: &TestCluster, primary: &TestCluster) {
    let end = primary.psql("SELECT pg_current_wal_insert_lsn()");
    wait_for("standby to replay the log", || {
        standby.psql(&format!("SELECT pg_last_wal_replay_lsn() >= '{end}'")) == "t"
    });
}

/// A standby that streams meanwhile, a backup that begins in the middle of one load and ends in the
/// middle of another, and what each becomes.
fn replicas(server: TestServer) {
    if let Err(missing) = extension::install(server) {
        skip!("{missing}");
    }
    // What a backup needs of the log stays, since it is restored from there.
    let primary = start_or_skip!(server, &[("wal_level", "replica"), ("wal_keep_size", "1GB")]);
    let database = primary.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE EXTENSION fullbore;
         CREATE TABLE one (a bigint, b text); CREATE TABLE other (a bigint, b text);
         CREATE TABLE parted (a bigint, b text) PARTITION BY RANGE (a)",
    );
    for extension in ["amcheck", "pg_visibility"] {
        // Not every server has them.
        let _ = database.try_psql(&format!("CREATE EXTENSION {extension}"));
    }
    let standby = primary.begin_backup(&["--wal-method=stream"]).start(&Copied::Standby);

    let first = HalfLoad::begin(&database, &files, "one");
    // Slow enough to be seen at work; what follows happens meanwhile.
    let backup = primary.begin_backup(&["--wal-method=none", "--max-rate=8M"]);
    wait_for("backup in progress", || {
        let phase =
            "SELECT count(*) FROM pg_stat_progress_basebackup WHERE phase LIKE 'streaming%'";
        database.psql(phase) == "1"
    });
    backup.hold();
    load_partitions(&database, &files, "parted");
    first.complete();
    let second = HalfLoad::begin(&database, &files, "other");
    // Ended already, the backup would prove less than it should.
    assert_eq!(database.psql("SELECT count(*) FROM pg_stat_progress_basebackup"), "1");
    backup.go_on();
    second.complete();

    let tables = ["one", "other", "parted"];
    wait_for_replay(&standby, &primary);
    assert_copy(&standby, &database, &tables);
    database.psql("SELECT pg_switch_wal()");
    let wal = primary.cluster().data_dir.join("pg_wal");
    let restored = backup.start(&Copied::Restored(wal));
    let is_recovering = "SELECT pg_is_in_recovery()";
    wait_for("end of recovery", || {
        restored.try_psql_in(&restored.url(), is_recovering) == Ok("f".into())
    });
    assert_copy(&restored, &database, &tables);

    // The standby goes on as a server of its own, and takes direct loads.
    let promoted = standby.psql("SELECT pg_promote()");
    assert_eq!(promoted, "t");
    let url = standby.cluster().url(database.name());
    let file = files.write("more.csv", rows(0..1000));
    let args = ["--publish", "replace", "--method", "direct", "--header", "none"];
    let output = files.load_at(&url, &file, "one", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(standby.psql_in(&url, "SELECT count(*) FROM one"), "1000");
    for table in tables {
        assert_sound(&database, table);
    }
}

#[test]
fn a_standby_and_a_backup_equal_the_primary_of_18() {
    replicas(TestServer::Embedded18);
}

#[test]
#[ignore = "make test-all: every version"]
fn a_standby_and_a_backup_equal_the_primary_of_17() {
    replicas(TestServer::Pg17);
}

#[test]
#[ignore = "make test-all: every version"]
fn a_standby_and_a_backup_equal_the_primary_of_16() {
    replicas(TestServer::Pg16);
}

#[test]
#[ignore = "make test-all: every version"]
fn a_standby_and_a_backup_equal_the_primary_of_15() {
    replicas(TestServer::Debian15);
}

#[test]
#[ignore = "make test-all: every version"]
fn a_standby_and_a_backup_equal_the_primary_of_14() {
    replicas(TestServer::Pg14);
}

/// Asserts that direct is refused with words and a hint, and that `auto` says why it does not take it
/// and loads by COPY.
fn falls_back(database: &TestDatabase<'_>, files: &Files, publish: &str, why: &str) {
    let file = files.write("few.csv", "1,a\n2,b\n");
    database.psql("TRUNCATE t");
    let common = ["--publish", publish, "--header", "none", "--allow-publication"];
    let args = [&["--method", "direct"][..], &common].concat();
    let output = files.load(database, &file, "t", &args);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains(why), "{} lacks {why:?}", output.stderr);
    assert!(output.stderr.contains("hint: "), "{}", output.stderr);
    assert!(output.stderr.contains("--method copy"), "{}", output.stderr);
    assert!(!output.stderr.contains("_fb_"), "{} names a table of ours", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");

    let plan = [&["plan", &file, "--to", database.url(), "--table", "t"][..], &common].concat();
    let output = files.fullbore(&plan);
    let method = output.stdout.lines().find(|line| line.starts_with("  method: "));
    let method = method.unwrap_or_else(|| panic!("no method: {}", output.stderr));
    assert!(method.starts_with("  method: copy, since "), "{method}");
    assert!(method.contains(why) && !method.contains("_fb_"), "{method:?} lacks {why:?}");

    let output = files.load(database, &file, "t", &[&["--json"][..], &common].concat());
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!((output.code, said["method"].as_str()), (0, Some("copy")), "{}", output.stderr);
    assert_eq!(database.psql("SELECT string_agg(b, ',' ORDER BY a) FROM t"), "a,b");
}

#[test]
fn logical_replication_is_refused() {
    for server in wanted(TestServer::MAJORS) {
        if let Err(missing) = extension::install(server) {
            skip!("{missing}");
        }
        let cluster = start_or_skip!(server, &[("wal_level", "logical")]);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql("CREATE EXTENSION fullbore; CREATE TABLE t (a bigint, b text)");

        database.psql("CREATE PUBLICATION everything FOR ALL TABLES");
        falls_back(&database, &files, "replace", "is published");
        database.psql("DROP PUBLICATION everything");

        let made = "SELECT pg_create_logical_replication_slot('reader', 'pgoutput')";
        assert_ne!(database.psql(made), "");
        falls_back(&database, &files, "replace", "while changes are decoded");
        database.psql("SELECT pg_drop_replication_slot('reader')");

        // A slot of another database reads nothing of this one; but one on a standby might.
        cluster.psql(made);
        let (publish, allowed) = (["--publish", "replace"], "--skip-logical-decoding");
        refused_as_decoded(&database, &files);
        let file = files.write("few.csv", "1,a\n2,b\n");
        let args = [&publish[..], &["--method", "direct", "--header", "none", allowed]].concat();
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);

        // What the option allows is what can't be seen, not what is there.
        assert_ne!(database.psql(&made.replace("reader", "own")), "");
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains("while changes are decoded"), "{}", output.stderr);
    }
}

/// `auto` loads by COPY and says why; `direct` is refused and names the option.
fn refused_as_decoded(database: &TestDatabase<'_>, files: &Files) {
    let why = "wal_level is logical, and directly loaded rows are not decoded";
    let file = files.write("few.csv", "1,a\n2,b\n");
    let common = ["--publish", "replace", "--header", "none"];
    let output = files.load(database, &file, "t", &[&["--method", "direct"][..], &common].concat());
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains(why), "{}", output.stderr);
    assert!(output.stderr.contains("--skip-logical-decoding"), "{}", output.stderr);
    let plan = [&["plan", &file, "--to", database.url(), "--table", "t"][..], &common].concat();
    let said = files.fullbore(&plan).stdout;
    let method = said.lines().find(|line| line.starts_with("  method: ")).unwrap_or_default();
    assert!(method.starts_with("  method: copy, since ") && method.contains(why), "{said}");
    let output = files.load(database, &file, "t", &[&["--json"][..], &common].concat());
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!((output.code, said["method"].as_str()), (0, Some("copy")), "{}", output.stderr);
}

/// A publication of a schema covers partitions that are not there yet; `replace` refuses one whatever
/// the method.
#[test]
fn a_publication_of_the_schema_is_refused() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg17, TestServer::Debian15]) {
        let cluster = extended_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE EXTENSION fullbore;
             CREATE TABLE t (a bigint, b text) PARTITION BY RANGE (a);
             CREATE PUBLICATION ours FOR TABLES IN SCHEMA public",
        );
        falls_back(&database, &files, "partitions", "is published");
    }
}
