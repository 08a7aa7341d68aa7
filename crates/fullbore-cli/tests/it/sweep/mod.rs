//! `fullbore sweep`: loads with other options, into scratch tables alone, and what is said of them.

use crate::common::Files;
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip};
use serde_json::Value;

fn rows(count: u32) -> String {
    (0..count).map(|n| format!("{n},row number {n},{}.25\n", n % 1000)).collect()
}

fn sweep(files: &Files, args: &[&str]) -> Output {
    files.fullbore(&[&["sweep"], args].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", output.stdout, output.stderr))
}

fn table(database: &TestDatabase<'_>) {
    database
        .psql("CREATE TABLE sales (id int PRIMARY KEY, note text NOT NULL, price numeric(8,2))");
}

/// Nothing of an experiment is there, and nothing was loaded.
fn is_clean(database: &TestDatabase<'_>) {
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^fullbore'";
    assert_eq!(database.psql(left), "0");
    assert_eq!(database.psql("SELECT count(*) FROM sales"), "0");
}

#[test]
fn every_combination_is_measured_into_scratch_tables() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    table(&database);
    let file = files.write("sales.csv", rows(40_000));
    let job = [file.as_str(), "--to", database.url(), "--table", "sales", "--header", "none"];
    let out = files.path("experiment").display().to_string();
    let vary = ["--vary", "streams=1,2", "--vary", "set.work_mem=1MB,64MB", "--out", &out];
    // So narrow that no interval is: every block is measured.
    let bounds = ["--repeat", "4", "--precision", "0.1%", "--json"];
    let output = sweep(&files, &[&job[..], &vary, &bounds].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = json(&output);
    let found_rows = found["rows"].as_array().expect("rows");
    let cells: Vec<_> =
        found_rows.iter().map(|row| row["cell"].as_str().expect("a cell")).collect();
    assert_eq!(cells[0], "streams=1 set.work_mem=1MB");
    assert_eq!(cells.len(), 4);
    for row in found_rows {
        assert_eq!(row["count"], 4, "{row}");
        assert!(row["rate"].as_f64().expect("a rate") > 0.0, "{row}");
        assert_eq!(row["change"].is_null(), row["is_baseline"] == true, "{row}");
    }
    let change = &found_rows[3]["change"];
    assert!(change["low"].as_f64() <= change["high"].as_f64() && change["pairs"] == 4, "{change}");
    is_clean(&database);
    assert!(!files.path("state/runs").exists(), "its loads are no runs of anybody's");
    let page = std::fs::read_to_string(files.path("experiment/index.html")).expect("a page");
    assert!(page.contains("Rate by both") && page.contains("streams=2"), "{page}");
    // The same command finds everything measured.
    let again = sweep(&files, &[&job[..], &vary, &bounds].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(json(&again)["rows"], found["rows"]);
    assert!(again.stderr.contains("loads were measured before"), "{}", again.stderr);
    // Another experiment does not go on with it.
    let other = sweep(&files, &[&job[..], &["--vary", "streams=1,3", "--out", &out]].concat());
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("is of another experiment"), "{}", other.stderr);
}

#[test]
fn changes_follow_each_other() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    table(&database);
    let file = files.write("sales.csv", rows(20_000));
    let job = [file.as_str(), "--to", database.url(), "--table", "sales", "--header", "none"];
    let out = files.path("steps").display().to_string();
    let vary = ["--vary", "publish=append,replace", "--vary", "statistics=none,analyze"];
    let more = ["--stepwise", "--repeat", "2", "--sample", "50%", "--out", &out];
    let output = sweep(&files, &[&job[..], &vary, &more, &["--json"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = json(&output);
    let steps = found["steps"].as_array().expect("steps");
    assert_eq!((&steps[0]["factor"], &steps[0]["tried"]), (&"publish".into(), &"replace".into()));
    // Two pairs are too few for an interval, and nothing is kept without one.
    assert!(steps.iter().all(|step| step["is_kept"] == false && step["alone"]["low"].is_null()));
    is_clean(&database);
    let text = sweep(&files, &[&job[..], &vary, &more].concat());
    assert!(text.stdout.contains("cumulative"), "{}", text.stdout);
}

#[test]
fn a_sample_is_a_part_of_the_records() {
    let files = Files::new();
    let file = files.write("sales.csv", rows(400_000));
    let size = std::fs::metadata(&file).expect("there").len() as f64;
    let job = [file.as_str(), "--to", "null:", "--table", "sales", "--header", "none"];
    let vary = ["--vary", "parsers=1,2", "--repeat", "1", "--piece-size", "200kB", "--json"];
    let out = files.path("sample").display().to_string();
    let output = sweep(&files, &[&job[..], &vary, &["--sample", "25%", "--out", &out]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    for one in json(&output)["measured"].as_array().expect("loads") {
        let share = one["bytes"].as_f64().expect("bytes") / size;
        assert!((0.22..0.3).contains(&share), "{share}: {one}");
    }
}

#[test]
fn what_cannot_be_varied_is_refused_first() {
    let files = Files::new();
    let file = files.write("sales.csv", rows(10));
    let job = [file.as_str(), "--to", "null:", "--table", "sales", "--header", "none"];
    for (args, words) in [
        (&["--vary", "colour=red,blue"][..], "colour is no option"),
        (&["--vary", "streams=1,many"], "many"),
        (&["--vary", "streams=1"], "two values"),
        (&["--vary", "streams=1,2", "--baseline", "streams=3"], "3 is no value of streams"),
        (&["--vary", "streams=1,2", "--resume"], "--resume"),
    ] {
        let output = sweep(&files, &[&job[..], args].concat());
        assert_eq!(output.code, 2, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
    }
    let rejected = files.write("bad.csv", "1,a,2\nx\n");
    let out = files.path("bad").display().to_string();
    let job = [rejected.as_str(), "--to", "null:", "--table", "sales", "--header", "none"];
    let output = sweep(&files, &[&job[..], &["--vary", "streams=1,2", "--out", &out]].concat());
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("a load of the experiment failed"), "{}", output.stderr);
}
