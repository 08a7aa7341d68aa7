//! How a file lies on its device: in one piece, or in many.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use serde::Serialize;

use crate::limits::EXTENTS_MAX;

/// Extents as the file system keeps them, and fragments: runs of extents that lie one behind the
/// other. (ext4 cuts its extents at 128 MiB, which is no fragmentation.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Extents {
    pub extents: usize,
    pub fragments: usize,
    /// Mean length of a fragment.
    pub fragment_bytes: u64,
    /// There are more than were counted.
    pub truncated: bool,
}

/// `FS_IOC_FIEMAP`: read and write, 32 bytes, of 'f', number 11.
const FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
const EXTENT_LAST: u32 = 1;
/// Where the file's bytes are is not known, or they are not on the device by themselves.
const EXTENT_UNKNOWN: u32 = 2 | 4 | 8;
const EXTENTS_AT_ONCE: usize = 256;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_wide: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS_AT_ONCE],
}

pub fn extents_of(file: &File) -> io::Result<Extents> {
    let mut count = Count::default();
    let mut start = 0;
    loop {
        let mut question = Question {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            room: EXTENTS_AT_ONCE as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS_AT_ONCE],
        };
        // SAFETY: laid out as the kernel wants it, with room for as many extents as it says.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut question) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let told = &question.extents[..(question.mapped as usize).min(EXTENTS_AT_ONCE)];
        for extent in told {
            count.add(extent);
        }
        let Some(last) = told.last() else { break };
        if last.flags & EXTENT_LAST != 0 {
            break;
        }
        if count.extents >= EXTENTS_MAX {
            return Ok(count.finish(true));
        }
        start = last.logical + last.length;
    }
    Ok(count.finish(false))
}

#[derive(Default)]
struct Count {
    extents: usize,
    fragments: usize,
    bytes: u64,
    end: Option<u64>,
}

impl Count {
    fn add(&mut self, extent: &Extent) {
        self.extents += 1;
        self.bytes += extent.length;
        let known = extent.flags & EXTENT_UNKNOWN == 0;
        if !known || self.end != Some(extent.physical) {
            self.fragments += 1;
        }
        self.end = known.then_some(extent.physical + extent.length);
    }

    fn finish(self, truncated: bool) -> Extents {
        Extents {
            extents: self.extents,
            fragments: self.fragments,
            fragment_bytes: self.bytes / self.fragments.max(1) as u64,
            truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_fragment() {
        let extent =
            |physical, length, flags| Extent { physical, length, flags, ..Extent::default() };
        let mut count = Count::default();
        for extent in [
            extent(1000, 100, 0),
            extent(1100, 50, 0),
            extent(5000, 50, 0),
            extent(0, 100, 2),
            extent(100, 100, 0),
        ] {
            count.add(&extent);
        }
        let found = count.finish(false);
        assert_eq!((found.extents, found.fragments, found.fragment_bytes), (5, 4, 100));
    }
}
