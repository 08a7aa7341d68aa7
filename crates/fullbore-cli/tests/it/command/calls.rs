//! The command as a person or a script uses it: what it prints, where, and how it ends.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::common;
use crate::common::Files;
use fullbore_testing::{TestServer, fullbore_command, output_of, shared_or_skip};

#[test]
fn json_is_one_object_on_stdout_and_the_record_agrees() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int, b text)");
    let files = Files::new();
    let file = files.write("x.csv", "a,b\n1,x\n2,y\nthree,z\n");
    let output = files.load(&database, &file, "t", &["--json", "--max-rejects", "1"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("one JSON object");
    assert_eq!((said["rows"].as_u64(), said["rejected"].as_u64()), (Some(2), Some(1)));
    assert_eq!(said["method"], "copy");
    assert!(said["bytes_per_second"].as_f64().expect("a number") > 0.0);
    let destination = said["destination"].as_str().expect("text");
    assert!(destination.starts_with("postgresql://"), "{destination}");

    let listed = files.fullbore(&["runs", "list", "--json"]);
    let runs: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(runs[0]["run_id"], said["run_id"]);
    assert_eq!(runs[0]["state"], "loaded");
    assert_eq!(runs[0]["rows"], 2);
    assert_eq!(runs[0]["rejected"], 1);
    let listed = files.fullbore(&["runs", "list"]).stdout;
    assert!(listed.contains(&format!(" t from {file} to {destination}")), "{listed}");
    let shown = files.fullbore(&["runs", "show", "last"]);
    assert!(shown.stdout.contains("loaded 2 rows, 1 rejected"), "{}", shown.stdout);
    assert_eq!(files.fullbore(&["runs", "show", "../../etc"]).code, 2);
    // A load that was loaded before ends as it did then, and is told as such.
    let resume = ["--json", "--max-rejects", "1", "--resume"];
    let again = files.load(&database, &file, "t", &resume);
    assert_eq!(again.code, 3, "{}", again.stderr);
    let told: serde_json::Value = serde_json::from_str(&again.stdout).expect("one JSON object");
    assert_eq!(told["run_id"], said["run_id"]);
    assert_eq!((told["rows"].as_u64(), told["rejected"].as_u64()), (Some(2), Some(1)));
    assert_eq!(told["finished_before"], true);
    // What is kept of a run quotes its source.
    let run_id = said["run_id"].as_str().expect("an id");
    let folder = files.path("state").join("runs").join(run_id);
    let mode = std::fs::metadata(&folder).expect("the run's folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_folder_for_rejects_that_cannot_be_kept_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let folder = files.folder().join(std::ffi::OsStr::from_bytes(b"not\xffutf8"));
    std::fs::create_dir(&folder).expect("made");
    let mut command = fullbore_command();
    command.current_dir(&folder).env("FULLBORE_HOME", files.path("state"));
    command.args(["load", &file, "--to", database.url(), "--table", "t"]);
    let output = output_of(command);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for words in ["is not valid UTF-8", "--reject-dir"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_plan_touches_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = files.write("orders.csv", "id,day,note\n1,2024-01-01,x\n2,2024-01-02,\n");
    for args in [&["plan"][..], &["load", "--dry-run"]] {
        let mut args = args.to_vec();
        args.extend([file.as_str(), "--to", database.url(), "--create"]);
        let output = files.fullbore(&args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        for words in ["table orders", "\"day\" date", "header", "append"] {
            assert!(output.stdout.contains(words), "{} lacks {words}", output.stdout);
        }
    }
    assert_eq!(database.psql("SELECT to_regclass('orders')"), "");
    // And the same for real.
    let output = files.fullbore(&["load", &file, "--to", database.url(), "--create"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT * FROM orders ORDER BY id"), "1|2024-01-01|x\n2|2024-01-02|");
}

#[test]
fn a_job_file_loads_several_tables() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE a (n int); CREATE TABLE b (n int)");
    let files = Files::new();
    files.write("a.csv", "1\n2\n");
    files.write("b.1.csv", "3\n");
    files.write("b.2.csv", "4\n5\n");
    let job = files.write(
        "job.toml",
        "max_rejects = 0\n[[table]]\nname = \"a\"\nsources = [\"a.csv\"]\nheader = \"none\"\n\
         [[table]]\nname = \"b\"\nsources = [\"b.*.csv\"]\nheader = \"none\"\n",
    );
    let set = ["--set", "table.b.publish=replace", "--set", "streams=2"];
    let mut args = vec!["load", job.as_str(), "--to", database.url()];
    args.extend(set);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(database.psql("SELECT sum(n) FROM a; SELECT sum(n) FROM b"), "3\n12");
    let output = files.fullbore(&["load", &job, "--to", database.url(), "--set", "strems=2"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("strems"), "{}", output.stderr);

    // Options of the run hold beside a job file; those of a table have no one table to hold for.
    let again = ["--if-loaded", "again"];
    let plan = ["plan", &job, "--to", database.url(), "--streams", "3"];
    let output = files.fullbore(&[&plan[..], &again].concat());
    assert!(output.stdout.contains("3 streams"), "{}", output.stdout);
    files.write("b.1.csv", "3\nx\n");
    let rejects = ["--max-rejects", "1", "--statistics=none", "--set", "table.b.publish=replace"];
    let mut args = vec!["load", job.as_str(), "--to", database.url()];
    args.extend(rejects);
    args.extend(again);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(!output.stderr.contains("analyze"), "{}", output.stderr);
    let output = files.fullbore(&["load", &job, "--to", database.url(), "--publish", "replace"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--set table.NAME"), "{}", output.stderr);
}

#[test]
fn a_wrong_password_is_in_no_message_and_no_record() {
    let built = fullbore_testing::TestCluster::builder(TestServer::Embedded18).tcp("right").start();
    let Ok(cluster) = built else { fullbore_testing::skip!("no PostgreSQL 18") };
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let url = cluster.cluster().tcp_url("postgres").expect("it listens");
    let wrong = url.replace("right", "wr0ng-s3cret");
    assert_ne!(url, wrong);
    let output = files.fullbore(&["load", &file, "--to", &wrong, "--table", "t", "--json"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for text in [&output.stderr, &output.stdout] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert!(output.stderr.contains("password authentication failed"), "{}", output.stderr);
    assert!(!files.path("state/runs").exists(), "nothing ran, nothing is recorded");
}

#[test]
fn parquet_and_null_destinations() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String =
        (0..5000).map(|i| format!("{i},{i}.25,2024-01-{:02},n {i}\n", i % 28 + 1)).collect();
    let file = files.write("x.csv", format!("id,price,day,note\n{rows}"));
    for to in ["null:", "null:batches"] {
        let output = files.fullbore(&["load", &file, "--to", to, "--json"]);
        let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert_eq!(said["rows"], 5000, "{to}");
    }
    let folder = format!("parquet:{}", files.path("out").display());
    let types = ["--type", "price=numeric(10,2)"];
    let mut args = vec!["load", file.as_str(), "--to", folder.as_str(), "--table", "x"];
    args.extend(types);
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // And from Parquet into the server: what comes out is what went in.
    let made = files.path("out").display().to_string();
    let ours =
        files.fullbore(&["load", &made, "--to", database.url(), "--table", "ours", "--create"]);
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    database.psql(&format!(
        "CREATE TABLE plain (id bigint, price numeric(10,2), day date, note text);
         COPY plain FROM '{file}' (FORMAT csv, HEADER)"
    ));
    common::assert_same(&database, "ours", "plain");
}

#[test]
fn a_late_value_that_does_not_fit_names_the_guess() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let mut text = String::from("id,amount of it\n");
    text.extend((0..200_000).map(|i| format!("{i},{}\n", i % 977)));
    text.insert_str(text.len() / 3, "\n1,unknown\n");
    let text = text.replace("\n\n", "\n");
    let file = files.write("late.csv", &text);
    let create = ["--create", "--atomic"];
    let output = files.load(&database, &file, "late", &create);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let advice = "inferred as bigint, use --type 'amount of it=text'";
    assert!(files.has_ending(".rejected"));
    // The file is cut into several pieces; the line is told all the same.
    let line = text.lines().position(|line| line == "1,unknown").expect("it is there") + 1;
    let place = format!("late.csv, line {line}, column amount of it");
    for words in [advice, "rejected rows are in", &place] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    let allowed = ["--create", "--max-rejects", "2", "--reject-dir", "rejects"];
    let output = files.load(&database, &file, "late", &allowed);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let rejects = std::fs::read_dir(files.path("rejects")).expect("listed").flatten();
    let reasons = rejects
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .expect("reasons");
    let reasons = std::fs::read_to_string(reasons).expect("read");
    assert!(reasons.contains(advice) && reasons.contains("\"unknown\""), "{reasons}");
    // As the advice says; and a table that is there has nothing inferred.
    let given = ["--create", "--type", "amount of it=text"];
    assert_eq!(files.load(&database, &file, "taken", &given).code, 0);
    let again = files.load(&database, &file, "late", &["--atomic"]);
    assert!(!again.stderr.contains("inferred"), "{}", again.stderr);
    // One that is in the samples turns the column to text, and what makes it a number is said.
    for (value, said) in [
        ("none yet", "1 sampled value is not whole numbers, such as \"none yet\"; --type"),
        ("?", "\"?\" looks like NULL; --null '' --null '?' makes it bigint"),
    ] {
        let early = files.write("early.csv", text.replace("\n7,7\n", &format!("\n7,{value}\n")));
        let planned =
            files.fullbore(&["plan", &early, "--to", database.url(), "--table", "e", "--create"]);
        let said = format!("column amount of it is text, since {said}");
        assert!(planned.stdout.contains(&said), "{}", planned.stdout);
        assert!(planned.stdout.contains("\"amount of it\" text"), "{}", planned.stdout);
    }
}

#[test]
fn a_file_of_one_row_without_line_end_has_types() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    for (name, text) in [("lf.csv", "id,day\n1,2024-01-01"), ("crlf.csv", "id,day\r\n1,2024-01-01")]
    {
        let file = files.write(name, text);
        let output = files.load(&database, &file, &name.replace('.', "_"), &["--create"]);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    let types = "SELECT pg_typeof(id), pg_typeof(day) FROM";
    assert_eq!(
        database.psql(&format!("{types} lf_csv UNION ALL {types} crlf_csv")),
        "bigint|date\nbigint|date"
    );
}

#[test]
fn nothing_that_comes_from_elsewhere_acts_on_the_terminal() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE \"t\x1b[2J\" (a int CHECK (a < 9))");
    let files = Files::new();
    let file = files.write("x\x1b]0;owned\x07.csv", "a\n1\n\x1b[31mred\n");
    let quiet = |output: &fullbore_testing::Output| {
        for text in [&output.stdout, &output.stderr] {
            assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
        }
    };
    // A name, a value, and what the server says of both.
    for more in [&[][..], &["--max-rejects", "1"], &["--dry-run"]] {
        quiet(&files.load(&database, &file, "\"t\x1b[2J\"", more));
    }
    let shown = files.fullbore(&["runs", "show", "last"]);
    quiet(&shown);
    assert!(shown.stdout.contains("\\u{1b}[2J"), "{}", shown.stdout);
    quiet(&files.fullbore(&["runs", "list"]));
    let missing = files.fullbore(&["plan", "no\x1b[8m.csv", "--to", "null:"]);
    quiet(&missing);
    assert!(missing.stderr.contains("no\\u{1b}[8m.csv"), "{}", missing.stderr);
}

#[test]
fn a_machine_without_threads_to_give_ends_a_load() {
    let files = Files::new();
    let file = files.write("t.csv", "1\n2\n");
    let mut command = fullbore_command();
    command.args(["load", &file, "--to", "null:", "--table", "t"]).current_dir(files.folder());
    command.env("FULLBORE_HOME", files.path("state"));
    // More than any machine maps for a thread.
    command.env("RUST_MIN_STACK", (1u64 << 60).to_string());
    let output = output_of(command);
    assert_eq!(output.code, 1, "{}", output.stderr);
    for words in ["another thread can't be started", "--parsers", "ulimit"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}

#[test]
fn readers_who_went_away_do_not_end_a_load() {
    let files = Files::new();
    let file = files.write("t.csv", "1\n2\n");
    for more in [&[][..], &["--json"]] {
        let mut command = fullbore_command();
        command.args(["load", &file, "--to", "null:", "--table", "t"]).args(more);
        command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut load = command.spawn().expect("started");
        drop((load.stdout.take(), load.stderr.take()));
        assert_eq!(load.wait().expect("ended").code(), Some(0), "{more:?}");
    }
    let runs = files.fullbore(&["runs", "list", "--json"]);
    assert_eq!(runs.stdout.matches("\"loaded\"").count(), 2, "{}", runs.stdout);
}

#[test]
fn a_plan_is_an_object_where_one_is_asked_for() {
    let files = Files::new();
    let file = files.write("t.csv", "1\n2\n");
    let args = ["load", &file, "--to", "null:", "--table", "t", "--dry-run", "--json"];
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let said: serde_json::Value = serde_json::from_str(&output.stdout).expect("one JSON object");
    assert!(said["text"].as_str().expect("text").contains("t.csv"), "{said}");
    assert_eq!(said["version"], 1);
    let table = &said["tables"][0];
    assert_eq!((&table["name"], &table["publish"]), (&"t".into(), &"append".into()), "{said}");
    assert_eq!(table["files"][0], file.as_str());
    assert_eq!(table["dialect"]["delimiter"], ",");
    assert_eq!(
        (&table["columns"][0]["type"], &table["columns"][0]["field"]),
        (&"bigint".into(), &1.into())
    );
    let piece = &said["pieces"][0];
    assert_eq!((&piece["table"], &piece["unit"]), (&0.into(), &"bytes".into()), "{said}");
    assert_eq!((&piece["ranges"][0]["file"], &piece["ranges"][0]["start"]), (&0.into(), &0.into()));
}
