//! The direct method over the ways that rows come and go: from Parquet, over TLS with a password,
//! through a pooler, written through the page cache and past it.

use crate::common;
use crate::common::sound::assert_sound;
use crate::common::tls::{PASSWORD, server};
use crate::common::typed::{make_types, typed_rows};
use crate::common::{Files, assert_no_leftovers, assert_same};
use fullbore_testing::pooler::Pooler;
use fullbore_testing::{
    Output, TestCluster, TestDatabase, TestServer, extended_or_skip, extension, fullbore_command,
    output_of, shared_or_skip, skip, wanted,
};

const DIRECT: [&str; 4] = ["--method", "direct", "--publish", "replace"];

/// The columns of the rows in `common::typed`, all but the types that only the server knows.
const COLUMNS: [(&str, &str); 21] = [
    ("id", "bigint"),
    ("flag", "boolean"),
    ("small", "smallint"),
    ("number", "integer"),
    ("r", "real"),
    ("d", "double precision"),
    ("price", "numeric(15,2)"),
    ("big", "numeric(30,10)"),
    ("huge", "numeric(60,20)"),
    ("free", "numeric"),
    ("note", "text"),
    ("short", "varchar(10)"),
    ("padded", "char(5)"),
    ("day", "date"),
    ("at", "time"),
    ("moment", "timestamp"),
    ("zoned", "timestamptz"),
    ("key", "uuid"),
    ("raw", "bytea"),
    ("doc", "json"),
    ("mood", "mood"),
];

fn columns(partitioned: bool) -> String {
    let columns: Vec<String> =
        COLUMNS.iter().map(|(name, type_name)| format!("{name} {type_name}")).collect();
    let by = if partitioned { " PARTITION BY RANGE (id)" } else { "" };
    format!("({}){by}", columns.join(", "))
}

/// Parquet files of the typed rows, and the rows as text for COPY.
fn typed_parquet(files: &Files) -> (String, String) {
    // Records span lines, but none of the fields that are cut off here does.
    let text = typed_rows(20_000, 0);
    let all = files.write("all.csv", &text);
    let fields = "id,flag,small,number,r,d,price,big,huge,free,note,short,padded,day,at,moment,\
                  zoned,key,raw,doc,-,mood,-,-";
    let folder = files.path("parquet").display().to_string();
    let to = format!("parquet:{folder}");
    let mut args = vec!["load", &all, "--to", &to, "--table", "typed", "--header", "none"];
    args.extend(["--format", "csv", "--columns", fields]);
    let types: Vec<String> = COLUMNS
        .iter()
        // What Parquet has no type for is text in it.
        .map(|(name, type_name)| match *type_name {
            "mood" | "json" | "numeric" | "numeric(60,20)" => format!("--type={name}=text"),
            other => format!("--type={name}={other}"),
        })
        .collect();
    args.extend(types.iter().map(String::as_str));
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    (folder, all)
}

fn assert_direct(output: &Output) {
    assert_eq!(output.code, 0, "{}", output.stderr);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(said["method"], "direct", "{said}");
}

#[test]
fn parquet_loaded_directly_equals_copy() {
    let files = Files::new();
    let (parquet, text) = typed_parquet(&files);
    for server in wanted(TestServer::MAJORS) {
        let cluster = extended_or_skip!(server);
        let database = cluster.fresh_database();
        make_types(&database);
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        database.psql(&format!(
            "CREATE EXTENSION fullbore;
             CREATE TABLE everything ({}); COPY everything FROM '{text}' (FORMAT csv);
             CREATE TABLE plain AS SELECT {} FROM everything",
            common::typed::TYPED,
            names.join(", ")
        ));
        for publish in ["replace", "partitions"] {
            database.psql(&format!("CREATE TABLE ours {}", columns(publish == "partitions")));
            let args = ["--method", "direct", "--publish", publish, "--json"];
            assert_direct(&files.load(&database, &parquet, "ours", &args));
            assert_same(&database, "ours", "plain");
            assert_no_leftovers(&database);
            assert_sound(&database, "ours");
            database.psql("DROP TABLE ours");
        }
    }
}

