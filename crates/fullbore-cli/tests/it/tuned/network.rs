//! Loads over a slow network: the form of rows that suits it, manners, and how bytes travel.

use fullbore_testing::wan::{Wan, WanOptions};
use fullbore_testing::{Output, TestCluster, TestServer, skip};
use serde_json::Value;

use super::events;
use crate::common::{Files, assert_no_leftovers};

/// Numbers are longer in COPY's binary form: 38 bytes for some 18 of text.
const ROWS: u32 = 700_000;

/// 40 Mb/s, 4 ms away.
const LINK: WanOptions = WanOptions {
    rtt_ms: 4.0,
    rate_mbit: Some(40.0),
    queue_bytes: 250_000,
    loss: 0.0,
    mtu: 1500,
    seed: 1,
};

const TRUSTED: &[u8] = b"local all all trust\nhost all all 10.214.0.0/16 trust\n";

/// Loads numbers into a server behind the link.
fn load_far(files: &Files, wan: &Wan, server: TestServer, more: &[&str]) -> Option<Output> {
    let address = wan.far.address.to_string();
    let builder = TestCluster::builder(server)
        .setting("listen_addresses", &address)
        .file("pg_hba.conf", TRUSTED);
    let cluster = wan.far.inside(|| builder.start().ok())?;
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE sales (a bigint, b bigint, c bigint)");
    let rows: String = (0..ROWS).map(|n| format!("{n},{},{}\n", n % 1000, n % 7)).collect();
    let file = files.write("sales.csv", rows);
    let port = cluster.cluster().port;
    let name = database.psql("SELECT current_database()");
    let url = format!("postgresql://postgres@{address}:{port}/{name}");
    let args = ["--header", "none", "--streams", "4", "--piece-size", "1MB", "--json"];
    let args = [&args[..], more].concat();
    let loaded = wan.near.inside(|| files.load_at(&url, &file, "sales", &args));
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let sums = database.psql("SELECT count(*), sum(a), sum(b), sum(c) FROM sales");
    let sum = |of: fn(u64) -> u64| (0..u64::from(ROWS)).map(of).sum::<u64>();
    let expected = format!("{ROWS}|{}|{}|{}", sum(|n| n), sum(|n| n % 1000), sum(|n| n % 7));
    assert_eq!(sums, expected);
    assert_no_leftovers(&database);
    Some(loaded)
}

macro_rules! far_or_skip {
    ($files:expr, $server:expr, $more:expr) => {{
        let wan = match Wan::start(&LINK) {
            Ok(wan) => wan,
            Err(reason) => skip!("{reason}"),
        };
        match load_far($files, &wan, $server, $more) {
            Some(loaded) => loaded,
            None => skip!("the server is not installed"),
        }
    }};
}

#[test]
fn rows_go_as_text_where_that_is_shorter_and_the_network_is_slow() {
    let files = Files::new();
    let loaded = far_or_skip!(&files, TestServer::Embedded18, &["--method", "copy"]);
    let changed = events(&files, "form_changed");
    assert_eq!(changed[0]["form"], "text", "{changed:?}");
    let said = "rows are sent as text, which is shorter; bottleneck: ";
    assert!(loaded.stderr.contains(said), "{}", loaded.stderr);
}

#[test]
fn a_form_that_was_chosen_stays_and_the_network_is_reported() {
    let files = Files::new();
    let more = ["--method", "copy", "--compress", "none"];
    let loaded = far_or_skip!(&files, TestServer::Embedded18, &more);
    assert!(events(&files, "form_changed").is_empty());
    let summary: Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    let network = &summary["verdict"]["network"];
    assert!(network["rtt_min_ms"].as_f64() >= Some(3.9), "{network}");
    // The queue is 50 ms long.
    assert!(network["rtt_ms"].as_f64() >= Some(10.0), "{network}");
    assert!(loaded.stderr.contains("ms without this load"), "{}", loaded.stderr);
}

#[test]
fn a_polite_load_leaves_the_queue_short() {
    let files = Files::new();
    let more = ["--method", "copy", "--compress", "none", "--polite"];
    let loaded = far_or_skip!(&files, TestServer::Embedded18, &more);
    let summary: Value = serde_json::from_str(&loaded.stdout).expect("JSON");
    let network = &summary["verdict"]["network"];
    let longer = network["rtt_ms"].as_f64().zip(network["rtt_min_ms"].as_f64());
    assert!(longer.is_some_and(|(mean, least)| mean - least < 25.0), "{network}");
}

#[test]
fn connections_travel_as_they_are_told_to() {
    let cluster = match TestCluster::builder(TestServer::Embedded18).tcp("word").start() {
        Ok(cluster) => cluster,
        Err(missing) => skip!("{missing}"),
    };
    let url = cluster.cluster().tcp_url("postgres").expect("it listens");
    cluster.psql("CREATE TABLE sales (a bigint, b text)");
    let files = Files::new();
    let rows: String = (0..20_000).map(|n| format!("{n},row number {n}\n")).collect();
    let file = files.write("sales.csv", rows);
    let args = ["--header", "none", "--congestion", "reno", "--send-buffer", "64kB"];
    let args = [&args[..], &["--message-size", "1kB", "--method", "copy"]].concat();
    let loaded = files.load_at(&url, &file, "sales", &args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    assert_eq!(cluster.psql("SELECT count(*), sum(a) FROM sales"), "20000|199990000");
    let args = ["--header", "none", "--congestion", "horse", "--if-loaded", "again"];
    let refused = files.load_at(&url, &file, "sales", &args);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("congestion control \"horse\""), "{}", refused.stderr);
    assert!(refused.stderr.contains("tcp_available_congestion_control"), "{}", refused.stderr);
}
