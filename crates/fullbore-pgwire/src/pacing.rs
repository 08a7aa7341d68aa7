//! Limits the rate of a connection in the kernel.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Sends no more than so many bytes a second from now on, evenly; `None`: as fast as it goes. Since Linux 4.20.
pub fn set_max_rate(socket: &impl AsFd, bytes_per_second: Option<u64>) -> io::Result<()> {
    let rate = bytes_per_second.unwrap_or(u64::MAX);
    // SAFETY: the kernel reads one number of this size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
