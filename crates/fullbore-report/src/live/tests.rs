//! The live page over real connections, its record written by hand.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullbore_record::{Entry, Event, TableTotals};

use super::connections::Limits;
use super::{Figured, Live, Plain};

/// What a wait for something that must come may take at most; it is not waited for otherwise.
const AT_MOST: Duration = Duration::from_secs(30);

/// A run's folder, and the hand that writes its record.
struct Run {
    folder: tempfile::TempDir,
    file: File,
}

impl Run {
    fn begin(table: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("record.jsonl")).expect("made");
        let mut run = Self { folder, file };
        run.write(
            0.0,
            Event::RunStarted {
                version: 1,
                run_id: "6b019651fdd9".into(),
                fullbore: "0.1.0".into(),
                started_unix_ms: 1_700_000_000_000,
                streams: 2,
                parsers: 2,
                pieces: 7,
                tables: vec![table.into()],
                methods: Vec::new(),
            },
        );
        run
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&mut self, at: f64, event: Event) {
        let mut line = serde_json::to_vec(&Entry { at, event }).expect("JSON");
        line.push(b'\n');
        self.file.write_all(&line).expect("written");
    }

    fn sample(&mut self, at: f64, table: &str, rows: u64) {
        let tables = vec![TableTotals {
            name: table.into(),
            rows,
            rows_sent: rows,
            bytes: rows * 10,
            bytes_sent: rows * 10,
            pieces: 1,
            ..TableTotals::default()
        }];
        self.write(at, Event::Sample { tables, streams_active: 2 });
    }
}

fn quick() -> Limits {
    Limits { between: Duration::from_millis(1), ..Limits::default() }
}

/// Where a page is: its address and its token.
fn parts(url: &str) -> (SocketAddr, String) {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (address, token) = rest.split_once("/?token=").expect("a token");
    (address.parse().expect("an address"), token.to_owned())
}

fn connect(live: &Live) -> TcpStream {
    let stream = TcpStream::connect(parts(live.url()).0).expect("connected");
    stream.set_read_timeout(Some(AT_MOST)).expect("set");
    stream
}

