//! `--max-rate` and `runs throttle`: what all streams send together, also while they do.

use std::time::{Duration, Instant};

use crate::common::Files;
use fullbore_testing::{TestServer, shared_or_skip};
use serde_json::Value;

fn rows(count: u32) -> String {
    (0..count).map(|n| format!("{n},row number {n}\n")).collect()
}

#[test]
fn all_streams_together_keep_to_a_rate_and_the_verdict_says_so() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql("CREATE TABLE sales (id int, note text)");
    let file = files.write("sales.csv", rows(100_000));
    let args = ["--header", "none", "--streams", "4", "--piece-size", "200kB", "--json"];
    let args = [&args[..], &["--max-rate", "1500kB/s"]].concat();
    let loaded = files.load_at(database.url(), &file, "sales", &args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let summary: Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    // 100,000 rows of 28 bytes or more in COPY's binary form.
    let bytes = 100_000.0 * 28.0;
    assert!(summary["seconds"].as_f64().expect("seconds") > bytes / 1.5e6, "{summary}");
    assert_eq!(summary["verdict"]["limit"], "max_rate", "{summary}");
    assert_eq!(database.psql("SELECT count(*) FROM sales"), "100000");
}

#[test]
fn the_rate_changes_while_the_load_runs() {
    let files = Files::new();
    let file = files.write("sales.csv", rows(400_000));
    let (home, slow) = (files.path("state"), "--max-rate=20kB/s");
    std::thread::scope(|scope| {
        let load = scope
            .spawn(|| files.fullbore(&["load", &file, "--to", "null:", "--header", "none", slow]));
        // It would take ten minutes.
        let began = Instant::now();
        loop {
            let throttled = files.fullbore(&["runs", "throttle", "last", "none"]);
            if throttled.code == 0 {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{}", throttled.stderr);
            std::thread::sleep(Duration::from_millis(50));
        }
        let loaded = load.join().expect("no panic");
        assert_eq!(loaded.code, 0, "{}", loaded.stderr);
        assert!(loaded.stderr.contains("no longer limited"), "{}", loaded.stderr);
        assert!(began.elapsed() < Duration::from_secs(120));
    });
    assert!(home.exists());
    let ended = files.fullbore(&["runs", "throttle", "last", "5MB/s"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("its state is loaded"), "{}", ended.stderr);
    let wrong = files.fullbore(&["runs", "throttle", "last", "fast"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}
