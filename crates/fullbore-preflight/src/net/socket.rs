//! Making the sockets of streams, with the options under test set before they connect.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::{Error, Result};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// How often a blocked stream looks whether it is to end.
pub const LOOK_UP_INTERVAL: Duration = Duration::from_millis(200);

/// What a stream's socket is set to.
#[derive(Debug, Clone, Default)]
pub struct SocketOptions {
    pub window_bytes: Option<usize>,
    pub congestion: Option<String>,
}

/// The addresses of a host, to be tried in turn.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>> {
    let hint =
        || Some("write it as HOST:PORT, as `fullbore preflight net --listen` prints it".into());
    let failed =
        |source| Error::Network { what: "resolve", address: address.into(), source, hint: hint() };
    let found: Vec<_> = address.to_socket_addrs().map_err(failed)?.collect();
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
    }
    Ok(found)
}

/// Connects to the first address that answers.
pub fn connect(addresses: &[SocketAddr], options: &SocketOptions) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match connect_one(address, options) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_one(address: &SocketAddr, options: &SocketOptions) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(window) = options.window_bytes {
        socket.set_send_buffer_size(window)?;
    }
    if let Some(congestion) = &options.congestion {
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(|error| {
            io::Error::new(error.kind(), format!("congestion control {congestion}: {error}"))
        })?;
    }
    socket.connect_timeout(&(*address).into(), CONNECT_TIME_MAX)?;
    Ok(socket.into())
}

/// The congestion control that a connection has.
pub fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
}
