//! From a host to an open socket, within a deadline.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use super::error::ConnectionError;
use super::options::{Host, HostOptions, Keepalive};

/// What a Unix socket may hold on its way. The default, 208 KiB, makes a session wait several times
/// for each encoded block; measured, this takes a tenth off the client's CPU. TCP sizes its own.
const UNIX_SEND_BUFFER_BYTES: usize = 1 << 20;

/// One address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// All addresses of a host.
pub(super) fn resolve(host: &HostOptions) -> Result<Vec<Peer>, ConnectionError> {
    match &host.host {
        Host::Unix { .. } => Ok(vec![Peer::Unix(host.socket_path())]),
        Host::Tcp { address: Some(address), .. } => {
            Ok(vec![Peer::Tcp(SocketAddr::new(*address, host.port))])
        }
        Host::Tcp { name, .. } => {
            let fail = |source| ConnectionError::Resolve { host: name.clone(), source };
            let peers: Vec<Peer> = (name.as_str(), host.port)
                .to_socket_addrs()
                .map_err(fail)?
                .map(Peer::Tcp)
                .collect();
            if peers.is_empty() {
                return Err(fail(io::Error::new(io::ErrorKind::NotFound, "no address found")));
            }
            Ok(peers)
        }
    }
}

/// Opens a socket to the address. It is non-blocking: waiting is done by `poll`, so that
/// reading, writing and deadlines can be mixed.
pub(super) fn open(
    peer: &Peer,
    keepalive: &Keepalive,
    deadline: Option<Instant>,
) -> io::Result<OwnedFd> {
    match peer {
        Peer::Tcp(address) => {
            let stream = match time_left(deadline)? {
                Some(left) => TcpStream::connect_timeout(address, left)?,
                None => TcpStream::connect(address)?,
            };
            stream.set_nodelay(true)?;
            set_keepalive(&stream, keepalive)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
        Peer::Unix(path) => {
            let stream = connect_unix(path)?;
            // Less is granted where the system's limit is lower; nothing depends on it.
            let _ = SockRef::from(&stream).set_send_buffer_size(UNIX_SEND_BUFFER_BYTES);
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
    }
}

/// What is left until a deadline; an error if nothing is.
pub(super) fn time_left(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(Some(left))
}

fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.to_str().and_then(|path| path.strip_prefix('@')) {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return UnixStream::connect_addr(&address);
    }
    UnixStream::connect(path)
}

fn set_keepalive(stream: &TcpStream, keepalive: &Keepalive) -> io::Result<()> {
    let socket = SockRef::from(stream);
    if keepalive.enabled {
        let mut settings = TcpKeepalive::new();
        if let Some(idle) = keepalive.idle {
            settings = settings.with_time(idle);
        }
        if let Some(interval) = keepalive.interval {
            settings = settings.with_interval(interval);
        }
        if let Some(count) = keepalive.count {
            settings = settings.with_retries(count);
        }
        socket.set_tcp_keepalive(&settings)?;
    }
    #[cfg(target_os = "linux")]
    if let Some(timeout) = keepalive.user_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    Ok(())
}
