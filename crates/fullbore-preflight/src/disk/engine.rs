//! What keeps I/Os in flight on one path, and the choice of it.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::buffers::Buffers;
use super::{EngineChoice, Operation, threads, uring};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    IoUring,
    Threads,
}

/// The work of one engine on one path.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub file: RawFd,
    pub operation: Operation,
    pub block_bytes: usize,
    pub depth: usize,
    /// Whole blocks that there are: it goes round in them, one after the other.
    pub blocks: u64,
    /// Where it starts, so that a setting does not read what the one before has just left in a cache.
    pub first_block: u64,
    pub stop: Stop,
}

#[derive(Debug, Clone, Copy)]
pub enum Stop {
    After(Duration),
    AfterBlocks(u64),
}

impl Stop {
    /// Whether one more block may be begun, when so many were: the first one may, however late.
    pub fn allows(self, began: Instant, now: Instant, blocks_begun: u64) -> bool {
        match self {
            Self::After(time) => blocks_begun == 0 || now.duration_since(began) < time,
            Self::AfterBlocks(blocks) => blocks_begun < blocks,
        }
    }
}

/// What an engine has done, all I/Os ended.
#[derive(Debug)]
pub struct Done {
    pub bytes: u64,
    pub time: Duration,
    /// Nanoseconds from the beginning to the end of each I/O.
    pub latency: Histogram<u64>,
}

impl Default for Done {
    fn default() -> Self {
        Self { bytes: 0, time: Duration::ZERO, latency: latencies() }
    }
}

/// A histogram of nanoseconds, exact to 1%.
pub fn latencies() -> Histogram<u64> {
    Histogram::new(2).expect("two digits are few enough")
}

impl EngineName {
    pub fn run(self, work: &Work, buffers: Buffers) -> io::Result<Done> {
        match self {
            Self::IoUring => uring::run(work, buffers),
            Self::Threads => threads::run(work, &buffers),
        }
    }
}

/// The engine, and why it is not io_uring.
pub fn choose(choice: EngineChoice) -> Result<(EngineName, Option<String>)> {
    match (choice, uring::is_allowed()) {
        (EngineChoice::Threads, _) => Ok((EngineName::Threads, None)),
        (_, Ok(())) => Ok((EngineName::IoUring, None)),
        (EngineChoice::Auto, Err(error)) => {
            Ok((EngineName::Threads, Some(format!("io_uring is not allowed here: {error}"))))
        }
        (EngineChoice::IoUring, Err(error)) => Err(Error::refused(
            format!("io_uring is not allowed here: {error}"),
            "use --engine threads; or allow it: sysctl kernel.io_uring_disabled, and the container's \
             seccomp profile",
        )),
    }
}

/// An I/O that moved less than was asked for.
pub fn short(operation: Operation, done: usize, wanted: usize) -> io::Error {
    let what = match operation {
        Operation::Read => "read",
        Operation::Write => "written",
    };
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("only {done} of {wanted} bytes were {what}: did the file change?"),
    )
}
