//! `fullbore preflight all`: the ceilings of a job, what is wrong with it before it is loaded, and what
//! a load makes of ceilings that are known.

use crate::common::{Files, packed};
use fullbore_testing::{
    Output, TestCluster, TestDatabase, TestServer, extended_or_skip, shared_or_skip, skip, wanted,
};
use serde_json::Value;

/// Short measurements: what is tested is not how fast a machine is.
const SHORT: [&str; 4] = ["--time", "0.4", "--bytes", "16M"];

fn rows(count: u32) -> String {
    (0..count).map(|n| format!("{n},row number {n},{}.25\n", n % 1000)).collect()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", output.stdout, output.stderr))
}

fn measure(files: &Files, args: &[&str]) -> (Value, Output) {
    let output = files.fullbore(&[&["preflight", "all"], args, &SHORT[..], &["--json"]].concat());
    (json(&output), output)
}

fn rate(stage: &Value) -> f64 {
    stage["bytes_per_second"].as_f64().unwrap_or_else(|| panic!("a rate: {stage}"))
}

/// Nothing of a measurement is there, and nothing was loaded.
fn is_clean(database: &TestDatabase<'_>) {
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'fullbore_scratch' OR nspname = 'fullbore_ledger'";
    assert_eq!(database.psql(left), "0");
    let left = "SELECT count(*) FROM pg_class WHERE relname ~ '_fb_'";
    assert_eq!(database.psql(left), "0");
}

#[test]
fn all_ceilings_are_measured_on_each_version_and_nothing_stays() {
    for server in wanted(TestServer::MAJORS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql(
            "CREATE TABLE sales (id serial PRIMARY KEY, note text NOT NULL, price numeric(8,2),
                                 twice numeric GENERATED ALWAYS AS (price * 2) STORED)",
        );
        let file = files.write("sales.csv", rows(60_000));
        let job = [file.as_str(), "--to", database.url(), "--table", "sales", "--header", "none"];
        let job = [&job[..], &["--columns", "id,note,price", "--streams", "3"]].concat();
        let (report, output) = measure(&files, &job);
        assert_eq!(output.code, 0, "{server:?}: {report:#}\n{}", output.stderr);
        assert_eq!(report["works"], true);
        let ceilings = &report["ceilings"];
        for stage in ["read", "parse", "encode", "database", "trial"] {
            assert!(rate(&ceilings[stage]) > 0.0, "{server:?} {stage}: {report:#}");
        }
        assert!(ceilings["send"].is_null(), "a unix socket is no network");
        assert_eq!(ceilings["server_is_here"], true);
        let sessions: Vec<_> = report["by_sessions"]["database"]
            .as_array()
            .expect("rates")
            .iter()
            .map(|stage| stage["sessions"].clone())
            .collect();
        // The file makes one piece, and a piece is one session's.
        assert_eq!(sessions, [1]);
        // The smallest ceiling is the ceiling, but what the trial did can be done, and is predicted.
        let all = report["all"].as_array().expect("ceilings");
        let least = all.iter().map(rate).fold(f64::MAX, f64::min);
        let trial = rate(&ceilings["trial"]);
        assert_eq!(rate(&report["ceiling"]), least.max(trial));
        assert_eq!(rate(&report["predicted"]), trial);
        let size = std::fs::metadata(&file).expect("there").len();
        assert_eq!(report["predicted"]["bytes"], size);
        // A row takes more room in a table with a key than in a file.
        assert!(report["space"]["predicted_bytes"].as_u64().expect("known") > size);
        assert_eq!(database.psql("SELECT count(*) FROM sales"), "0");
        let sequence = "SELECT last_value, is_called FROM sales_id_seq";
        assert_eq!(database.psql(sequence), "1|f", "the table's own numbers are left alone");
        is_clean(&database);
        assert!(!files.path("state/runs").exists(), "it is no run of anybody's");
    }
}

