//! The network probe over loopback: measurements, strangers, and liars on both sides.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fullbore_preflight::Result;
use fullbore_preflight::net::handshake::{
    ANSWER_BYTES, Answer, CLAIM_BYTES, Claim, GREETING_BYTES, Greeting, Purpose, Verdict,
};
use fullbore_preflight::net::{Event, ListenOptions, Listener, Report, Request, Token, run};

struct Listening {
    address: SocketAddr,
    token: Token,
    events: Arc<Mutex<Vec<Event>>>,
    thread: JoinHandle<Result<()>>,
}

fn options() -> ListenOptions {
    ListenOptions { time: Duration::from_secs(60), bytes_max: 1 << 40, once: true }
}

fn listen(options: ListenOptions) -> Listening {
    let token = Token::generate().expect("randomness");
    let listener = Listener::bind("127.0.0.1:0", token.clone(), options).expect("a free port");
    let address = listener.address().expect("bound");
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let seen = Arc::clone(&events);
    let thread =
        thread::spawn(move || listener.serve(&mut |event| seen.lock().expect("sound").push(event)));
    Listening { address, token, events, thread }
}

impl Listening {
    fn request(&self) -> Request {
        Request {
            address: self.address.to_string(),
            token: self.token.clone(),
            streams: vec![1, 3],
            windows: vec![None],
            message_bytes: vec![64 << 10],
            congestions: vec![None],
            cell_seconds: 0.5,
            bytes_max: 1 << 40,
            target_bytes_per_second: Some(1e6),
        }
    }

    /// The listener, once it has ended.
    fn ended(self) -> Vec<Event> {
        self.thread.join().expect("it does not panic").expect("it ends well");
        self.events.lock().expect("sound").clone()
    }
}

fn measure(request: &Request) -> Result<Report> {
    run(request, &mut |_| {})
}

/// Makes a sound request one that is not.
type Spoil = fn(&mut Request);

/// A connection that has proven to know the token, for a purpose.
fn trusted(listening: &Listening, purpose: Purpose) -> (TcpStream, Verdict) {
    let mut stream = TcpStream::connect(listening.address).expect("it listens");
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting).expect("a greeting");
    let greeting = Greeting::decode(&greeting).expect("ours");
    let claim = Claim::make(&listening.token, &greeting, purpose, [1; 32]);
    stream.write_all(&claim.encode()).expect("taken");
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).expect("an answer");
    (stream, Answer::decode(&answer).expect("ours").verdict)
}

#[test]
fn what_is_sent_arrives_and_both_ends_tell_of_it() {
    let listening = listen(options());
    let report = measure(&listening.request()).expect("measured");
    assert_eq!(report.cells.len(), 2);
    assert!(report.knee.is_some() && report.rtt_us > 0.0);
    assert_eq!(report.client.settings, report.listener.settings, "one host is both");
    assert!(report.client.settings.contains_key("net.ipv4.tcp_rmem"));
    assert_eq!(report.client.interface.as_deref(), Some("lo"));
    let need = report.need.as_ref().expect("a target was given");
    assert!(need.reached && need.streams_by_rate == Some(1), "{need:?}");
    for (cell, streams) in report.cells.iter().zip([1, 3]) {
        assert_eq!((cell.streams, cell.each.len()), (streams, streams));
        let sum: f64 = cell.each.iter().map(|stream| stream.bytes_per_second).sum();
        assert!((sum / cell.bytes_per_second - 1.0).abs() < 0.01, "{sum} {cell:?}");
        assert!(cell.totals.is_sorted() && !cell.congestion.is_empty());
        for stream in &cell.each {
            assert!(stream.bytes > 0 && stream.mss_bytes > 0 && stream.path_mtu > 0, "{stream:?}");
            assert!(stream.send_buffer_bytes > 0 && stream.receive_buffer_bytes > 0);
        }
    }
    let events = listening.ended();
    assert!(matches!(events[0], Event::Began { .. }), "{events:?}");
    let Event::Ended { bytes, trouble: None, .. } = &events[1] else { panic!("{events:?}") };
    let sent: u64 = report.cells.iter().flat_map(|c| &c.each).map(|s| s.bytes).sum();
    assert!(*bytes > sent, "the probe for the window comes on top: {bytes} and {sent}");
    assert!((0.05..=1.0).contains(&report.receive_share));
}

#[test]
fn bytes_are_bounded() {
    let listening = listen(options());
    let request = Request { bytes_max: 10 << 20, cell_seconds: 30.0, ..listening.request() };
    let report = measure(&request).expect("measured");
    let sent: u64 = report.cells.iter().flat_map(|c| &c.each).map(|s| s.bytes).sum();
    assert!(sent > 6 << 20, "{sent}");
    let events = listening.ended();
    let Event::Ended { bytes, .. } = &events[1] else { panic!("{events:?}") };
    assert!(*bytes > sent && *bytes <= 10 << 20, "{bytes}");
}

#[test]
fn a_listener_has_limits_of_its_own() {
    let listening = listen(ListenOptions { bytes_max: 1000, ..options() });
    let error = measure(&listening.request()).expect_err("more than it takes");
    assert!(error.to_string().contains("--max-bytes"), "{error}");
    listening.ended();

    let listening = listen(options());
    let request = Request { cell_seconds: 120.0, ..listening.request() };
    let error = measure(&request).expect_err("longer than it stays");
    assert!(error.to_string().contains("--for"), "{error}");
    listening.ended();
}