/// A key as a URL has it.
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn direct_loads_over_tls_with_a_password() {
    let files = Files::new();
    let Some(cluster) = server(&files) else { skip!("no PostgreSQL with OpenSSL") };
    if let Err(missing) = extension::install(cluster.server()) {
        skip!("{missing}");
    }
    let database = cluster.fresh_database();
    let rows: String =
        (0..200_000).map(|k| format!("{k},row {k} {}\n", "x".repeat(k % 90))).collect();
    let file = files.write("rows.csv", rows);
    database.psql(&format!(
        "CREATE EXTENSION fullbore;
         CREATE TABLE plain (a bigint, b text); COPY plain FROM '{file}' (FORMAT csv);
         CREATE TABLE ours (LIKE plain);
         CREATE TABLE parted (LIKE plain) PARTITION BY RANGE (a)"
    ));
    // The file of access lets nobody in by TCP without TLS and SCRAM.
    let url = |user: &str| {
        format!(
            "postgresql://{user}@localhost:{}/{}?hostaddr=127.0.0.1&sslmode=verify-full\
             &channel_binding=require&sslrootcert={}",
            cluster.cluster().port,
            database.name(),
            files.path("root.crt").display()
        )
    };
    let load = |url: &str, table: &str, more: &[&str], password: Option<&str>| {
        let mut command = fullbore_command();
        command.args(["load", &file, "--to", url, "--table", table, "--header", "none"]);
        command.args(["--method", "direct", "--json"]).args(more);
        command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
        command.env("HOME", files.folder()).env_remove("DATABASE_URL");
        command.envs(password.map(|password| ("PGPASSWORD", password)));
        let output = output_of(command);
        for said in [&output.stdout, &output.stderr] {
            assert!(!said.contains("s3cret"), "{said}");
        }
        output
    };
    let in_url = url(&format!("postgres:{}", percent_encoded(PASSWORD)));
    assert_direct(&load(&in_url, "ours", &["--publish", "replace"], None));
    assert_same(&database, "ours", "plain");
    let partitions = ["--publish", "partitions", "--streams", "2"];
    assert_direct(&load(&url("postgres"), "parted", &partitions, Some(PASSWORD)));
    assert_same(&database, "parted", "plain");
    assert_no_leftovers(&database);

    let wrong = load(&url("postgres"), "ours", &["--publish", "replace"], Some("s3cret? no"));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("password authentication failed"), "{}", wrong.stderr);
    // No record of a run holds it either.
    for entry in walk(&files.path("state")) {
        let content = std::fs::read(&entry).expect("read");
        let shows = content.windows(6).any(|part| part == b"s3cret");
        assert!(!shows, "{} holds the password", entry.display());
    }
}

/// All files below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Tables for a load through a pooler, and the rows: those of `bad.csv` break a constraint, either
/// at once or late.
fn pooled(cluster: &TestCluster) -> (TestDatabase<'_>, Files, [String; 3]) {
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (0..150_000).map(|k| format!("{k},row {k}\n")).collect();
    let good = files.write("good.csv", &rows);
    let late = files.write("late.csv", format!("{rows}-1,bad\n"));
    // More than all buffers on the way hold, after a first row that is refused.
    let early = files.write("early.csv", format!("-1,bad\n{}", rows.repeat(20)));
    database.psql(&format!(
        "CREATE EXTENSION fullbore;
         CREATE TABLE plain (a bigint CONSTRAINT not_negative CHECK (a >= 0), b text);
         CREATE TABLE ours (LIKE plain INCLUDING CONSTRAINTS);
         COPY plain FROM '{good}' (FORMAT csv)"
    ));
    (database, files, [good, late, early])
}

