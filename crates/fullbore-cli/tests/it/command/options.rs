//! Options that could do nothing, or something else than what was meant, are refused; secrets in the
//! wrong place are not said again; a run's server is found again by its id.

use crate::common::Files;
use crate::common::codes::REFUSED;
use fullbore_testing::{Output, TestCluster, TestServer, fullbore_command, output_of, skip};

/// Refused with these words, and without what is secret.
fn assert_refused(output: &Output, words: &[&str]) {
    assert_eq!(output.code, REFUSED, "{}{}", output.stdout, output.stderr);
    for words in words {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

fn fullbore(files: &Files, environment: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = fullbore_command();
    command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
    command.envs(environment.iter().copied()).args(args);
    output_of(command)
}

#[test]
fn options_of_a_table_beside_a_job_file_are_refused_even_where_they_are_the_usual_ones() {
    let files = Files::new();
    files.write("x.csv", "a\n1\n");
    let job = files.write("job.toml", "[[table]]\nname = \"t\"\nsources = [\"x.csv\"]\n");
    for (option, value) in [("--publish", "append"), ("--publish", "replace"), ("--table", "t")] {
        let output = files.fullbore(&["load", &job, "--to", "null:", option, value]);
        assert_refused(&output, &["with a job file", "--set"]);
    }
    assert_eq!(files.fullbore(&["load", &job, "--to", "null:"]).code, 0);
}

#[test]
fn what_only_a_server_can_do_is_refused_elsewhere() {
    let files = Files::new();
    let file = files.write("x.csv", "a\n1\n");
    let folder = format!("parquet:{}", files.path("out").display());
    for to in ["null:", "null:batches", &folder] {
        for options in [
            &["--verify", "full"][..],
            &["--method", "direct"],
            &["--compress", "lz4"],
            &["--direct-io", "direct"],
            &["--tablespaces", "one,two"],
            &["--create", "--schema", "nosuch.sql"],
        ] {
            let option = options.iter().rfind(|o| o.starts_with("--")).expect("an option");
            let mut args = vec!["load", &file, "--to", to];
            args.extend(options);
            assert_refused(&files.fullbore(&args), &[option, "needs a PostgreSQL server", "--to"]);
        }
    }
}

#[test]
fn what_says_how_a_table_is_made_is_refused_where_none_is_made() {
    let files = Files::new();
    let file = files.write("x.csv", "a\n1\n");
    let nowhere = "postgresql://127.0.0.1:1/nowhere";
    let refused = |options: &[&str], words: &[&str]| {
        let mut args = vec!["load", &file, "--to", nowhere, "--table", "t"];
        args.extend(options);
        assert_refused(&files.fullbore(&args), words);
    };
    refused(&["--type", "a=bigint"], &["--type", "applies only to a table", "--create"]);
    refused(
        &["--create", "--schema", "t.sql", "--type", "a=bigint"],
        &["--type", "applies only to a table", "--schema"],
    );
    for (key, option) in [("schema_file", "--schema"), ("partition_by", "--partition-by")] {
        let text = format!("[[table]]\nname = \"t\"\nsources = [\"x.csv\"]\n{key} = \"a\"\n");
        let job = files.write("job.toml", text);
        let output = files.fullbore(&["plan", &job, "--to", nowhere]);
        assert_refused(&output, &[option, "applies only to a table", "--create"]);
    }
    // Without a server a type says how the field is read.
    let output = files.fullbore(&["load", &file, "--to", "null:", "--type", "a=bigint"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn what_is_for_a_load_is_refused_by_what_loads_nothing() {
    let files = Files::new();
    let file = files.write("x.csv", "a\n1\n");
    for option in ["--live", "--log-file=x.log", "--ceilings=x.json"] {
        let output = files.fullbore(&["plan", &file, "--to", "null:", option]);
        assert_refused(&output, &[option.split('=').next().expect("a name"), "not to a plan"]);
    }
    let output = files.fullbore(&["preflight", "all", &file, "--to", "null:", "--live"]);
    assert_refused(&output, &["--live", "not to preflight"]);
}

#[test]
fn passwords_in_the_wrong_place_are_not_said_again() {
    let files = Files::new();
    files.write("x.csv", "a\n1\n");
    let url = "postgresql://u:hunter2@127.0.0.1:1/d";
    for (text, place) in [
        (format!("streams = 2\nto = \"{url}\n"), "line 2, column"),
        (format!("to = {url}\n"), "line 1, column"),
        (format!("to = [\"{url}\"]\n"), "expected a string"),
    ] {
        let job = files.write("job.toml", text);
        let output = files.fullbore(&["load", &job, "--json"]);
        assert_refused(&output, &["job.toml", place]);
    }
    let job = files.write("job.toml", "[[table]]\nname = \"t\"\nsources = [\"x.csv\"]\n");
    for setting in [format!("x.to={url}"), url.to_owned(), format!("to.x={url}")] {
        let output = files.fullbore(&["load", &job, "--set", &setting, "--json"]);
        assert_refused(&output, &["--set"]);
    }
    for source in [url, "host=127.0.0.1 password=hunter2"] {
        let output = files.fullbore(&["load", source, "--to", "null:", "--json"]);
        assert_refused(&output, &["database", "--to"]);
    }
    let text = format!("[[table]]\nname = \"t\"\nsources = [\"{url}\"]\n");
    let output = files.fullbore(&["load", &files.write("job.toml", text), "--to", "null:"]);
    assert_refused(&output, &["database"]);
}

/// A run's job is kept without its password.
#[test]
fn a_run_is_gone_back_to_with_the_password_of_the_environment() {
    let started = TestCluster::builder(TestServer::Embedded18).tcp("hunter2").start();
    let Ok(cluster) = started else { skip!("no PostgreSQL 18") };
    cluster.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "a\n1\n2\n");
    let port = cluster.cluster().port;
    let url = |password: &str| format!("postgresql://postgres{password}@127.0.0.1:{port}/postgres");
    let whole = url(":hunter2");
    for name in ["FULLBORE_TO", "DATABASE_URL"] {
        let known = [(name, whole.as_str())];
        cluster.psql("TRUNCATE t");
        let load = ["load", &file, "--table", "t", "--json", "--verify", "full"];
        let loaded = fullbore(&files, &known, &load);
        assert_eq!(loaded.code, 0, "{}", loaded.stderr);
        let said: serde_json::Value = serde_json::from_str(&loaded.stdout).expect("JSON");
        let run = said["run_id"].as_str().expect("an id");
        let verify = ["runs", "verify", run];
        let verified = fullbore(&files, &known, &verify);
        assert_eq!(verified.code, 0, "{}", verified.stderr);
        // That of another server, and none.
        let other = whole.replace("/postgres", "/template1");
        for environment in [&[(name, other.as_str())][..], &[]] {
            let refused = fullbore(&files, environment, &verify);
            assert_refused(&refused, &["asks for a password"]);
        }
    }
}

#[test]
fn the_embedded_server_is_started_for_a_run_by_its_id() {
    let files = Files::new();
    let file = files.write("x.csv", "a\n1\n2\n");
    let Ok(installation) = TestServer::Embedded18.installation() else { skip!("no PostgreSQL 18") };
    let programs = installation.bin_dir.display().to_string();
    let by_itself = [("FULLBORE_POSTGRES_BIN", programs.as_str())];
    let load = ["load", &file, "--table", "t", "--create", "--json", "--verify", "full"];
    let loaded = fullbore(&files, &by_itself, &load);
    let stop = || fullbore(&files, &by_itself, &["server", "stop"]);
    assert_eq!(stop().code, 0);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let said: serde_json::Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    let run = said["run_id"].as_str().expect("an id");
    let verified = fullbore(&files, &by_itself, &["runs", "verify", run]);
    assert_eq!(stop().code, 0);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}

#[test]
fn errors_of_a_job_file_have_their_line() {
    let files = Files::new();
    files.write("x.csv", "a\n1\n");
    let table = "# a job\n[[table]]\nname = \"t\"\n";
    for (line, words) in [
        ("heder = \"true\"", "unknown field `heder`"),
        ("sources = \"x.csv\"", "invalid type: string"),
        ("publish = \"replce\"", "unknown variant `replce`"),
        ("atomic = 1", "invalid type: integer"),
    ] {
        let job = files.write("job.toml", format!("{table}{line}\n"));
        let output = files.fullbore(&["load", &job, "--to", "null:"]);
        assert_refused(&output, &["job.toml, line 4, column", words]);
    }
    // A setting is named as one.
    let job = files.write("job.toml", format!("{table}sources = [\"x.csv\"]\n"));
    let output = files.fullbore(&["load", &job, "--to", "null:", "--set", "table.t.atomic=1"]);
    assert_refused(&output, &["job.toml with --set", "invalid type"]);
}

#[test]
fn a_type_for_a_column_without_a_header_asks_for_the_header() {
    let files = Files::new();
    let file = files.write("d.csv", "1;2\n3;4\n");
    let args = ["load", &file, "--to", "null:", "--type", "Datum=date", "--header", "none"];
    let words = ["no header was recognised", "called column1, column2", "--header true"];
    assert_refused(&files.fullbore(&args), &words);
    let named = files.write("n.csv", "a;b\n3;4\n");
    let args = ["load", &named, "--to", "null:", "--type", "Datum=date", "--header", "true"];
    assert_refused(&files.fullbore(&args), &["no such column; they have a, b"]);
}
