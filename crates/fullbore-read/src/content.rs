//! Checksums of a file's contents, to recognize it under another name or time.

use serde::{Deserialize, Serialize};

use super::opened::Opened;
use super::source_file::SourceFile;
use crate::checksum;
use crate::error::Result;

/// Bytes of a table's files that are read whole for their checksums before any is loaded, and of one of
/// them: the load waits for it, and a slow disk reads few megabytes a second.
pub const WHOLE_BYTES: u64 = 16 * 1024 * 1024;
const WHOLE_MAX: u64 = 4 * 1024 * 1024;
/// All of a file that is no larger is a sample, whatever the others take.
const SMALL_MAX: u64 = 512 * 1024;
/// Bytes of the first and the last sample.
const END_BYTES: usize = 64 * 1024;
/// Bytes of the samples between them, and their number.
const SAMPLE_BYTES: usize = 4 * 1024;
const SAMPLES: u64 = 62;
/// What is read at once.
const STEP_BYTES: usize = 1024 * 1024;

/// What a file holds. Equal checksums mean equal contents only where the sizes are equal, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Of samples, which are all of a small file.
    samples: String,
    /// Of all of it, where that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whole: Option<String>,
}

/// Whether two files hold the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    No,
    /// Their samples are the same.
    Likely,
    Surely,
}

impl Content {
    /// What a file holds; nothing of what is no file, or can be read only once, nor of an object, which its
    /// ETag tells. All of a larger one is read if it is no longer than `bytes_left`, which become fewer.
    pub fn of(file: &SourceFile, bytes_left: &mut u64) -> Result<Option<Self>> {
        if !file.is_regular || file.arrow.is_some() || file.object.is_some() {
            return Ok(None);
        }
        let mut content = Self { samples: sampled(file)?, whole: None };
        if file.size <= SMALL_MAX {
            content.whole = Some(content.samples.clone());
        } else if file.size <= WHOLE_MAX && file.size <= *bytes_left {
            *bytes_left -= file.size;
            content.complete(file)?;
        }
        Ok(Some(content))
    }

    fn complete(&mut self, file: &SourceFile) -> Result<()> {
        if self.whole.is_none() {
            self.whole = Some(sum(file, |opened| whole(opened, file.size))?);
        }
        Ok(())
    }

    /// Whether a file, whose content this is, holds the same as one of the same size. It is read as far as
    /// the other one was.
    pub fn compare(&mut self, file: &SourceFile, other: &Self) -> Result<Same> {
        if self.samples != other.samples {
            return Ok(Same::No);
        }
        if other.whole.is_none() {
            return Ok(Same::Likely);
        }
        self.complete(file)?;
        Ok(if self.whole == other.whole { Same::Surely } else { Same::No })
    }
}

fn sum(file: &SourceFile, of: impl FnOnce(&Opened) -> std::io::Result<u64>) -> Result<String> {
    let sum = of(&file.open()?).map_err(|error| file.unreadable(error))?;
    Ok(format!("{sum:016x}"))
}

fn whole(file: &Opened, size: u64) -> std::io::Result<u64> {
    let mut block = vec![0; STEP_BYTES.min(size as usize)];
    let (mut sum, mut at) = (0, 0);
    while at < size {
        let bytes = (size - at).min(STEP_BYTES as u64) as usize;
        sum = add(file, at, &mut block[..bytes], sum)?;
        at += bytes as u64;
    }
    Ok(sum)
}

fn sampled(file: &SourceFile) -> Result<String> {
    let size = file.size;
    if size <= SMALL_MAX {
        return sum(file, |opened| whole(opened, size));
    }
    sum(file, |opened| {
        let mut block = vec![0; END_BYTES];
        let mut sum = add(opened, 0, &mut block, 0)?;
        let step = size / (SAMPLES + 1);
        for sample in 1..=SAMPLES {
            sum = add(opened, step * sample, &mut block[..SAMPLE_BYTES], sum)?;
        }
        add(opened, size - END_BYTES as u64, &mut block, sum)
    })
}

fn add(file: &Opened, at: u64, block: &mut [u8], sum: u64) -> std::io::Result<u64> {
    file.read_exact_at(block, at)?;
    Ok(checksum::joined(sum, checksum::of(block), block.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::discover;

    fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> SourceFile {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        discover(path.to_str().expect("UTF-8")).expect("found").remove(0)
    }

    #[test]
    fn contents_make_the_checksums_and_names_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let text: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        // Between samples.
        let mut other = text.clone();
        other[2_345_678] ^= 1;
        let known = |bytes_left: u64| {
            let file = file(&folder, "a", &text);
            Content::of(&file, &mut { bytes_left }).expect("read").expect("a regular file")
        };
        let compare = |name: &str, bytes: &[u8], bytes_left: u64| {
            let file = file(&folder, name, bytes);
            let content = Content::of(&file, &mut 0).expect("read");
            content.expect("a regular file").compare(&file, &known(bytes_left)).expect("read")
        };
        assert_eq!(compare("b", &text, WHOLE_BYTES), Same::Surely);
        assert_eq!(compare("c", &other, WHOLE_BYTES), Same::No);
        assert_eq!(compare("d", &text[1..], WHOLE_BYTES), Same::No);
        // Where all of it was too much to be read, samples tell.
        assert_eq!(compare("b", &text, 1000), Same::Likely);
        assert_eq!(compare("c", &other, 1000), Same::Likely);
        assert_eq!(compare("d", &text[1..], 1000), Same::No);
    }
}
