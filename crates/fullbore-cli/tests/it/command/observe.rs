//! What a run sees of itself, and the verdict it makes of that: causes made on purpose, named.

use std::io::Write;
use std::time::Duration;

use crate::common::Files;
use crate::common::held::{end_of, session};
use fullbore_testing::{Output, TestCluster, TestServer, shared_or_skip, wanted};
use serde_json::Value;

/// So many rows of a number and a text.
fn rows(count: u32) -> String {
    (0..count).map(|n| format!("{n},row number {n}\n")).collect()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).expect("one JSON object")
}

/// The share of a limit in a verdict, 0 where it is not named.
fn share(summary: &Value, limit: &str) -> f64 {
    let shares = summary["verdict"]["shares"].as_array().expect("shares");
    let found = shares.iter().find(|share| share["limit"] == limit);
    found.map_or(0.0, |share| share["share"].as_f64().expect("a number"))
}

#[test]
fn a_lock_that_others_hold_is_named_with_its_holder() {
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let files = Files::new();
        database.psql("CREATE TABLE held (n int, v text)");
        let file = files.write("rows.csv", rows(1000));
        let mut holder = session(database.url());
        holder
            .execute("SET application_name = 'the holder'; BEGIN; LOCK TABLE held IN SHARE MODE")
            .expect("locked");
        let args = ["load", &file, "--to", database.url(), "--table", "held", "--header", "none"];
        let child = files.start(&[&args[..], &["--json"]].concat());
        // The lock is what it waits for, most of the time.
        std::thread::sleep(Duration::from_secs(4));
        holder.execute("COMMIT").expect("released");
        let output = end_of(child);
        let summary = json(&output);
        assert_eq!(summary["verdict"]["limit"], "lock_wait", "{summary:#}");
        assert!(share(&summary, "lock_wait") > 0.5, "{summary:#}");
        assert!(output.stderr.contains("bottleneck: locks held by others"), "{}", output.stderr);
        let advice = summary["advice"][0].as_str().expect("advice");
        assert!(advice.contains("the holder"), "{advice}");
        let shown = files.fullbore(&["runs", "show", "last"]).stdout;
        assert!(shown.contains("bottleneck: locks held by others"), "{shown}");
        database.psql("DROP TABLE held");
    }
}

#[test]
fn a_source_that_trickles_is_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE slow (n int, v text)");
    let args =
        ["load", "-", "--to", database.url(), "--table", "slow", "--header", "none", "--json"];
    let mut child = files.start_with_stdin(&[&args[..], &["--format", "csv"]].concat());
    let mut pipe = child.stdin.take().expect("piped");
    let text = rows(20_000);
    let writer = std::thread::spawn(move || {
        for part in text.as_bytes().chunks(text.len() / 30) {
            pipe.write_all(part).expect("written");
            std::thread::sleep(Duration::from_millis(120));
        }
    });
    let output = end_of(child);
    writer.join().expect("written");
    let summary = json(&output);
    assert_eq!(summary["verdict"]["limit"], "source_disk", "{summary:#}");
    assert_eq!(database.psql("SELECT count(*) FROM slow"), "20000");
}

#[test]
fn a_server_that_works_hard_is_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(
        "CREATE TABLE worked (n int, v text);
         CREATE FUNCTION work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             FOR i IN 1..40 LOOP NEW.v := md5(NEW.v); END LOOP; RETURN NEW;
         END $$;
         CREATE TRIGGER work BEFORE INSERT ON worked FOR EACH ROW EXECUTE FUNCTION work()",
    );
    let file = files.write("rows.csv", rows(150_000));
    let args = ["--header", "none", "--json", "--streams", "4"];
    let output = files.load(&database, &file, "worked", &args);
    let summary = json(&output);
    // With processors to spare it is for more streams to use them; and others may take theirs.
    let limit = summary["verdict"]["limit"].as_str().expect("a limit");
    let server = share(&summary, "database_cpu")
        + share(&summary, "too_few_streams")
        + share(&summary, "neighbour");
    assert!(server > 0.6, "{limit}: {summary:#}");
}

