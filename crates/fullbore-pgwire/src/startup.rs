//! From options to a session that is ready: host after host, address after address, encrypted
//! or not as far as the options leave that open.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::authentication;
use super::error::ConnectionError;
use super::options::{
    ChannelBindingMode, ConnectionOptions, HostOptions, Keepalive, SslMode, SslNegotiation,
};
use super::session::TransactionStatus;
use super::socket::{self, Peer};
use super::tls::TlsContext;
use super::transport::{Interest, Transport};
use super::wire::{Answer, Wire};

/// A connection on which the server waits for the first query.
pub(super) struct Started {
    pub(super) wire: Wire,
    pub(super) peer: Peer,
    pub(super) target: String,
    pub(super) tls: Option<TlsContext>,
    pub(super) backend_pid: i32,
    pub(super) secret_key: i32,
    pub(super) status: TransactionStatus,
}

/// Tries each address of each host, until `accept` takes a session. Goes on to the next only
/// where the address itself is no good: a wrong password is wrong everywhere.
pub(super) fn connect<T>(
    options: &ConnectionOptions,
    mut accept: impl FnMut(Started) -> Result<T, ConnectionError>,
) -> Result<T, ConnectionError> {
    let mut attempts = Vec::new();
    for host in in_order(options) {
        let mut peers = match socket::resolve(host) {
            Ok(peers) => peers,
            Err(error) => {
                attempts.push(error);
                continue;
            }
        };
        if options.shuffle_hosts {
            shuffle(&mut peers);
        }
        for peer in peers {
            match connect_to(options, host, &peer).and_then(&mut accept) {
                Ok(session) => return Ok(session),
                Err(error) if is_about_the_address(&error) => attempts.push(error),
                Err(error) => return Err(error),
            }
        }
    }
    match attempts.len() {
        0 => Err(ConnectionError::usage("there is no host to connect to")),
        1 => Err(attempts.remove(0)),
        _ => Err(ConnectionError::NoHost { attempts }),
    }
}

fn is_about_the_address(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Resolve { .. }
        | ConnectionError::Refused { .. }
        | ConnectionError::Lost { .. } => true,
        // Starting up, shutting down, in recovery.
        ConnectionError::Server(message) => message.code == "57P03",
        _ => false,
    }
}

fn in_order(options: &ConnectionOptions) -> Vec<&HostOptions> {
    let mut hosts: Vec<&HostOptions> = options.hosts.iter().collect();
    if options.shuffle_hosts {
        shuffle(&mut hosts);
    }
    hosts
}

/// Randomness good enough to spread load: the standard library seeds its hashers with it.
fn shuffle<T>(items: &mut [T]) {
    let random = RandomState::new();
    for last in (1..items.len()).rev() {
        let choices = last as u64 + 1;
        let chosen = random.hash_one(last) % choices;
        items.swap(last, usize::try_from(chosen).unwrap_or(last));
    }
}

/// Whether to encrypt, in the order to be tried.
fn encryptions(options: &ConnectionOptions, peer: &Peer) -> &'static [bool] {
    // What passes through a socket never leaves the machine; libpq does not encrypt there either.
    if matches!(peer, Peer::Unix { .. }) {
        return &[false];
    }
    match options.tls.mode {
        SslMode::Disable => &[false],
        SslMode::Allow => &[false, true],
        // In clear there is no channel to bind to.
        SslMode::Prefer if options.channel_binding == ChannelBindingMode::Require => &[true],
        SslMode::Prefer => &[true, false],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[true],
    }
}

fn connect_to(
    options: &ConnectionOptions,
    host: &HostOptions,
    peer: &Peer,
) -> Result<Started, ConnectionError> {
    let tries = encryptions(options, peer);
    let mut last_error = None;
    for &encrypt in tries {
        let deadline = options.connect_timeout.map(|timeout| Instant::now() + timeout);
        match start(options, host, peer, encrypt, deadline) {
            Err(ConnectionError::Lost { .. })
                if deadline.is_some_and(|at| Instant::now() >= at) =>
            {
                return Err(ConnectionError::Refused {
                    target: host.describe(),
                    source: io::ErrorKind::TimedOut.into(),
                });
            }
            // Why there is no encryption says more than that the server wants some.
            Err(error) if asks_for_the_other_way(&error) => {
                let keeps_first = matches!(last_error, Some(ConnectionError::Tls { .. }));
                last_error = if keeps_first { last_error } else { Some(error) };
            }
            result => {
                if let (Ok(_), Some(error @ ConnectionError::Tls { .. })) = (&result, &last_error) {
                    tracing::warn!("not encrypted, since sslmode=prefer allows it: {error}");
                }
                return result;
            }
        }
    }
    Err(last_error.unwrap_or_else(|| ConnectionError::usage("no address to connect to")))
}

