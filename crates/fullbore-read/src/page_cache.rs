//! How much of a file the page cache holds.

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// The call's number, the same on all machines; libc names it for a few only.
const CACHESTAT: libc::c_long = 451;

/// Places that are tried where the kernel does not count.
const PLACES: u64 = 8;

/// The share of a range that the cache holds, from 0 to 1; `None` where it can't be told.
pub fn cached_share(file: &File, range: &Range<u64>) -> Option<f64> {
    if range.is_empty() {
        return Some(1.0);
    }
    counted(file, range).or_else(|| tried(file, range))
}

/// As the kernel counts it: from Linux 6.5 on, and of files that are one's own.
fn counted(file: &File, range: &Range<u64>) -> Option<f64> {
    // As cachestat(2) has them.
    let asked = [range.start, range.end - range.start];
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two and writes five numbers of 64 bits, which outlive it.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), asked.as_ptr(), counts.as_mut_ptr(), 0)
    };
    let page = rustix::param::page_size() as u64;
    let pages = range.end.div_ceil(page) - range.start / page;
    (done == 0).then(|| (counts[0] as f64 / pages as f64).min(1.0))
}

/// By reading a byte at a few places without waiting for it.
fn tried(file: &File, range: &Range<u64>) -> Option<f64> {
    let mut held = 0;
    for place in 0..PLACES {
        let at = range.start + (range.end - range.start) * place / PLACES;
        let mut byte = [0; 1];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            Ok(_) => held += 1,
            Err(Errno::AGAIN) => {}
            Err(_) => return None,
        }
    }
    Some(f64::from(held) / PLACES as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_in_the_cache() {
        let file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut &file, &[1; 100_000]).expect("written");
        for range in [0..100_000, 5000..5001, 7..7] {
            assert_eq!(cached_share(&file, &range), Some(1.0), "{range:?}");
            assert!(tried(&file, &range).is_none_or(|share| share == 1.0));
        }
    }
}
