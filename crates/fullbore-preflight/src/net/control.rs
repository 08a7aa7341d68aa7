//! A connection that both sides talk over: the handshake, then frames; no wait without an end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::handshake::{
    ANSWER_BYTES, Answer, CLAIM_BYTES, Claim, GREETING_BYTES, Greeting, NONCE_BYTES, Purpose,
    Verdict,
};
use super::message::{Checked, decode};
use super::token::Token;
use crate::error::{Error, Result};
use crate::limits::{CONTROL_SILENCE_MAX, FRAME_BYTES_MAX, HANDSHAKE_TIME_MAX};

/// A trusted connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    peer: String,
}

impl Control {
    pub fn new(stream: TcpStream, peer: String) -> Self {
        Self { stream, peer }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<()> {
        let body = serde_json::to_vec(message).expect("plain data becomes JSON");
        let length = u32::try_from(body.len()).ok().filter(|len| *len as usize <= FRAME_BYTES_MAX);
        let mut frame = length.expect("our messages are small").to_be_bytes().to_vec();
        frame.extend(body);
        write_within(&mut self.stream, &frame, CONTROL_SILENCE_MAX)
            .map_err(|source| lost(&self.peer, &source))
    }

    /// The next message, which may take this much longer than the usual silence.
    pub fn receive<T: Checked>(&mut self, longer: Duration) -> Result<T> {
        let deadline = Instant::now() + CONTROL_SILENCE_MAX + longer;
        let lost = |source: io::Error| lost(&self.peer, &source);
        let mut length = [0; 4];
        read_until(&mut self.stream, &mut length, deadline).map_err(lost)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Error::Peer {
                peer: self.peer.clone(),
                message: format!("it announced a message of {length} bytes: it speaks otherwise"),
                hint: Some("use the same version of fullbore on both sides".into()),
            });
        }
        let mut frame = vec![0; length];
        read_until(&mut self.stream, &mut frame, deadline).map_err(lost)?;
        decode(&frame).map_err(|malformed| Error::Peer {
            peer: self.peer.clone(),
            message: malformed.to_string(),
            hint: Some("use the same version of fullbore on both sides".into()),
        })
    }

    /// An answer that is a message, but not one that can come here.
    pub fn out_of_turn(&self) -> Error {
        Error::Peer {
            peer: self.peer.clone(),
            message: "it answered out of turn".into(),
            hint: Some("use the same version of fullbore on both sides".into()),
        }
    }
}

fn lost(peer: &str, source: &io::Error) -> Error {
    let message = match source.kind() {
        io::ErrorKind::UnexpectedEof => "it ended the connection".to_owned(),
        io::ErrorKind::TimedOut => "it stopped responding".to_owned(),
        _ => format!("the connection was lost: {source}"),
    };
    Error::Peer { peer: peer.into(), message, hint: None }
}

/// Proves to a listener who we are, and lets it prove itself.
pub fn introduce(
    stream: &mut TcpStream,
    peer: &str,
    token: &Token,
    purpose: Purpose,
) -> Result<()> {
    let deadline = Instant::now() + HANDSHAKE_TIME_MAX + CONTROL_SILENCE_MAX;
    let said = |message: &str, hint: Option<&str>| Error::Peer {
        peer: peer.into(),
        message: message.into(),
        hint: hint.map(str::to_owned),
    };
    let other = "check that `fullbore preflight net --listen` of the same version listens there";
    let mut greeting = [0; GREETING_BYTES];
    read_until(stream, &mut greeting, deadline)
        .map_err(|error| said(&format!("it does not greet us: {error}"), Some(other)))?;
    let greeting = Greeting::decode(&greeting)
        .ok_or_else(|| said("it greets us otherwise than a listener of ours", Some(other)))?;
    let claim = Claim::make(token, &greeting, purpose, nonce()?);
    write_within(stream, &claim.encode(), CONTROL_SILENCE_MAX).map_err(|e| lost(peer, &e))?;
    let mut answer = [0; ANSWER_BYTES];
    read_until(stream, &mut answer, deadline).map_err(|e| lost(peer, &e))?;
    let answer = Answer::decode(&answer)
        .ok_or_else(|| said("it answers otherwise than a listener of ours", Some(other)))?;
    match answer.verdict {
        Verdict::Welcome if answer.is_proven(token, &greeting, &claim) => Ok(()),
        Verdict::Welcome => Err(said(
            "it does not know the token itself: it is not the listener that you started",
            Some("check the address"),
        )),
        Verdict::WrongToken => Err(said(
            "it refuses the token",
            Some("give the one that this listener printed, with --token or --token-file"),
        )),
        Verdict::Busy => Err(said(
            "another measurement is already running",
            Some("wait until that has ended, or start another listener"),
        )),
        Verdict::Unexpected => Err(said("it did not expect this stream", None)),
    }
}

/// The listener's half up to the claim. `None`: it was a stranger, and is gone.
pub fn hear(stream: &mut TcpStream, token: &Token) -> Option<(Greeting, Claim)> {
    let deadline = Instant::now() + HANDSHAKE_TIME_MAX;
    let greeting = Greeting { nonce: nonce().ok()? };
    write_within(stream, &greeting.encode(), HANDSHAKE_TIME_MAX).ok()?;
    let mut claim = [0; CLAIM_BYTES];
    read_until(stream, &mut claim, deadline).ok()?;
    let claim = Claim::decode(&claim)?;
    if !claim.is_proven(token, &greeting) {
        let _ = answer(stream, &Answer::refusal(Verdict::WrongToken));
        return None;
    }
    Some((greeting, claim))
}

pub fn answer(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    write_within(stream, &answer.encode(), HANDSHAKE_TIME_MAX)
}

fn nonce() -> Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| Error::System {
        what: "have a number that was never used before",
        source: io::Error::other(error),
    })?;
    Ok(nonce)
}

/// Reads all of it, or fails at the deadline: a byte now and then does not put that off.
fn read_until(stream: &mut TcpStream, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !into.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => into = &mut into[count..],
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted
                        | io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Small messages: they fit into the socket's buffer, or nobody reads at the other end.
fn write_within(stream: &mut TcpStream, bytes: &[u8], time: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(time))?;
    stream.write_all(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}
