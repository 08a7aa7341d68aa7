//! Bytes to and from the server, encrypted or not, without ever blocking but in [`Transport::wait`].
//!
//! During a COPY the server may send much data too: notices of triggers, an error. If both sides only
//! wrote, they would deadlock, so every wait here is for reading or writing.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use rustls::ClientConnection;

use super::limits::TLS_BUFFER_BYTES;
use super::socket::time_left;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    ReadOrWrite,
}

/// A socket, and perhaps the encryption on it.
pub(super) struct Transport {
    descriptor: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl Transport {
    /// In clear.
    pub(super) fn plain(descriptor: OwnedFd) -> Self {
        Self { descriptor, tls: None }
    }

    /// From now on encrypted: does the handshake.
    pub(super) fn encrypt(
        &mut self,
        mut connection: ClientConnection,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        self.tls = Some(Box::new(connection));
        loop {
            self.flush_some()?;
            let Some(tls) = &mut self.tls else {
                return Ok(());
            };
            if !tls.is_handshaking() {
                // What the client says last may still be in the buffer; it goes out with, and
                // before, the first message.
                return Ok(());
            }
            let interest = if tls.wants_write() { Interest::ReadOrWrite } else { Interest::Read };
            match read_records(tls, self.descriptor.as_fd()) {
                Ok(Some(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.wait(interest, deadline)?;
                }
                Err(error) => {
                    // The alert that tells the server why.
                    let _ = self.flush_some();
                    return Err(error);
                }
            }
        }
    }

    /// The encryption, where there is one.
    pub(super) fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// The socket once more.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }

    /// The socket, for its statistics.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Reads what is there: `None` if nothing is yet, zero at the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(tls) = &mut self.tls else {
            return would_block(Socket(self.descriptor.as_fd()).read(buffer));
        };
        loop {
            match tls.reader().read(buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                // The end without a goodbye. The protocol has its own ends, and a message cut
                // short is noticed there.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match read_records(tls, self.descriptor.as_fd())? {
                None => return Ok(None),
                Some(0) => return Ok(Some(0)),
                Some(_) => {}
            }
        }
    }

    /// Takes what it can of the parts, in order: `None` if nothing, for now.
    pub(super) fn send_some(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if self.tls.is_none() {
            return would_block(send(self.descriptor.as_fd(), parts));
        }
        self.flush_some()?;
        let Some(tls) = &mut self.tls else {
            return Ok(None);
        };
        let taken = tls.writer().write_vectored(parts)?;
        self.flush_some()?;
        Ok((taken != 0).then_some(taken))
    }

    /// Pushes encrypted bytes out; true when none is left.
    pub(super) fn flush_some(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        let mut socket = Socket(self.descriptor.as_fd());
        while tls.wants_write() {
            if would_block(tls.write_tls(&mut socket))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until there is something to read or, if asked for, room to write; `TimedOut` at
    /// the deadline. True if there is something to read.
    pub(super) fn wait(&self, interest: Interest, deadline: Option<Instant>) -> io::Result<bool> {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::ReadOrWrite => PollFlags::IN | PollFlags::OUT,
        };
        loop {
            let timeout = time_left(deadline)?.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut descriptors = [PollFd::new(&self.descriptor, flags)];
            match poll(&mut descriptors, timeout.as_ref()) {
                Ok(0) => {}
                // An error or a hang-up shows in the read that follows.
                Ok(_) => return Ok(descriptors[0].revents() != PollFlags::OUT),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Says goodbye, as far as that goes without waiting, and ends the connection for duplicates of the socket, too.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush_some();
        }
        let _ = shutdown(&self.descriptor, Shutdown::Both);
    }
}

/// Reads and decrypts one portion: `None` if nothing is there yet, zero at the end.
fn read_records(
    tls: &mut ClientConnection,
    descriptor: BorrowedFd<'_>,
) -> io::Result<Option<usize>> {
    let read = would_block(tls.read_tls(&mut Socket(descriptor)))?;
    if read.is_some() {
        tls.process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
    Ok(read)
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn send(descriptor: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // A program that takes SIGPIPE as its end, as good command-line programs do, would die of
    // a lost connection.
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    let mut nothing = SendAncillaryBuffer::default();
    loop {
        match sendmsg(descriptor, parts, &mut nothing, flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// The socket as rustls wants to see it.
struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((bytes, _)) => return Ok(bytes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        send(self.0, &[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.0, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
