//! Which method is chosen, that the plan says so and why, and what `--method direct` refuses.

use crate::common::Files;
use crate::common::codes::REFUSED;
use fullbore_testing::{TestDatabase, TestServer, extended_or_skip};

/// What the plan says of the method.
fn planned(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str]) -> String {
    let mut args = vec!["plan", file, "--to", database.url(), "--table", "t", "--header", "none"];
    args.extend(more);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let line = output.stdout.lines().find(|line| line.starts_with("  method: "));
    line.expect("the plan names the method").trim_start().to_owned()
}

/// The plan falls back to COPY with this reason, and `--method direct` refuses with it.
fn falls_back(database: &TestDatabase<'_>, files: &Files, file: &str, more: &[&str], why: &str) {
    let said = planned(database, files, file, more);
    assert!(said.starts_with("method: copy, since "), "{said}");
    assert!(said.contains(why), "{said:?} lacks {why:?}");
    let mut args = vec!["--method", "direct", "--header", "none"];
    args.extend(more);
    let output = files.load(database, file, "t", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains(why), "{} lacks {why:?}", output.stderr);
    let hint = output.stderr.split("hint: ").nth(1).expect("a hint");
    assert!(hint.contains("--method auto") && !hint.contains(".;"), "{hint}");
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
}

const REPLACE: [&str; 2] = ["--publish", "replace"];

#[test]
fn direct_is_chosen_where_it_can_be_done() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "1,a\n2,b\n");
    database.psql("CREATE TABLE t (a integer, b text)");

    falls_back(&database, &files, &file, &REPLACE, "does not have the extension");
    database.psql("CREATE EXTENSION fullbore");
    let said = planned(&database, &files, &file, &REPLACE);
    assert!(said.starts_with("method: direct, since the server has the extension"), "{said}");
    let said = planned(&database, &files, &file, &["--publish", "replace", "--method", "copy"]);
    assert_eq!(said, "method: copy, since it was requested");
    let said = planned(&database, &files, &file, &["--publish", "replace", "--method", "direct"]);
    let why = "method: direct, since it was requested, the server has the extension and the table";
    assert!(said.starts_with(why), "{said}");

    // A plan touches nothing: not even the table that was described.
    let tables = database.psql("SELECT string_agg(relname, ',') FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace");
    assert_eq!(tables, "t");
    let args = ["--publish", "replace", "--header", "none", "--json"];
    let output = files.load(&database, &file, "t", &args);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!((output.code, said["method"].as_str()), (0, Some("direct")));
    assert_eq!(database.psql("SELECT string_agg(b, ',' ORDER BY a) FROM t"), "a,b");

    // The record of the run says it, too.
    let shown = files.fullbore(&["runs", "show", "last", "--json"]);
    assert!(shown.stdout.contains(r#""method":"direct""#), "{}", shown.stdout);
}

#[test]
fn what_copy_must_load_falls_back_with_its_reason() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "1,2\n2,3\n");
    database.psql("CREATE EXTENSION fullbore; CREATE TABLE t (a integer, b integer)");
    falls_back(&database, &files, &file, &[], "append always uses COPY");
    falls_back(&database, &files, &file, &["--atomic"], "append always uses COPY");

    database.psql("DROP TABLE t; CREATE TABLE t (a integer, b integer, c integer GENERATED ALWAYS AS (a + b) STORED)");
    falls_back(&database, &files, &file, &REPLACE, "generated");

    // These can be loaded directly, but would gain nothing by it.
    database.psql("DROP TABLE t; CREATE TABLE t (a integer, b jsonb)");
    let said = planned(&database, &files, &file, &REPLACE);
    assert_eq!(
        said,
        "method: copy, since all rows would travel out of band: column b is pg_catalog.jsonb, \
         which only the server can lay out"
    );
    database.psql("DROP TABLE t; CREATE TABLE t (a integer, b integer, c integer DEFAULT 7)");
    let some = ["--publish", "replace", "--columns", "a,b"];
    let said = planned(&database, &files, &file, &some);
    assert!(said.ends_with("column c is not in the files"), "{said}");
    let args =
        ["--publish", "replace", "--columns", "a,b", "--method", "direct", "--header", "none"];
    let output = files.load(&database, &file, "t", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT sum(a), sum(b), sum(c) FROM t"), "3|5|14");
}

