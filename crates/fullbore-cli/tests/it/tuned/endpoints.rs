//! Several ways to one server: pieces go by all of them, and by the others where one breaks.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullbore_testing::{TestCluster, TestDatabase, TestServer, skip};

use super::events;
use crate::common::{Files, assert_no_leftovers};

const PASSWORD: &str = "several ways";

/// A second way to a server, which can be closed and opened again.
struct Detour {
    port: u16,
    is_open: Arc<AtomicBool>,
    passing: Arc<Mutex<Vec<TcpStream>>>,
}

impl Detour {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (is_open, passing) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let detour = Self { port, is_open: Arc::clone(&is_open), passing: Arc::clone(&passing) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", server)).ok();
                let Some(server) = server.filter(|_| is_open.load(Ordering::Relaxed)) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (copy_of(from), copy_of(to));
                    std::thread::spawn(move || pass(from, to));
                }
                passing.lock().expect("no panic").extend([client, server]);
            }
        });
        detour
    }

    fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        for stream in self.passing.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }
}

fn copy_of(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor")
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A database's URL with the password.
fn url(database: &TestDatabase<'_>) -> String {
    database.url().replacen("postgres@", &format!("postgres:{}@", PASSWORD.replace(' ', "%20")), 1)
}

fn rows(count: u32) -> String {
    (0..count).map(|n| format!("{n}\trow number {n}\n")).collect()
}

macro_rules! server_or_skip {
    () => {
        match TestCluster::builder(TestServer::Embedded18).tcp(PASSWORD).start() {
            Ok(cluster) => cluster,
            Err(missing) => skip!("{missing}"),
        }
    };
}

#[test]
fn pieces_go_by_each_endpoint_and_by_the_others_while_one_is_down() {
    let cluster = server_or_skip!();
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE sales (id int, note text)");
    let server = cluster.cluster().port;
    let detour = Detour::to(server);
    let files = Files::new();
    let file = files.write("sales.tsv", rows(300_000));
    let (straight, around) = (format!("127.0.0.1:{server}"), format!("127.0.0.1:{}", detour.port));
    let args = ["--header", "none", "--streams", "3", "--piece-size", "200kB", "--verify", "count"];
    let ways = ["--endpoint", &straight, "--endpoint", &around, "--endpoint-policy", "round-robin"];
    let args = [&args[..], &ways, &["--max-rate", "1MB/s"]].concat();
    let url = url(&database);
    let load = files.load_args(&url, &file, "sales", &args);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| files.fullbore(&load));
        let began = Instant::now();
        while !files.path("state").join("runs").exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "no run");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Of nine seconds or more.
        std::thread::sleep(Duration::from_secs(2));
        detour.close();
        std::thread::sleep(Duration::from_secs(2));
        detour.open();
        let loaded = load.join().expect("no panic");
        assert_eq!(loaded.code, 0, "{}", loaded.stderr);
        let down = format!("endpoint {around} is down, its pieces go by the others: ");
        assert!(loaded.stderr.contains(&down), "{}", loaded.stderr);
        assert!(loaded.stderr.contains(&format!("endpoint {around} is up again after")));
    });
    let found = database.psql("SELECT count(*), count(DISTINCT id) FROM sales");
    assert_eq!(found, "300000|300000");
    let down = events(&files, "endpoint_down");
    assert!(down.iter().all(|event| event["endpoint"] == around), "{down:?}");
    let up = events(&files, "endpoint_up");
    let up_at = up.first().expect("it was opened again")["at"].as_f64().expect("a time");
    let pieces = events(&files, "piece_committed");
    let by = |after: f64| -> BTreeSet<String> {
        let later = pieces.iter().filter(|piece| piece["at"].as_f64() > Some(after));
        later.map(|piece| piece["endpoint"].as_str().expect("named").to_owned()).collect()
    };
    assert_eq!(by(0.0), BTreeSet::from([straight.clone(), around.clone()]));
    assert_eq!(by(up_at), BTreeSet::from([straight, around]), "{up:?}");
    assert_no_leftovers(&database);
}

#[test]
fn an_endpoint_of_another_server_is_refused() {
    let cluster = server_or_skip!();
    let other = server_or_skip!();
    let database = cluster.fresh_database();
    let other_database = other.fresh_database();
    for database in [&database, &other_database] {
        database.psql("CREATE TABLE sales (id int, note text)");
    }
    let files = Files::new();
    let file = files.write("sales.tsv", rows(1000));
    let endpoint = format!("127.0.0.1:{}", other.cluster().port);
    let args = ["--header", "none", "--endpoint", &endpoint];
    let loaded = files.load_at(&url(&database), &file, "sales", &args);
    assert_eq!(loaded.code, 2, "{}", loaded.stderr);
    assert!(loaded.stderr.contains("leads to another server"), "{}", loaded.stderr);
    for database in [&database, &other_database] {
        assert_eq!(database.psql("SELECT count(*) FROM sales"), "0");
        assert_no_leftovers(database);
    }
}

#[test]
fn a_connection_begins_at_its_source() {
    let cluster = server_or_skip!();
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE sales (id int, note text)");
    let files = Files::new();
    let file = files.write("sales.tsv", rows(1000));
    let load_from = |source: &str| {
        let endpoint = format!("127.0.0.1:{},source={source}", cluster.cluster().port);
        let args = ["--header", "none", "--retry-for", "1", "--endpoint", &endpoint];
        files.load_at(&url(&database), &file, "sales", &args)
    };
    // The server lets 127.0.0.1 in, and nobody else.
    let refused = load_from("127.0.0.3");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("host \"127.0.0.3\""), "{}", refused.stderr);
    let elsewhere = load_from("203.0.113.9");
    assert_eq!(elsewhere.code, 1, "{}", elsewhere.stderr);
    assert!(elsewhere.stderr.contains("assign requested address"), "{}", elsewhere.stderr);
    let loaded = load_from("127.0.0.1");
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM sales"), "1000");
}

#[test]
fn what_could_do_nothing_is_refused() {
    let files = Files::new();
    let file = files.write("sales.tsv", rows(10));
    for (args, said) in [
        (&["--endpoint", "db"][..], "--endpoint needs a PostgreSQL server"),
        (&["--endpoint", "db,port=1"], "neither source=... nor weight=..."),
        (&["--endpoint-policy", "fastest"], "least-queue"),
    ] {
        let args = [&["load", &file, "--to", "null:"], args].concat();
        let refused = files.fullbore(&args);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let to = ["load", &file, "--to", "postgresql://u@127.0.0.1:1/d", "--table", "sales"];
    for (args, said) in [
        (&["--endpoint-policy", "round-robin"][..], "needs several endpoints"),
        (&["--endpoint", "a,weight=2", "--endpoint", "b"], "which policy least-queue ignores"),
    ] {
        let refused = files.fullbore(&[&to, args].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}
