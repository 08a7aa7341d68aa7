//! Making the sockets of streams, with the options under test set before they connect.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
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

/// Sets the receive buffer of a listening socket, and so of those that it accepts from now on; `None`
/// gives it back to the kernel's own care. Kernels before 5.14 can't do the latter, so it is left alone
/// there.
pub fn set_window(socket: &TcpListener, window_bytes: Option<usize>) -> io::Result<()> {
    let Some(locks) = locks(socket) else { return Ok(()) };
    let is_locked = locks & RECEIVE_LOCK != 0;
    let buffer = SockRef::from(socket);
    match window_bytes {
        Some(bytes) => buffer.set_recv_buffer_size(bytes),
        None if is_locked => {
            buffer.set_recv_buffer_size(first_buffer().unwrap_or(1 << 17) / 2)?;
            set_number(socket, libc::SO_BUF_LOCK, locks & !RECEIVE_LOCK)
        }
        None => Ok(()),
    }
}

/// What the system gives a socket to begin with.
fn first_buffer() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// In `SO_BUF_LOCK`: the receive buffer has a size that was asked for.
const RECEIVE_LOCK: libc::c_int = 2;

fn locks(socket: &TcpListener) -> Option<libc::c_int> {
    let mut locks: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: a number of ours, and its size.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUF_LOCK,
            (&raw mut locks).cast(),
            &raw mut length,
        )
    };
    (done == 0).then_some(locks)
}

/// How much has to have come before a reader is woken, unless the stream has ended: fewer and larger
/// reads. Where it can't be set, readers are woken for each packet.
pub fn set_low_water(socket: &TcpStream, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let _ = set_number(socket, libc::SO_RCVLOWAT, bytes);
}

fn set_number(socket: &impl AsRawFd, option: libc::c_int, number: libc::c_int) -> io::Result<()> {
    // SAFETY: a number of ours, and its size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const number).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The congestion control that a connection has.
pub fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
}