#[test]
fn a_column_that_has_no_binary_form_keeps_all_rows_text_even_where_it_is_not_sent() {
    for server in TestServer::MAJORS {
        let cluster = extended_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        let file = files.write("rows.csv", "1,2\n2,3\n");
        database.psql(
            "CREATE EXTENSION fullbore;
             CREATE TABLE t (a integer, owner aclitem DEFAULT '=r/postgres', b integer)",
        );
        let some = ["--publish", "replace", "--columns", "a,b"];
        let said = planned(&database, &files, &file, &some);
        assert!(said.contains("no binary form for owner (aclitem)"), "{said}");
        for publish in [&["replace"][..], &["replace", "--method", "direct"], &["append"]] {
            let args = ["--columns", "a,b", "--header", "none", "--publish"];
            let output = files.load(&database, &file, "t", &[&args, publish].concat());
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
        let found = database
            .psql("SELECT a, b, count(*), min(owner::text) FROM t GROUP BY 1, 2 ORDER BY 1");
        assert_eq!(found, "1|2|2|=r/postgres\n2|3|2|=r/postgres");
    }
}

#[test]
fn tables_that_are_made_are_chosen_for_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let rows: String = (0..1000).map(|i| format!("{i},row {i}\n")).collect();
    let file = files.write("rows.csv", rows);
    let made = ["--create", "--publish", "partitions", "--partition-by", "column1"];
    let said = planned(&database, &files, &file, &made);
    assert!(said.starts_with("method: direct"), "{said}");
    let mut args = vec!["--method", "direct", "--header", "none"];
    args.extend(made);
    let output = files.load(&database, &file, "t", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*), sum(column1) FROM t"), "1000|499500");
}

#[test]
fn direct_needs_a_server() {
    let files = Files::new();
    let file = files.write("rows.csv", "1,2\n");
    let output = files.fullbore(&["load", &file, "--to", "null:", "--method", "direct"]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("needs a PostgreSQL server"), "{}", output.stderr);
}

#[test]
fn what_a_database_lacks_is_said() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("rows.csv", "1\n");
    let check = |url: &str| files.fullbore(&["extension", "check", url]);
    let output = check(database.url());
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stdout.contains("CREATE EXTENSION fullbore"), "{}", output.stdout);

    database.psql("CREATE EXTENSION fullbore");
    let output = check(database.url());
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.starts_with("ready: extension "), "{}", output.stdout);

    // A role that nobody gave a grant.
    let role = format!("loader_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA public TO {role};
         SET ROLE {role}; CREATE TABLE t (a integer)"
    ));
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    assert_ne!(url, database.url(), "the URL names the role");
    let output = check(&url);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let grants: Vec<&str> =
        output.stdout.lines().filter_map(|line| line.split("superuser: ").nth(1)).collect();
    assert_eq!(grants.len(), 2, "{}", output.stdout);
    let args = ["--method", "direct", "--publish", "replace", "--header", "none"];
    let output = files.load_at(&url, &file, "t", &args);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(
        output.stderr.contains("lacks USAGE privilege on schema fullbore"),
        "{}",
        output.stderr
    );
    // What it says to run is all that is needed.
    database.psql(&grants.join(";"));
    let output = files.load_at(&url, &file, "t", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn installing_says_what_is_wrong() {
    let files = Files::new();
    let output = files.fullbore(&["extension", "install", "--pg-config", "/no/pg_config"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("could not run /no/pg_config"), "{}", output.stderr);
    assert!(output.stderr.contains("hint:"), "{}", output.stderr);
}

#[test]
fn the_embedded_server_has_the_extension() {
    let server = TestServer::Embedded18;
    if let Err(missing) = fullbore_testing::extension::install(server) {
        fullbore_testing::skip!("{missing}");
    }
    let bin_dir = server.installation().expect("it was just installed into").bin_dir;
    // A short path, for the socket's sake; its parent can be passed by the server's user.
    let home = Files::new();
    let run = |args: &[&str]| {
        let mut command = fullbore_testing::fullbore_command();
        command.args(args).env("FULLBORE_HOME", home.path("home"));
        command.env("FULLBORE_POSTGRES_BIN", &bin_dir).env_remove("DATABASE_URL");
        fullbore_testing::output_of(command)
    };
    let started = run(&["server", "start"]);
    let checked = run(&["extension", "check", started.stdout.trim()]);
    let made = run(&["psql", "-X", "-q", "-c", "CREATE DATABASE another"]);
    // It opens that server whatever the environment says, and takes psql's own options.
    let mut opened = fullbore_testing::fullbore_command();
    opened.args([
        "psql",
        "-X",
        "-At",
        "-d",
        "another",
        "-c",
        "SELECT current_database(), current_user",
    ]);
    opened.env("FULLBORE_HOME", home.path("home")).env("FULLBORE_POSTGRES_BIN", &bin_dir);
    opened.env("PGHOSTADDR", "192.0.2.1").env("PGUSER", "nobody").env("PGREQUIREAUTH", "md5");
    let opened = fullbore_testing::output_of(opened);
    let another = started.stdout.trim().replace("/postgres?", "/another?");
    let checked_another = run(&["extension", "check", &another]);
    let stopped = run(&["server", "stop"]);
    assert_eq!(opened.stdout.trim(), "another|postgres", "{}", opened.stderr);
    for output in [started, checked, made, checked_another, stopped] {
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    }
}
