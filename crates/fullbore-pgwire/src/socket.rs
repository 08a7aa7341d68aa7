//! From a host to an open socket, within a deadline.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::error::ConnectionError;
use super::options::{Host, HostOptions, Keepalive, Source, Way};

/// What a Unix socket may hold on its way. The default, 208 KiB, makes a session wait several times
/// for each encoded block; measured, this takes a tenth off the client's CPU. TCP sizes its own.
const UNIX_SEND_BUFFER_BYTES: usize = 1 << 20;

/// One address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    Tcp { address: SocketAddr, way: Way },
    Unix { path: PathBuf, way: Way },
}

/// All addresses of a host.
pub(super) fn resolve(host: &HostOptions) -> Result<Vec<Peer>, ConnectionError> {
    let tcp = |address| Peer::Tcp { address, way: host.way.clone() };
    match &host.host {
        Host::Unix { .. } => {
            Ok(vec![Peer::Unix { path: host.socket_path(), way: host.way.clone() }])
        }
        Host::Tcp { address: Some(address), .. } => {
            Ok(vec![tcp(SocketAddr::new(*address, host.port))])
        }
        Host::Tcp { name, .. } => {
            let fail = |source| ConnectionError::Resolve { host: name.clone(), source };
            let peers: Vec<Peer> =
                (name.as_str(), host.port).to_socket_addrs().map_err(fail)?.map(tcp).collect();
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
        Peer::Tcp { address, way } => {
            let socket = tcp(*address, way)?;
            match time_left(deadline)? {
                Some(left) => socket.connect_timeout(&(*address).into(), left)?,
                None => socket.connect(&(*address).into())?,
            }
            socket.set_tcp_nodelay(true)?;
            set_keepalive(&socket, keepalive)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
        Peer::Unix { path, way } => {
            let stream = connect_unix(path)?;
            let buffer = way.send_buffer.unwrap_or(UNIX_SEND_BUFFER_BYTES);
            // Less is granted where the system's limit is lower; nothing depends on it.
            let _ = SockRef::from(&stream).set_send_buffer_size(buffer);
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
    }
}

/// A socket for connections to an address.
fn tcp(address: SocketAddr, way: &Way) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(bytes) = way.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    #[cfg(target_os = "linux")]
    if let Some(name) = &way.congestion {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    match &way.source {
        None => {}
        Some(Source::Address(own)) => socket.bind(&SocketAddr::new(*own, 0).into())?,
        #[cfg(target_os = "linux")]
        Some(Source::Interface(name)) => socket.bind_device(Some(name.as_bytes()))?,
        #[cfg(not(target_os = "linux"))]
        Some(Source::Interface(_)) => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(socket)
}

/// Refuses a congestion control that connections can't have.
pub fn check_congestion(name: &str) -> Result<(), ConnectionError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    #[cfg(target_os = "linux")]
    let set = socket.and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    #[cfg(not(target_os = "linux"))]
    let set: io::Result<()> = socket.and(Err(io::ErrorKind::Unsupported.into()));
    set.map_err(|error| {
        ConnectionError::usage_with_hint(
            format!("congestion control {name:?} can't be used here: {error}"),
            "see /proc/sys/net/ipv4/tcp_available_congestion_control, and tcp_allowed_... for users \
             other than root",
        )
    })
}

/// The addresses of a host, at which it can be asked whether the way there is open.
pub struct Door(Vec<Peer>);

impl Door {
    /// Looks them up.
    pub fn of(host: &HostOptions) -> Result<Self, ConnectionError> {
        resolve(host).map(Self)
    }

    /// Begins to connect and does not wait: whether the way is open shows in the socket. Another time it is another
    /// address.
    pub fn knock(&self, time: usize) -> io::Result<OwnedFd> {
        let Some(Peer::Tcp { address, way }) = self.0.get(time % self.0.len().max(1)) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let socket = tcp(*address, way)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&(*address).into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket.into()),
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

fn set_keepalive(stream: &Socket, keepalive: &Keepalive) -> io::Result<()> {
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