#[test]
fn direct_loads_through_a_pooler() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = extended_or_skip!(server);
        for mode in ["session", "transaction"] {
            let (database, files, [good, late, early]) = pooled(cluster);
            // As it comes it does not take a setting that every session of ours has.
            match Pooler::start(cluster, mode, "") {
                Ok(strict) => {
                    let url = strict.url(database.name());
                    let output = files.load_at(&url, &good, "ours", &DIRECT);
                    // Newer ones pass it on.
                    if output.code != 0 {
                        assert_eq!(output.code, 2, "{}", output.stderr);
                        for words in ["unsupported startup parameter", "ignore_startup_parameters"]
                        {
                            assert!(output.stderr.contains(words), "{}", output.stderr);
                        }
                    }
                }
                Err(missing) => skip!("{missing}"),
            }
            let pooler = Pooler::start(cluster, mode, "ignore_startup_parameters = IntervalStyle")
                .expect("it was there a moment ago");
            let url = pooler.url(database.name());
            let load = |file: &str, table: &str, publish: &str| {
                let args =
                    ["--method", "direct", "--publish", publish, "--header", "none", "--json"];
                files.load_at(&url, file, table, &args)
            };
            // After each failure the pool's connections are used again.
            for bad in [&late, &early, &late] {
                let output = load(bad, "ours", "replace");
                assert_eq!(output.code, 1, "{mode}: {}", output.stderr);
                for words in ["not_negative", "violates check constraint", " rejected, "] {
                    assert!(output.stderr.contains(words), "{mode}: {}", output.stderr);
                }
                assert_no_leftovers(&database);
                assert_direct(&load(&good, "ours", "replace"));
                assert_same(&database, "ours", "plain");
            }
            // By COPY, for which the same holds.
            let args = ["--method", "copy", "--header", "none", "--json", "--publish", "replace"];
            for (file, code) in [(&early, 1), (&late, 1), (&good, 0)] {
                let output = files.load_at(&url, file, "ours", &args);
                assert_eq!(output.code, code, "{mode}: {}", output.stderr);
            }
            assert_same(&database, "ours", "plain");
            database.psql("CREATE TABLE parted (a bigint, b text) PARTITION BY RANGE (a)");
            assert_direct(&load(&good, "parted", "partitions"));
            assert_same(&database, "parted", "plain");
            assert_no_leftovers(&database);
            // A pool would keep the database from being dropped.
            drop(pooler);
        }
    }
}

#[test]
fn a_load_says_how_its_pages_are_written() {
    // Tells each statement in its log.
    let settings = [("log_statement", "all")];
    for server in wanted([TestServer::Embedded18, TestServer::Pg16, TestServer::Pg14]) {
        if let Err(missing) = extension::install(server) {
            skip!("{missing}");
        }
        let cluster = fullbore_testing::start_or_skip!(server, &settings);
        let (database, files, [good, ..]) = pooled(&cluster);
        for (way, option, shown) in [
            ("auto", None, ""),
            ("buffered", Some(", IO 'buffered'"), "written through the server's page cache"),
            ("direct", Some(", IO 'direct'"), "written past the server's page cache"),
        ] {
            let length = log_of(&cluster).len();
            let args = ["--direct-io", way, "--header", "none", "--json"];
            let args = [&DIRECT[..], &args].concat();
            assert_direct(&files.load(&database, &good, "ours", &args));
            assert_same(&database, "ours", "plain");
            let log = &log_of(&cluster)[length..];
            let copy = log.lines().find(|line| line.contains("FORMAT fullbore")).expect("a COPY");
            match option {
                Some(option) => assert!(copy.contains(option), "{copy}"),
                None => assert!(!copy.contains(", IO"), "{copy}"),
            }
            let mut plan = vec!["plan", &good, "--to", database.url(), "--table", "ours"];
            plan.extend(["--publish", "replace", "--header", "none", "--direct-io", way]);
            let said = files.fullbore(&plan).stdout;
            let method = said.lines().find(|line| line.starts_with("  method: direct"));
            let method = method.unwrap_or_else(|| panic!("not direct: {said}"));
            assert!(method.contains(shown), "{method}");
            assert_eq!(method.contains("--direct-io"), way != "auto", "{method}");
        }
        assert_sound(&database, "ours");
    }
}

fn log_of(cluster: &TestCluster) -> String {
    std::fs::read_to_string(cluster.cluster().log_file()).expect("a log")
}

#[test]
fn what_only_the_direct_method_has_is_refused_beside_copy() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a integer)");
    let files = Files::new();
    let file = files.write("rows.csv", "1\n");
    for option in [["--direct-io", "buffered"], ["--compress", "lz4"]] {
        let args = [&["--method", "copy", "--header", "none"][..], &option].concat();
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(option[0]), "{}", output.stderr);
        assert!(
            output.stderr.contains("hint: choose --method auto or direct"),
            "{}",
            output.stderr
        );
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    }
    let output = files.load(&database, &file, "t", &["--direct-io", "sometimes"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("known are"), "{}", output.stderr);
}
