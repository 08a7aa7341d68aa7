//! Servers that lie, stall, flood and hang up: each ends in an error, soon and without harm.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, Session};
use rustls::pki_types::PrivateKeyDer;

/// A server that does what the function says with each connection, in turn.
struct Fake {
    port: u16,
    thread: JoinHandle<()>,
}

impl Fake {
    fn start(connections: usize, serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            for _ in 0..connections {
                serve(listener.accept().unwrap().0);
            }
        });
        Self { port, thread }
    }

    fn connect(&self, more: &str) -> Result<Session, ConnectionError> {
        let text = format!(
            "host=127.0.0.1 port={} user=u password=hunter2 sslmode=disable {more}",
            self.port
        );
        let options = ConnectionOptions::resolve(Some(&text), &Environment::empty()).unwrap();
        Session::connect(&options)
    }

    /// The error of connecting.
    fn refuse(self, more: &str) -> ConnectionError {
        let error = self.connect(more).unwrap_err();
        self.thread.join().unwrap();
        error
    }
}

/// Reads the login, or the question for encryption.
fn read_untagged(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Reads a message.
fn read_message(stream: &mut impl Read) -> Vec<u8> {
    stream.read_exact(&mut [0]).unwrap();
    read_untagged(stream)
}

/// Reads until the client is gone.
fn read_to_end(stream: &mut impl Read) {
    let mut buffer = vec![0; 65536];
    while stream.read(&mut buffer).is_ok_and(|bytes| bytes != 0) {}
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

const READY: &[u8] = b"Z\0\0\0\x05I";

/// Lets the client in.
fn greet(stream: &mut (impl Read + Write)) {
    read_untagged(stream);
    let greeting =
        [message(b'R', &[0; 4]), message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]), READY.to_vec()].concat();
    stream.write_all(&greeting).unwrap();
}

/// What comes of a query that is answered like this.
fn answer(bytes: Vec<u8>) -> ConnectionError {
    let fake = Fake::start(1, move |mut stream| {
        greet(&mut stream);
        read_message(&mut stream);
        // The client may hang up in the middle.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_to_end(&mut stream);
    });
    let mut session = fake.connect("").unwrap();
    let error = session.query("SELECT 1").unwrap_err();
    assert!(session.is_broken());
    assert!(matches!(session.query("SELECT 1"), Err(ConnectionError::Lost { .. })));
    drop(session);
    fake.thread.join().unwrap();
    error
}

fn is_protocol(error: &ConnectionError) {
    assert!(matches!(error, ConnectionError::Protocol { .. }), "{error:?}");
}

#[test]
fn impossible_messages_before_the_login() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"R\x7f\xff\xff\xff\0\0\0\0",
        b"R\xff\xff\xff\xff",
        b"R\0\0\0\x03",
        b"R\0\0\0\x08\0\0\0\x63",
        b"R\0\0\0\x05\0",
        b"R\0\0\0\x0a\0\0\0\0\0\0",
        b"Z\0\0\0\x05I",
        b"D\0\x10\0\0",
        b"S\0\0\0\x05a",
        b"E\xff\xff\xff\xff",
    ] {
        let bytes = bytes.to_vec();
        let fake = Fake::start(1, move |mut stream| {
            read_untagged(&mut stream);
            stream.write_all(&bytes).unwrap();
            read_to_end(&mut stream);
        });
        is_protocol(&fake.refuse(""));
    }
}

#[test]
fn impossible_answers() {
    let columns = message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
    for bytes in [
        // A row of 300 MB, and a description that is cut short.
        b"D\x12\0\0\0".to_vec(),
        message(b'T', b"\0\x05a\0"),
        message(b'T', b"\xff\xff"),
        // Rows without columns, with too many, with lengths beyond their end.
        message(b'D', b"\0\x01\0\0\0\x01x"),
        [columns.clone(), message(b'D', b"\0\x02\xff\xff\xff\xff\xff\xff\xff\xff")].concat(),
        [columns.clone(), message(b'D', b"\0\x01\x7f\xff\xff\xff")].concat(),
        [columns.clone(), message(b'D', b"\0\x01\0\0\0\x01xx")].concat(),
        [columns, message(b'D', b"\xff\xff")].concat(),
        message(b'C', b"no end"),
        message(b'C', b"\xff\xfe\0"),
        b"Z\0\0\0\x05?".to_vec(),
        message(b'W', b"\0\0\0"),
        message(b'G', b""),
        message(b'1', b""),
        message(b'R', &[0; 4]),
    ] {
        is_protocol(&answer(bytes));
    }
}

#[test]
fn floods_are_bounded() {
    // A notice said to have 2 GB, of which little comes.
    let error = answer([&b"N\x7f\xff\xff\xff"[..], &[b'x'; 3_000_000]].concat());
    assert!(matches!(error, ConnectionError::Lost { .. }), "{error:?}");
    // Settings without end, then nonsense.
    let settings: Vec<u8> =
        (0..100_000).flat_map(|n| message(b'S', format!("name{n}\0value\0").as_bytes())).collect();
    is_protocol(&answer([settings, b"?\0\0\0\x04".to_vec()].concat()));
}