#[test]
fn who_has_another_token_is_refused() {
    let listening = listen(options());
    let other = Token::generate().expect("randomness");
    let error = measure(&Request { token: other.clone(), ..listening.request() })
        .expect_err("not its token");
    let text = format!("{error} {:?} {error:?}", error.hint());
    assert!(text.contains("refuses the token") && text.contains("--token"), "{text}");
    assert!(!text.contains(other.reveal()) && !text.contains(listening.token.reveal()), "{text}");
    measure(&listening.request()).expect("who has it is welcome all the same");
    assert!(listening.ended().iter().any(|event| matches!(event, Event::Stranger { .. })));
}

#[test]
fn a_listener_without_the_token_is_found_out() {
    let fake = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = fake.local_addr().expect("bound").to_string();
    let liar = thread::spawn(move || {
        let (mut stream, _) = fake.accept().expect("a client");
        stream.write_all(&Greeting { nonce: [3; 32] }.encode()).expect("taken");
        let mut claim = [0; CLAIM_BYTES];
        stream.read_exact(&mut claim).expect("a claim");
        // It plays back the client's own proof, the only one that it has ever seen.
        let proof = Claim::decode(&claim).expect("ours").proof;
        stream.write_all(&Answer { verdict: Verdict::Welcome, proof }.encode()).expect("taken");
    });
    let listening = listen(options());
    let error = measure(&Request { address, ..listening.request() }).expect_err("a liar");
    assert!(error.to_string().contains("does not know the token"), "{error}");
    liar.join().expect("it has lied");
    measure(&listening.request()).expect("measured");
    listening.ended();
}

#[test]
fn strangers_and_their_noise_change_nothing() {
    let listening = listen(options());
    let noise: Vec<u8> =
        (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut kept = Vec::new();
    for length in [0, 1, CLAIM_BYTES - 1, CLAIM_BYTES, noise.len()] {
        let mut stream = TcpStream::connect(listening.address).expect("it listens");
        let _ = stream.write_all(&noise[..length]);
        if length % 2 == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
        // They hang on while others measure.
        kept.push(stream);
    }
    measure(&listening.request()).expect("measured");
    drop(kept);
    listening.ended();
}

#[test]
fn only_one_measures_at_a_time_and_streams_must_be_announced() {
    let listening = listen(options());
    let (control, verdict) = trusted(&listening, Purpose::Control);
    assert_eq!(verdict, Verdict::Welcome);
    let error = measure(&listening.request()).expect_err("taken");
    assert!(error.to_string().contains("already"), "{error}");
    let stream = Purpose::Stream { session: 1, cell: 0, stream: 0 };
    assert_eq!(trusted(&listening, stream).1, Verdict::Unexpected);
    drop(control);
    let events = listening.ended();
    assert!(
        events.iter().any(|e| matches!(e, Event::Ended { trouble: Some(_), .. })),
        "{events:?}"
    );
}

#[test]
fn who_has_the_token_and_speaks_nonsense_is_let_go() {
    for frame in [
        u32::MAX.to_be_bytes().to_vec(),
        [4_u32.to_be_bytes().as_slice(), b"null"].concat(),
        [3_u32.to_be_bytes().as_slice(), b"\xff\xfe\xfd"].concat(),
        [12_u32.to_be_bytes().as_slice(), br#"{"say":"go"}"#].concat(),
    ] {
        let listening = listen(options());
        let (mut control, verdict) = trusted(&listening, Purpose::Control);
        assert_eq!(verdict, Verdict::Welcome);
        control.write_all(&frame).expect("taken");
        // It hangs up, which is all that there is to be heard.
        let _ = control.read_to_end(&mut Vec::new());
        let events = listening.ended();
        let told =
            events.iter().any(|e| matches!(e, Event::Ended { trouble: Some(_), bytes: 0, .. }));
        assert!(told, "{frame:?} {events:?}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let token = Token::generate().expect("randomness");
    let good = Request {
        address: "127.0.0.1:1".into(),
        token,
        streams: vec![1],
        windows: vec![None],
        message_bytes: vec![1 << 16],
        congestions: vec![None],
        cell_seconds: 1.0,
        bytes_max: 1 << 20,
        target_bytes_per_second: None,
    };
    let spoilt: [(&str, Spoil); 5] = [
        ("--streams", |r| r.streams = vec![65]),
        ("--streams", |r| r.streams = vec![]),
        ("--window", |r| r.windows = vec![Some(1)]),
        ("--message", |r| r.message_bytes = vec![0]),
        ("--seconds", |r| r.cell_seconds = f64::INFINITY),
    ];
    for (option, spoil) in spoilt {
        let mut request = good.clone();
        spoil(&mut request);
        let error = measure(&request).expect_err(option);
        assert!(error.is_usage() && error.hint().expect("a hint").contains(option), "{error}");
    }
    // Nobody listens there.
    let error = measure(&good).expect_err("nobody");
    assert!(!error.is_usage() && error.hint().expect("a hint").contains("--listen"), "{error}");
}
