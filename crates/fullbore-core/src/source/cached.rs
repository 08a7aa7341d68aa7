//! What of a file the page cache holds.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// The call's number, the same on all machines; libc names it for a few only.
const CACHESTAT: libc::c_long = 451;

/// What reading from the cache came to.
pub(super) enum FromCache {
    /// So many bytes are in the space.
    Read(usize),
    /// It does not hold all of them.
    Missing,
    /// It can't be asked.
    Unknown,
}

/// Reads what stands at a place if the cache holds all of it.
pub(super) fn read_cached(file: &File, space: &mut [u8], offset: u64) -> FromCache {
    // Not to wait is not enough: a read that must not wait may still begin to bring in what is
    // missing, and where a device is fast it is there before the read has ended.
    if holds(file, offset, space.len()) == Some(false) {
        return FromCache::Missing;
    }
    match preadv2(file, &mut [IoSliceMut::new(space)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == space.len() => FromCache::Read(read),
        Ok(_) | Err(Errno::AGAIN) => FromCache::Missing,
        Err(_) => FromCache::Unknown,
    }
}

/// Whether the cache holds a range; `None` where the kernel does not say: before Linux 6.5, and of
/// files that belong to others.
pub fn holds(file: &File, offset: u64, bytes: usize) -> Option<bool> {
    // As cachestat(2) has them.
    let range = [offset, bytes as u64];
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two and writes five numbers of 64 bits, which outlive it.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    let page = rustix::param::page_size() as u64;
    let pages = (offset + bytes as u64).div_ceil(page) - offset / page;
    (done == 0).then_some(counts[0] >= pages)
}