#[test]
fn an_endless_error_before_the_login_takes_no_memory() {
    let fake = Fake::start(1, |mut stream| {
        read_untagged(&mut stream);
        let start = [&b"E\x7f\xff\xff\xffSFATAL\0C53300\0M"[..], &[b'x'; 10_000_000]].concat();
        stream.write_all(&start).unwrap();
    });
    let error = fake.refuse("");
    assert!(matches!(error, ConnectionError::Lost { .. }), "{error:?}");
}

#[test]
fn a_server_that_says_nothing() {
    let fake = Fake::start(1, |mut stream| read_to_end(&mut stream));
    let start = Instant::now();
    let error = fake.refuse("connect_timeout=1");
    assert!(matches!(error, ConnectionError::Refused { .. }), "{error:?}");
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn logins_that_prove_nothing() {
    let sasl = || message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    // Lets us in before it has proved that it knows the password.
    let fake = Fake::start(1, move |mut stream| {
        read_untagged(&mut stream);
        stream.write_all(&sasl()).unwrap();
        read_message(&mut stream);
        stream.write_all(&message(b'R', &[0; 4])).unwrap();
        read_to_end(&mut stream);
    });
    is_protocol(&fake.refuse(""));
    // Proves it wrongly.
    let fake = Fake::start(1, move |mut stream| {
        read_untagged(&mut stream);
        stream.write_all(&sasl()).unwrap();
        let first = String::from_utf8_lossy(&read_message(&mut stream)).into_owned();
        let nonce = first.split("r=").nth(1).unwrap();
        let challenge = format!("\0\0\0\x0br={nonce}more,s=c2FsdA==,i=4096");
        stream.write_all(&message(b'R', challenge.as_bytes())).unwrap();
        read_message(&mut stream);
        stream.write_all(&message(b'R', b"\0\0\0\x0cv=d3Jvbmc=")).unwrap();
        read_to_end(&mut stream);
    });
    let error = fake.refuse("");
    assert!(error.to_string().contains("could not prove"), "{error}");
    for challenge in ["r=other,s=c2FsdA==,i=4096", "", "r=", "\u{0}", "i=99999999999"] {
        let challenge = format!("\0\0\0\x0b{challenge}");
        let fake = Fake::start(1, move |mut stream| {
            read_untagged(&mut stream);
            stream.write_all(&sasl()).unwrap();
            read_message(&mut stream);
            stream.write_all(&message(b'R', challenge.as_bytes())).unwrap();
            read_to_end(&mut stream);
        });
        let error = fake.refuse("");
        assert!(matches!(error, ConnectionError::Authentication { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    let fake = Fake::start(1, move |mut stream| {
        read_untagged(&mut stream);
        stream.write_all(&message(b'R', b"\0\0\0\x0aSCRAM-OTHER\0\0")).unwrap();
        read_to_end(&mut stream);
    });
    let error = fake.refuse("");
    assert!(error.to_string().contains("SCRAM-OTHER"), "{error}");
}

#[test]
fn wrong_answers_to_the_question_for_encryption() {
    for bytes in [&b"EFATAL: what a secret"[..], b"X", b"S\x16\x03\x03\xff\xffgarbage", b"SHTTP"] {
        let bytes = bytes.to_vec();
        let fake = Fake::start(1, move |mut stream| {
            read_untagged(&mut stream);
            stream.write_all(&bytes).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            read_to_end(&mut stream);
        });
        let error = fake.refuse("sslmode=require");
        assert!(matches!(error, ConnectionError::Tls { .. }), "{error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let fake = Fake::start(1, |mut stream| {
        read_untagged(&mut stream);
    });
    fake.refuse("sslmode=require");
}

#[test]
fn a_copy_that_the_server_ends() {
    let start_copy = message(b'G', b"\0\0\0");
    for bytes in [
        [message(b'C', b"COPY 5\0"), READY.to_vec()].concat(),
        message(b'C', b"COPY 5\0").repeat(1_000),
        b"?".repeat(100),
    ] {
        let bytes = [start_copy.clone(), bytes].concat();
        let fake = Fake::start(1, move |mut stream| {
            greet(&mut stream);
            read_message(&mut stream);
            stream.write_all(&bytes).unwrap();
            read_to_end(&mut stream);
        });
        let mut session = fake.connect("").unwrap();
        let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
        let block = vec![b'x'; 1024 * 1024];
        let error = loop {
            if let Err(error) = copy.send(&block) {
                break error;
            }
        };
        is_protocol(&error);
        drop(copy);
        drop(session);
        fake.thread.join().unwrap();
    }
}

/// Encrypted from the first byte, as servers can since 17.
#[test]
fn direct_encryption() {
    for (protocol, accepted) in [(&b"postgresql"[..], true), (b"", false)] {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.into()];
        }
        let config = Arc::new(config);
        let fake = Fake::start(1, move |stream| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            if accepted {
                greet(&mut stream);
            }
            read_to_end(&mut stream);
        });
        let result = fake.connect("sslmode=require sslnegotiation=direct");
        assert_eq!(result.is_ok(), accepted, "{result:?}");
        drop(result);
        fake.thread.join().unwrap();
    }
}
