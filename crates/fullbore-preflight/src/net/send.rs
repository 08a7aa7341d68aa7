//! The client's half of a measurement: streams that are written as fast as they take it.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use socket2::SockRef;

use super::control::introduce;
use super::handshake::Purpose;
use super::socket::{LOOK_UP_INTERVAL, SocketOptions, congestion_of, connect};
use super::token::Token;
use crate::cpu::thread_seconds;
use crate::error::{Error, Result};

/// What all streams of one measurement have in common.
#[derive(Debug, Clone)]
pub struct SendSetting {
    pub address: String,
    pub addresses: Vec<SocketAddr>,
    pub token: Token,
    pub options: SocketOptions,
    pub message_bytes: usize,
    /// Of each stream.
    pub bytes_max: u64,
}

/// What one stream did and was seen to be like.
#[derive(Debug, Default)]
pub struct Sent {
    pub cpu_seconds: f64,
    /// One for each interval, from the beginning.
    pub samples: Vec<TcpInfo>,
    pub send_buffer_bytes: u64,
    pub congestion: Option<String>,
}

/// Connects all streams side by side: over a long path each takes several round trips.
pub fn connect_all(setting: &SendSetting, purposes: Vec<Purpose>) -> Result<Vec<TcpStream>> {
    thread::scope(|scope| {
        let connecting: Vec<_> = purposes
            .into_iter()
            .map(|purpose| scope.spawn(move || connect_one(setting, purpose)))
            .collect();
        connecting
            .into_iter()
            .map(|thread| thread.join().expect("connecting does not panic"))
            .collect()
    })
}

fn connect_one(setting: &SendSetting, purpose: Purpose) -> Result<TcpStream> {
    let failed = |source| Error::Network {
        what: "connect to",
        address: setting.address.clone(),
        source,
        hint: None,
    };
    let mut stream = connect(&setting.addresses, &setting.options).map_err(failed)?;
    introduce(&mut stream, &setting.address, &setting.token, purpose)?;
    Ok(stream)
}

/// Sends over all streams for this time, and looks at them at each interval.
pub fn send_all(
    setting: &SendSetting,
    streams: &[TcpStream],
    time: Duration,
    interval: Duration,
) -> Result<Vec<Sent>> {
    let began = Instant::now();
    let failed = |source| Error::Network {
        what: "send to",
        address: setting.address.clone(),
        source,
        hint: None,
    };
    let buffer = vec![0x5a; setting.message_bytes];
    thread::scope(|scope| {
        let writers: Vec<_> = streams
            .iter()
            .map(|stream| {
                let buffer = &buffer;
                scope.spawn(move || write(stream, buffer, setting.bytes_max, began + time))
            })
            .collect();
        let mut sent: Vec<Sent> = streams.iter().map(|_| Sent::default()).collect();
        let mut next = began + interval;
        while next <= began + time && !writers.iter().all(|writer| writer.is_finished()) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            for (stream, sent) in streams.iter().zip(&mut sent) {
                sent.samples.push(tcp_info(stream).map_err(failed)?);
            }
            next += interval;
        }
        for ((stream, sent), writer) in streams.iter().zip(&mut sent).zip(writers) {
            sent.cpu_seconds = writer.join().expect("writing does not panic").map_err(failed)?;
            sent.send_buffer_bytes = SockRef::from(stream).send_buffer_size().unwrap_or(0) as u64;
            sent.congestion = congestion_of(stream);
        }
        Ok(sent)
    })
}

/// Writes to the end of the time; returns the CPU seconds that it took.
fn write(mut stream: &TcpStream, message: &[u8], bytes_max: u64, ends: Instant) -> io::Result<f64> {
    stream.set_write_timeout(Some(LOOK_UP_INTERVAL))?;
    let mut left = bytes_max;
    while left > 0 && Instant::now() < ends {
        let part = &message[..message.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        match stream.write(part) {
            Ok(count) => left -= count as u64,
            // A full window over a long path; the end of the time is to be seen all the same.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(thread_seconds())
}
