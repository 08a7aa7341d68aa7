//! Sockets that a stream comes by: `tcp:HOST:PORT` and `unix:PATH`, one sender after another.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::stream::Stop;

/// How often it is looked whether somebody connects.
const LOOK: Duration = Duration::from_millis(50);

/// Whether a source is one.
pub fn is_socket(source: &str) -> bool {
    source.starts_with("tcp:") || source.starts_with("unix:")
}

/// A socket that is listened at.
pub enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Socket {
    /// Listens at `tcp:HOST:PORT` or `unix:PATH`.
    pub fn listen(source: &str) -> io::Result<Self> {
        match source.split_once(':') {
            Some(("unix", path)) => {
                clear_left(path.as_ref())?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, path.into()))
            }
            Some(("tcp", address)) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }

    /// The next sender; `None` once told to stop.
    pub fn accept(&self, stop: &Stop) -> io::Result<Option<File>> {
        while !stop() {
            let sender: io::Result<OwnedFd> = match self {
                Self::Tcp(listener) => listener.accept().and_then(|(sender, _)| {
                    sender.set_nonblocking(false)?;
                    Ok(sender.into())
                }),
                Self::Unix(listener, _) => listener.accept().and_then(|(sender, _)| {
                    sender.set_nonblocking(false)?;
                    Ok(sender.into())
                }),
            };
            match sender {
                Ok(sender) => return Ok(Some(sender.into())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                // It has gone again.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket that nobody listens at any more.
fn clear_left(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let is_left = is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if is_left { fs::remove_file(path) } else { Ok(()) }
}