#[test]
fn a_load_says_how_much_of_its_ceiling_it_achieved() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let file = files.write("parts.csv", rows(100_000));
    let table = || {
        let columns = "id int, note text, price numeric";
        database.psql(&format!(
            "DROP TABLE IF EXISTS parts; CREATE TABLE parts ({columns}) PARTITION BY RANGE (id)"
        ));
    };
    table();
    let job = [file.as_str(), "--to", database.url(), "--table", "parts", "--header", "none"];
    let job = [&job[..], &["--publish", "partitions", "--streams", "2"]].concat();
    let load = |more: &[&str]| {
        files.fullbore(&[&["load"], &job[..], more, &["--json", "--statistics=none"]].concat())
    };
    // Not known: it says what to do.
    let output = load(&[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(json(&output)["achieved_over_ceiling"].is_null());
    assert!(output.stderr.contains("`fullbore preflight all`"), "{}", output.stderr);
    table();

    let (report, output) = measure(&files, &job);
    assert_eq!(output.code, 0, "{report:#}\n{}", output.stderr);
    assert_eq!(report["ceilings"]["tables"][0]["method"], "direct");
    let kept = report["kept_in"].as_str().expect("kept").to_owned();
    let text = std::fs::read_to_string(&kept).expect("there");
    assert!(!text.contains("password"), "{text}");

    let output = load(&[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let summary = json(&output);
    let over = summary["achieved_over_ceiling"].as_f64().expect("known");
    let (achieved, ceiling) = (rate(&summary["achieved"]), rate(&summary["achieved"]["ceiling"]));
    assert_eq!(ceiling, rate(&report["ceiling"]));
    assert!((over - achieved / ceiling).abs() < 1e-9, "{summary:#}");
    let first = output.stderr.lines().find(|line| !line.starts_with("note: ")).expect("a line");
    assert!(first.starts_with("achieved "), "the first number: {}", output.stderr);
    // The record knows it, and with it `runs show` and the page.
    let shown = files.fullbore(&["runs", "show", "last"]).stdout;
    assert!(shown.contains(" of the ceiling: "), "{shown}");
    let page = files.path("page.html");
    let page = page.to_str().expect("UTF-8");
    assert_eq!(files.fullbore(&["runs", "report", "last", "-o", page]).code, 0);
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("id=\"ceilings\"") && page.contains("of the ceiling: "));
    // Another method has other ceilings.
    table();
    let output = load(&["--method", "copy"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(json(&output)["achieved_over_ceiling"].is_null());
    // So have other settings.
    table();
    let output = load(&["--parsers", "3"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(json(&output)["achieved_over_ceiling"].is_null());
    // A file of them can be named; what does not fit is refused.
    table();
    let named = files.write("ceilings.json", report.to_string());
    let output = load(&["--method", "copy", "--ceilings", &named]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("measured by method direct"), "{}", output.stderr);
    table();
    let output = load(&["--ceilings", &named]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(json(&output)["achieved_over_ceiling"].is_f64());
    // Files without a row have no ceiling, and leave that of the others.
    let empty = files.write("parts.csv", "");
    let args = ["preflight", "all", &empty, "--to", database.url(), "--table", "parts"];
    let output = files.fullbore(&[&args[..], &["--header", "none"]].concat());
    assert_eq!(output.code, 2, "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains("no rows to measure"), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(&kept).expect("there"), text);
}

#[test]
fn what_is_wrong_with_the_data_is_told_with_file_and_line() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id int, note text, price numeric)");
    let findings = |name: &str, content: &[u8], more: &[&str]| {
        let files = Files::new();
        let file = files.write(name, content);
        let job = [file.as_str(), "--to", database.url(), "--table", "t"];
        let (report, output) = measure(&files, &[&job[..], more].concat());
        (report, output, file)
    };
    let mut text = rows(5_000).into_bytes();
    let none = ["--header", "none"];
    for (bad, word) in [
        (&b"1,2\n"[..], "missing data"),
        (b"1,a\0b,3\n", "0x00"),
        (b"1,\xff\xfe,3\n", "0xff"),
        (b"1,2,3,4\n", "extra data"),
    ] {
        let mut content = text.clone();
        content.extend_from_slice(bad);
        content.extend_from_slice(b"7,seven,7\n");
        let (report, output, file) = findings("bad.csv", &content, &none);
        assert_eq!(output.code, 2, "{report:#}");
        assert_eq!(report["works"], false);
        let found = &report["findings"][0];
        assert_eq!((&found["file"], &found["line"]), (&Value::from(file), &Value::from(5_001)));
        let message = found["message"].as_str().expect("a message").to_lowercase();
        assert!(message.contains(&word.to_lowercase()), "{word}: {message}");
        assert!(found["hint"].as_str().expect("a hint").contains("--max-rejects"));
        assert!(output.stderr.contains("bad.csv, line 5001: "), "{}", output.stderr);
        assert!(report["ceilings"]["read"].is_null(), "what can't be loaded needs no rate");
        // Where bad rows are allowed the job works, and is measured.
        let (report, output, _) =
            findings("bad.csv", &content, &["--header", "none", "--max-rejects", "5"]);
        assert_eq!(output.code, 0, "{report:#}\n{}", output.stderr);
        assert_eq!(report["findings"][0]["stops"], false);
        assert!(rate(&report["ceilings"]["trial"]) > 0.0);
    }
    // What only the server can judge is found by the trial.
    text.extend_from_slice(b"not a number,x,1\n");
    let (report, output, _) = findings("value.csv", &text, &none);
    assert_eq!(output.code, 2, "{report:#}\n{}", output.stderr);
    assert!(output.stderr.contains("value.csv, line 5001"), "{}", output.stderr);
    // A header that is not the table's.
    let header = findings("h.csv", b"id,remark,price\n1,a,2\n", &["--header", "true"]);
    assert_eq!(header.1.code, 2);
    assert!(header.1.stderr.contains("remark"), "{}", header.1.stderr);
    // Of a packed file the beginning is read.
    for (kind, packed) in packed(b"1,a,2\n2,b\n") {
        let (report, output, _) = findings("p.csv", &packed, &none);
        assert_eq!((output.code, &report["findings"][0]["line"]), (2, &Value::from(2)), "{kind}");
    }
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
    is_clean(&database);
}

#[test]
fn packed_files_several_tables_and_no_server_at_all() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION fullbore");
    let files = Files::new();
    let text = rows(120_000);
    let [(_, gzip), ..] = packed(text.as_bytes());
    let gzip = files.write("a.csv.gz", gzip);
    let plain = files.write("b.csv", rows(1000));
    let job = format!(
        "to = {:?}\nstreams = 2\n[[table]]\nname = \"a\"\nsources = [{gzip:?}]\nheader = \"none\"\n\
         create = true\n[[table]]\nname = \"b\"\nsources = [{plain:?}]\nheader = \"none\"\n\
         create = true\n[[table]]\nname = \"c\"\nsources = [{gzip:?}]\nheader = \"none\"\n\
         create = true\npublish = \"replace\"\n",
        database.url()
    );
    let job = files.write("job.toml", job);
    let (report, output) = measure(&files, &[&job]);
    assert_eq!(output.code, 0, "{report:#}\n{}", output.stderr);
    // How much a packed file holds is reckoned from its beginning, also where one session reads all.
    let bytes = report["predicted"]["bytes"].as_f64().expect("known");
    let whole = (2 * text.len() + rows(1000).len()) as f64;
    assert!((bytes / whole - 1.0).abs() < 0.2, "{bytes} of {whole}");
    assert_eq!(
        database.psql("SELECT count(*) FROM pg_class WHERE relname IN ('a', 'b', 'c')"),
        "0"
    );
    database.psql("DROP EXTENSION fullbore; DROP SCHEMA fullbore");
    is_clean(&database);

    let (report, output) = measure(&files, &[&plain, "--to", "null:", "--header", "none"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(report["ceilings"]["database"].is_null() && rate(&report["ceiling"]) > 0.0);
    let text = files.fullbore(
        &[&["preflight", "all", &plain, "--to", "null:", "--header", "none"], &SHORT[..]].concat(),
    );
    assert!(text.stdout.starts_with("the destination is not a server"), "{}", text.stdout);
    for word in ["encode", "ceiling: ", "predicted: ", "sampled 1 place"] {
        assert!(text.stdout.contains(word), "{word}: {}", text.stdout);
    }
}

#[test]
fn where_the_server_can_t_be_measured_nothing_is_predicted_or_kept() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let role = format!("only_inserts_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE TABLE t (id int, note text, price numeric);
         GRANT INSERT ON t TO {role}"
    ));
    let file = files.write("t.csv", rows(1000));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let job = [file.as_str(), "--to", &url, "--table", "t", "--header", "none"];
    let (report, output) = measure(&files, &job);
    let text = files.fullbore(&[&["preflight", "all"], &job[..], &SHORT[..]].concat());
    database.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert_eq!((output.code, text.code), (1, 1), "{report:#}\n{}", output.stderr);
    // The client's half is known all the same.
    assert!(rate(&report["ceilings"]["encode"]) > 0.0);
    for name in ["predicted", "ceiling", "kept_in"] {
        assert!(report[name].is_null(), "{name}: {report:#}");
    }
    assert!(report["ceilings"]["database"].is_null());
    assert!(report["unmeasured"].to_string().contains("CREATE"), "{report:#}");
    let first = text.stdout.lines().next().expect("a line");
    assert!(first.starts_with("the server was not measured: "), "{first}");
    assert!(!text.stdout.contains("predicted"), "{}", text.stdout);
    assert!(text.stderr.contains("no prediction"), "{}", text.stderr);
}

#[test]
fn over_tcp_the_way_to_the_server_is_measured_too() {
    let password = "s3cret-w0rd";
    let cluster = match TestCluster::builder(TestServer::Embedded18).tcp(password).start() {
        Ok(cluster) => cluster,
        Err(missing) => skip!("{missing}"),
    };
    let files = Files::new();
    cluster.psql("CREATE TABLE t (id int, note text, price numeric)");
    let file = files.write("t.csv", rows(60_000));
    let port = cluster.cluster().port;
    let url = format!("postgresql://postgres:{password}@127.0.0.1:{port}/postgres");
    let job = [file.as_str(), "--to", &url, "--table", "t", "--header", "none", "--streams", "2"];
    let (report, output) = measure(&files, &job);
    assert_eq!(output.code, 0, "{report:#}\n{}", output.stderr);
    let sent = report["by_sessions"]["send"].as_array().expect("rates");
    let sessions: Vec<_> = sent.iter().map(|stage| stage["sessions"].clone()).collect();
    assert_eq!(sessions, [1, 2]);
    // The server is here all the same, and its work is seen.
    assert!(report["ceilings"]["send"]["server_cpu"].is_f64(), "{report:#}");
    let kept = std::fs::read_to_string(report["kept_in"].as_str().expect("kept")).expect("there");
    for text in [&kept, &output.stdout, &output.stderr] {
        assert!(!text.contains(password), "{text}");
    }
    assert_eq!(
        cluster.psql("SELECT count(*) FROM pg_namespace WHERE nspname ~ 'fullbore_scratch'"),
        "0"
    );
}

#[test]
fn what_means_nothing_to_a_measurement_is_refused() {
    let files = Files::new();
    let file = files.write("t.csv", "1,a,2\n");
    for option in [&["--resume"][..], &["--dry-run"], &["--log-file", "x"], &["--time", "0"]] {
        let args = [&["preflight", "all", &file, "--to", "null:"], option].concat();
        let output = files.fullbore(&args);
        assert_eq!(output.code, 2, "{option:?}: {}", output.stderr);
        assert!(output.stderr.contains(option[0]), "{}", output.stderr);
    }
    let output = files.fullbore(&["preflight", "all", "-", "--to", "null:"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("only once"), "{}", output.stderr);
}