#[test]
fn a_file_that_is_waited_for_is_named() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE waited (n int, v text)");
    let text = rows(1000);
    let pipes: Vec<String> = (0..4).map(|n| files.make_pipe(&format!("part-{n}.csv"))).collect();
    let basic = ["--to", database.url(), "--table", "waited", "--header", "none", "--json"];
    let pipe_args: Vec<&str> = pipes.iter().map(String::as_str).collect();
    let child = files.start(&[&["load"], &pipe_args[..], &basic, &["--streams", "2"]].concat());
    for (number, path) in pipes.iter().enumerate() {
        if number == 3 {
            // The others have ended by then, on a busy machine too.
            std::thread::sleep(Duration::from_secs(1));
        }
        let mut pipe = std::fs::File::options().write(true).open(path).expect("opened");
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        pipe.write_all(first).expect("written");
        if number == 3 {
            std::thread::sleep(Duration::from_secs(8));
        }
        pipe.write_all(second).expect("written");
    }
    let output = end_of(child);
    let summary = json(&output);
    let stragglers = summary["verdict"]["stragglers"].as_array();
    let stragglers = stragglers.unwrap_or_else(|| panic!("none: {summary:#}\n{}", output.stderr));
    assert!(!stragglers.is_empty(), "{summary:#}");
    assert!(stragglers.iter().all(|s| s["file"] == pipes[3].as_str()), "{summary:#}");
    assert!(output.stderr.contains("straggler: piece"), "{}", output.stderr);
    assert!(output.stderr.contains("part-3.csv"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM waited"), "4000");
}

#[test]
fn connections_by_tcp_are_looked_at() {
    let built = TestCluster::builder(TestServer::Embedded18).tcp("word").start();
    let Ok(cluster) = built else { fullbore_testing::skip!("no PostgreSQL 18") };
    let cluster = cluster.cluster();
    let files = Files::new();
    // Long enough to be looked at a few times.
    let file = files.write("rows.csv", rows(2_000_000));
    let tcp = cluster.tcp_url("postgres").expect("it listens");
    let last_of = |url: &str, table: &str| -> Value {
        let args = ["--header", "none", "--json", "--streams", "2", "--create"];
        json(&files.load_at(url, &file, table, &args));
        let text = files.fullbore(&["runs", "show", "last", "--json"]).stdout;
        let entries =
            text.lines().map(|line| -> Value { serde_json::from_str(line).expect("JSON") });
        let mut observed = entries.filter(|entry| entry["event"] == "observed");
        observed.next_back().expect("observed")["observation"].clone()
    };
    let last = last_of(&tcp, "by_tcp");
    let sockets: Vec<&Value> = (0..2).map(|at| &last["streams"][at]["socket"]).collect();
    let sent: u64 = sockets.iter().filter_map(|socket| socket["sent_bytes"].as_u64()).sum();
    // Looked at ten times a second: the last tenth may not have been seen.
    assert!(sent > 0, "{last:#}");
    // By table, activity and wait; what held the bytes stands behind a colon.
    let moments = last["streams"][0]["moments"].as_object().expect("moments");
    let activities = moments.values().filter_map(Value::as_object).flat_map(|by| by.values());
    let mut waits = activities.filter_map(Value::as_object).flat_map(|by| by.keys());
    assert!(waits.any(|wait| wait.contains(':')), "{moments:?}");
    assert!(last["observing_ms"].is_u64(), "{last:#}");
    let by_socket = last_of(&cluster.url("postgres"), "by_socket");
    assert!(by_socket["streams"][0]["socket"].is_null(), "{by_socket:#}");
}

#[test]
fn the_record_holds_what_was_seen() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE seen (n int, v text)");
    let file = files.write("rows.csv", rows(1_200_000));
    let args = ["--header", "none", "--json", "--streams", "2", "--parsers", "2"];
    let summary = json(&files.load(&database, &file, "seen", &args));
    let text = files.fullbore(&["runs", "show", "last", "--json"]).stdout;
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| -> Vec<&Value> {
        entries.iter().filter(|entry| entry["event"] == kind).collect()
    };
    let settings = of("server_settings");
    assert!(settings[0]["settings"]["values"]["max_wal_size"].is_string(), "{}", settings[0]);
    assert_eq!(settings[0]["settings"]["is_here"], true);
    let observed = of("observed");
    assert!(observed.len() >= 2, "one at the beginning, one at the end");
    let last = &observed.last().expect("one")["observation"];
    let spent = |thread: &Value| -> u64 {
        let times = thread["times"].as_object().expect("times");
        times.values().map(|spent| spent["ms"].as_u64().expect("ms")).sum()
    };
    // All of a thread's time is accounted for.
    let times: Vec<u64> = ["streams", "parsers"]
        .iter()
        .flat_map(|k| last[k].as_array().expect("k"))
        .map(spent)
        .collect();
    assert_eq!(times.len(), 4);
    let (least, most) = (times.iter().min().expect("4"), times.iter().max().expect("4"));
    assert!(most - least < 200, "{times:?}");
    assert!(last["host"]["own_cpu_ms"].as_u64().expect("ms") > 0);
    let wal = |at: &Value| at["observation"]["server"]["wal_bytes"].as_u64().expect("bytes");
    assert!(wal(observed.last().expect("one")) > wal(observed[0]) + 10_000_000);
    let verdict = of("verdict");
    assert_eq!(verdict.len(), 1);
    assert_eq!(verdict[0]["verdict"], summary["verdict"]);
    let shares = summary["verdict"]["shares"].as_array().expect("shares");
    let sum: f64 = shares.iter().map(|share| share["share"].as_f64().expect("a number")).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{summary:#}");
}
