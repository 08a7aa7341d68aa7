//! What a run sees of itself, and the verdict it makes of that: causes made on purpose, named.

mod common;

use std::io::Write;
use std::time::Duration;

use common::Files;
use common::held::{end_of, session};
use fullbore_testing::{Output, TestServer, shared_or_skip};
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
    for server in [TestServer::Embedded18, TestServer::Pg14] {
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
        assert!(output.stderr.contains("held back by locks of others"), "{}", output.stderr);
        let advice = summary["advice"][0].as_str().expect("advice");
        assert!(advice.contains("the holder"), "{advice}");
        let shown = files.fullbore(&["runs", "show", "last"]).stdout;
        assert!(shown.contains("held back by locks of others"), "{shown}");
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
fn the_record_holds_what_was_seen() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE seen (n int, v text)");
    let file = files.write("rows.csv", rows(400_000));
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