/// Asks, with further header lines; the answer's head and body.
fn ask(live: &Live, path: &str, headers: &str) -> (String, String) {
    let (address, token) = parts(live.url());
    let path = path.replace("TOKEN", &token);
    let headers = headers.replace("TOKEN", &token);
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let mut stream = connect(live);
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n").as_bytes())
        .expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

fn status(live: &Live, path: &str, headers: &str) -> u16 {
    let (head, _) = ask(live, path, headers);
    head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status")
}

/// Listens to the events of a run.
struct Listener {
    stream: TcpStream,
    heard: String,
}

impl Listener {
    fn of(live: &Live) -> Self {
        let (address, token) = parts(live.url());
        let mut stream = connect(live);
        let asked = format!("GET /events?token={token} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(asked.as_bytes()).expect("sent");
        Self { stream, heard: String::new() }
    }

    /// One whose kernel takes little while nobody reads.
    fn with_little_room(live: &Live) -> Self {
        let listener = Self::of(live);
        socket2::SockRef::from(&listener.stream).set_recv_buffer_size(4096).expect("set");
        listener
    }

    /// Reads until something is heard.
    fn hear(&mut self, what: &str) {
        let mut buffer = [0; 4096];
        while !self.heard.contains(what) {
            let read = self.stream.read(&mut buffer).expect("more");
            assert_ne!(read, 0, "it ended before {what:?} in {}", self.heard);
            self.heard.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }

    /// Returns once it has heard a picture; goes on reading until the end.
    fn hear_on(mut self) -> JoinHandle<String> {
        let (heard, has_heard) = channel();
        let thread = std::thread::spawn(move || {
            self.hear("event: picture");
            let _ = heard.send(());
            self.hear_the_end()
        });
        has_heard.recv().expect("a picture");
        thread
    }

    fn hear_the_end(mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).expect("it ends");
        self.heard + &rest
    }
}

#[test]
fn only_who_has_the_token_may_look() {
    let run = Run::begin("t");
    let live = Live::start("127.0.0.1", run.path()).expect("served");
    for path in [
        "/",
        "/events",
        "/metrics",
        "/nothing",
        "/?token=",
        "/?token=00",
        "/metrics?token=TOKEN0",
        "/?token=x&token=TOKEN",
    ] {
        assert_eq!(status(&live, path, ""), 403, "{path}");
    }
    assert_eq!(status(&live, "/metrics", "Authorization: Bearer wrong\r\n"), 403);
    assert_eq!(status(&live, "/metrics", "Authorization: Basic TOKEN\r\n"), 403);
    for (path, headers) in [
        ("/?token=TOKEN", ""),
        ("/metrics?token=TOKEN", ""),
        ("/metrics", "Authorization: Bearer TOKEN\r\n"),
    ] {
        assert_eq!(status(&live, path, headers), 200, "{path}");
    }
    assert_eq!(status(&live, "/nothing?token=TOKEN", ""), 404);
    assert!(!live.is_open());
    live.finish();
}

#[test]
fn a_strange_host_is_not_answered_even_with_the_token() {
    let run = Run::begin("t");
    let live = Live::start("127.0.0.1", run.path()).expect("served");
    for host in ["Host: evil.example\r\n", "Host: 127.0.0.1.evil.example:80\r\n", "Host: \r\n"] {
        assert_eq!(status(&live, "/?token=TOKEN", host), 421, "{host:?}");
    }
    // By its line alone, too.
    assert_eq!(status(&live, "http://evil.example/?token=TOKEN", ""), 421);
    assert_eq!(status(&live, "/?token=TOKEN", "Host: localhost:1\r\n"), 200);
    live.finish();
}

#[test]
fn what_is_answered_may_do_nothing_but_show_itself() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'\n";
    let mut run = Run::begin(evil);
    run.sample(0.0, evil, 0);
    run.sample(1.0, evil, 1000);
    let live = Live::start("127.0.0.1", run.path()).expect("served");
    let mut listener = Listener::of(&live);
    listener.hear("1,000");
    let (head, body) = ask(&live, "/?token=TOKEN", "");
    let head = head.to_lowercase();
    for line in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "connect-src 'self'",
        "no-referrer",
        "no-store",
        "nosniff",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
    assert!(!head.contains("access-control"), "no other page may read it: {head}");
    assert!(!body.contains("<script>alert") && !body.contains("<img src=x"));
    assert!(!listener.heard.contains("<script>alert") && !listener.heard.contains("<img src=x"));
    let (_, figures) = ask(&live, "/metrics?token=TOKEN", "");
    assert!(
        figures.lines().all(|line| line.starts_with('#') || line.starts_with("fullbore_")),
        "{figures}"
    );
    assert!(figures.contains("\\\"'\\n\"} 1000"), "{figures}");
    live.finish();
}

#[test]
fn a_page_grows_with_the_record_and_hears_of_its_end() {
    let mut run = Run::begin("lines");
    run.sample(0.0, "lines", 0);
    let live = Live::start_within("127.0.0.1", run.path(), quick()).expect("served");
    let mut listener = Listener::of(&live);
    listener.hear("event: picture");
    for second in 1..=3 {
        run.sample(f64::from(second), "lines", 1000 * u64::try_from(second).expect("small"));
        listener.hear(&format!("{second},000 rows"));
    }
    run.write(
        4.0,
        Event::RunFailed {
            error: "the disk".into(),
            is_kept: true,
            rows_kept: 0,
            left_behind: Vec::new(),
        },
    );
    live.finish();
    let heard = listener.hear_the_end();
    let last = heard.rsplit("event: picture").next().expect("a picture");
    assert!(last.contains("Stopped, and can be resumed") && last.contains("the disk"), "{last}");
    assert!(heard.contains("event: end"), "{heard}");
}

#[test]
fn who_does_not_read_is_forgotten_and_holds_nobody_up() {
    let mut run = Run::begin("lines");
    let patience = Duration::from_millis(800);
    let limits = Limits { patience, connections: 3, farewell: AT_MOST, ..quick() };
    let live = Live::start_within("127.0.0.1", run.path(), limits).expect("served");
    // One asks for nothing, one does not take what it is given, one breaks off: all three places.
    let _silent = connect(&live);
    let slow = Listener::with_little_room(&live);
    drop(Listener::of(&live));
    let mut listener = Listener::of(&live);
    let began = Instant::now();
    let mut second = 0;
    // Enough for all buffers between here and there.
    let table = "a table of a long name ".repeat(4000);
    while began.elapsed() < 4 * patience {
        second += 1;
        run.sample(f64::from(second), &table, u64::from(second as u32) * 1000);
        listener.hear(&format!("{second},000 rows"));
        listener.heard.clear();
    }
    // Those who are to hear of the end read all the time, or they would be forgotten, too.
    let listener = std::thread::spawn(move || listener.hear_the_end());
    // There is room again: the two that did nothing are gone.
    let mut ends: Vec<_> = (0..2).map(|_| Listener::of(&live).hear_on()).collect();
    ends.push(listener);
    live.finish();
    for end in ends {
        assert!(end.join().expect("heard").contains("event: end"));
    }
    // What was not taken was not kept for it either.
    let mut slow = slow;
    let mut taken = Vec::new();
    let _ = slow.stream.read_to_end(&mut taken);
    assert!(!String::from_utf8_lossy(&taken).contains("event: end"));
}

#[test]
fn the_figures_are_the_records() {
    let mut run = Run::begin("lines");
    run.sample(0.0, "lines", 0);
    run.sample(2.5, "lines", 4000);
    let live = Live::start_within("127.0.0.1", run.path(), quick()).expect("served");
    Listener::of(&live).hear("4,000");
    let (head, figures) = ask(&live, "/metrics?token=TOKEN", "");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for line in [
        "fullbore_run_info{run=\"6b019651fdd9\",version=\"0.1.0\",state=\"unfinished\"} 1",
        "fullbore_rows{table=\"lines\"} 4000",
        "fullbore_bytes{table=\"lines\"} 40000",
        "fullbore_pieces_planned 7",
        "fullbore_run_seconds 2.5",
        "# TYPE fullbore_rows gauge",
    ] {
        assert!(figures.lines().any(|found| found == line), "{line}: {figures}");
    }
    live.finish();
}

/// Figures that never change.
struct Fixed;

impl Figured for Fixed {
    fn metrics(&self) -> String {
        "fullbore_rows 7\n".into()
    }

    fn is_failing(&self) -> bool {
        false
    }
}

#[test]
fn figures_without_end_wait_for_nobody() {
    let limits = Limits {
        patience: Duration::from_millis(500),
        connections: 2,
        farewell: AT_MOST,
        ..quick()
    };
    let plain = Plain::start_within("127.0.0.1", Arc::new(Fixed), limits).expect("served");
    // Who asks for nothing takes all places, for a while.
    let connect = || {
        let stream = TcpStream::connect(plain.address()).expect("connected");
        stream.set_read_timeout(Some(AT_MOST)).expect("a limit");
        stream
    };
    let silent = [connect(), connect()];
    for (path, expected) in [("/metrics", "fullbore_rows 7\n"), ("/health", "ok\n")] {
        let mut stream = connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: scraped.example\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(expected), "{answer}");
    }
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).expect("closed"), 0);
    }
    plain.finish();
}
