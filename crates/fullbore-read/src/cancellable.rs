//! Pipes whose blocking reads can be cancelled.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// How long a silent pipe is waited for before it is asked again who waits.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether somebody waits for what is read; until it is [ended](Self::end).
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Nobody waits any more.
    pub fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A pipe, or what stands in for one.
#[derive(Debug)]
pub struct CancellablePipe {
    pipe: File,
    attention: Cancellation,
}

impl CancellablePipe {
    pub fn new(pipe: File, attention: &Cancellation) -> Self {
        Self { pipe, attention: attention.clone() }
    }

    /// The same pipe, read for somebody else.
    pub fn by(self, attention: &Cancellation) -> Self {
        Self::new(self.pipe, attention)
    }
}

impl Read for CancellablePipe {
    /// # Errors
    /// As the pipe's own, and where the attention has ended before there is something to read.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !is_ready(&self.pipe)? {
            if self.attention.has_ended() {
                return Err(io::Error::other("nobody waits for it any more"));
            }
        }
        self.pipe.read(buffer)
    }
}

/// Whether a read would not wait: there are bytes, or the pipe's writer has gone.
fn is_ready(pipe: &File) -> io::Result<bool> {
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&LOOK)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a named pipe without waiting for its writer: the first read does that.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let pipe = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
    Ok(pipe)
}
