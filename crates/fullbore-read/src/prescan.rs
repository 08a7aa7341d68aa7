//! Reads a file from end to end before its rows are read: to count its quotes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use fullbore_objects::Pace;
use fullbore_parse::block::Block;

use super::opened::Opened;
use super::page_cache::cached_share;
use super::source_file::SourceFile;
use crate::constants::{READ_AHEAD_BYTES, READ_ALIGNMENT, SCAN_CHUNK_BYTES};
use crate::error::{Error, Result};

/// A file that is passed through once more than its rows are.
pub struct Pass<'a> {
    source: &'a SourceFile,
    through: Opened,
    /// Past the page cache, where it could not keep what it was given until the rows are read.
    past: Option<File>,
}

impl<'a> Pass<'a> {
    /// Opens a file that is one of `total_bytes` which are all passed through.
    ///
    /// What fits the memory is brought through the page cache, so that a slow disk gives it once; what
    /// does not is read past it: it would cost a core-second a GB, drive out what the server has there,
    /// and be gone again when the rows are read.
    pub fn new(source: &'a SourceFile, total_bytes: u64) -> Result<Self> {
        let fits = memory_available().is_none_or(|memory| total_bytes < memory / 2);
        Self::choosing(source, !fits)
    }

    fn choosing(source: &'a SourceFile, past_cache: bool) -> Result<Self> {
        let through = source.open()?;
        let past = match through.file() {
            Some(file) if past_cache => source.open_past_cache(file)?,
            _ => None,
        };
        Ok(Self { source, through, past })
    }

    /// The file as it is opened for single looks.
    pub fn opened(&self) -> &Opened {
        &self.through
    }

    /// Hands out what stands between two places, a chunk at a time.
    pub fn each(&self, from: u64, to: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
        if self.source.object.is_some() {
            return self.each_of_object(from, to, take);
        }
        let mut memory = Block::default();
        let (mut at, mut chosen_until, mut past) = (from, from, None);
        while at < to {
            if at >= chosen_until {
                chosen_until = to.min(at + READ_AHEAD_BYTES);
                let held = self.through.file();
                let held = held.and_then(|file| cached_share(file, &(at..chosen_until)));
                past = self.past.as_ref().filter(|_| held.is_some_and(|share| share < 0.5));
            }
            let begin = at - at % READ_ALIGNMENT as u64;
            let end = to.min(begin + SCAN_CHUNK_BYTES as u64);
            let bytes = (end - begin) as usize;
            // To a multiple of the alignment, even where the stretch ends before: direct reads ask for it.
            let space = bytes.next_multiple_of(READ_ALIGNMENT);
            let space = memory.aligned_space(space, READ_ALIGNMENT, 0);
            self.read(past, begin, space, bytes)?;
            take(&space[(at - begin) as usize..bytes]);
            at = end;
        }
        Ok(())
    }

    /// An object is read ahead of who takes it.
    fn each_of_object(&self, from: u64, to: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut reader = self.source.open_range(from..to, Pace::Full)?;
        let mut chunk = vec![0; SCAN_CHUNK_BYTES];
        let mut at = from;
        while at < to {
            let count = reader.read(&mut chunk).map_err(|error| self.source.unreadable(error))?;
            if count == 0 {
                return Err(self.source.ends_at(at));
            }
            take(&chunk[..count]);
            at += count as u64;
        }
        Ok(())
    }

    /// Reads at least so many bytes.
    fn read(
        &self,
        mut past: Option<&File>,
        begin: u64,
        space: &mut [u8],
        bytes: usize,
    ) -> Result<()> {
        let mut have = 0;
        while have < bytes {
            let at = begin + have as u64;
            let read = match past {
                Some(past) => past.read_at(&mut space[have..], at),
                None => self.through.read_at(&mut space[have..], at),
            };
            match read {
                Ok(0) => return Err(self.source.ends_at(at)),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A device that asks for another alignment, or the file's end: the cache has none.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && past.is_some() => {
                    past = None;
                }
                Err(error) => {
                    return Err(Error::Read { path: self.source.path.clone(), source: error });
                }
            }
        }
        Ok(())
    }
}

/// Memory that may still be taken, in bytes: as the kernel reckons it, and what the control group may
/// have at most.
pub fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let bytes = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = group.and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(bytes, |limit| limit.min(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::discover;

    #[test]
    fn any_stretch_is_read_as_it_stands_past_the_cache_too() {
        // Not under /tmp, which may have no direct reads.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = folder.path().join("rows.csv");
        let text: Vec<u8> = (0..3 * SCAN_CHUNK_BYTES + 777).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &text).expect("written");
        let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
        let size = text.len() as u64;
        for past_cache in [false, true] {
            let file = File::open(&path).expect("it is there");
            file.sync_all().expect("on disk");
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            let pass = Pass::choosing(&source, past_cache).expect("opened");
            for (from, to) in [(0, size), (1, 2), (4095, 4097), (5000, size - 1), (size, size)] {
                let mut seen = Vec::new();
                pass.each(from, to, |chunk| seen.extend_from_slice(chunk)).expect("read");
                assert!(seen == text[from as usize..to as usize], "{from}..{to}, {past_cache}");
            }
            let gone = pass.each(0, size + 1, |_| {}).expect_err("there is no more");
            assert!(gone.to_string().contains("it ends at byte"), "{gone}");
        }
    }

    #[test]
    fn memory_is_known() {
        assert!(memory_available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