/// Whether the other of "encrypted" and "in clear" may do better. Unlike libpq we don't count a
/// wrong password among the reasons: it would go out once more, and in clear.
fn asks_for_the_other_way(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Tls { .. } => true,
        error => error.sqlstate() == Some("28000"),
    }
}

fn start(
    options: &ConnectionOptions,
    host: &HostOptions,
    peer: &Peer,
    encrypt: bool,
    deadline: Option<Instant>,
) -> Result<Started, ConnectionError> {
    let target = host.describe();
    let context = match encrypt {
        true => Some(TlsContext::new(&options.tls, host)?),
        false => None,
    };
    let (transport, context) = open(
        peer,
        &target,
        &options.keepalive,
        context,
        options.tls.negotiation,
        options.tls.mode == SslMode::Prefer,
        deadline,
    )?;
    let mut wire = Wire::new(transport, deadline);
    send_startup(&mut wire, options)?;
    authentication::log_in(&mut wire, options, host)?;

    let (mut backend_pid, mut secret_key) = (0, 0);
    let status = loop {
        match wire.next()? {
            Answer::Message(Message::BackendKeyData(body)) => {
                (backend_pid, secret_key) = (body.process_id(), body.secret_key());
            }
            Answer::Message(Message::ReadyForQuery(body)) => {
                break TransactionStatus::of(body.status(), &mut wire)?;
            }
            Answer::Message(_) => return Err(wire.violate("an answer without a question".into())),
            Answer::Error(message) => return Err(ConnectionError::Server(message)),
        }
    };
    wire.deadline = None;
    Ok(Started { wire, peer: peer.clone(), target, tls: context, backend_pid, secret_key, status })
}

/// Opens a socket and, with a context, encrypts it. Comes back without the context where the
/// server can't encrypt and `or_plain` allows that.
pub(super) fn open(
    peer: &Peer,
    target: &str,
    keepalive: &Keepalive,
    context: Option<TlsContext>,
    negotiation: SslNegotiation,
    or_plain: bool,
    deadline: Option<Instant>,
) -> Result<(Transport, Option<TlsContext>), ConnectionError> {
    let refused = |source| ConnectionError::Refused { target: target.into(), source };
    let descriptor = socket::open(peer, keepalive, deadline).map_err(refused)?;
    let mut transport = Transport::plain(descriptor);
    let Some(context) = context else {
        return Ok((transport, None));
    };
    if negotiation == SslNegotiation::Postgres {
        match ask_for_tls(&mut transport, deadline).map_err(refused)? {
            b'S' => {}
            b'N' if or_plain => return Ok((transport, None)),
            b'N' => {
                return Err(ConnectionError::Tls {
                    target: target.into(),
                    reason: "the server does not encrypt".into(),
                    hint: Some("set ssl = on at the server, or allow sslmode=prefer"),
                });
            }
            // Perhaps an error message; from a server not known yet, it is not for people's eyes.
            _ => {
                return Err(ConnectionError::Tls {
                    target: target.into(),
                    reason: "the server did not understand the question for encryption".into(),
                    hint: None,
                });
            }
        }
    }
    let connection = context.connection(target)?;
    transport.encrypt(connection, deadline).map_err(|error| context.explain(target, error))?;
    if negotiation == SslNegotiation::Direct {
        context.check_protocol(target, transport.tls())?;
    }
    Ok((transport, Some(context)))
}

/// One byte of answer, and not a byte more is read: what came after it in clear must not be
/// taken for something said under encryption.
fn ask_for_tls(transport: &mut Transport, deadline: Option<Instant>) -> io::Result<u8> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    // Eight bytes into an empty socket.
    if transport.send_some(&[io::IoSlice::new(&request)])? != Some(request.len()) {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut answer = [0];
    loop {
        match transport.receive(&mut answer)? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => return Ok(answer[0]),
            None => {
                transport.wait(Interest::Read, deadline)?;
            }
        }
    }
}

fn send_startup(wire: &mut Wire, options: &ConnectionOptions) -> Result<(), ConnectionError> {
    let mut parameters = vec![
        ("user", options.user.as_str()),
        ("database", options.database.as_str()),
        ("client_encoding", "UTF8"),
        ("application_name", options.application_name.as_str()),
    ];
    if let Some(options) = &options.options {
        parameters.push(("options", options));
    }
    for (name, value) in &options.runtime {
        parameters.push((name, value));
    }
    if parameters.iter().any(|(name, value)| {
        name.is_empty() || [name, value].iter().any(|text| text.contains('\0'))
    }) {
        return Err(ConnectionError::usage(
            "a connection option holds a NUL character or has no name",
        ));
    }
    let mut message = BytesMut::new();
    frontend::startup_message(parameters, &mut message)
        .map_err(|error| ConnectionError::usage(error.to_string()))?;
    wire.send(&[&message])
}
