//! Checksums of a file's contents, to recognize it under another name or time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::opened::Opened;
use super::source_file::SourceFile;
use crate::checksum;
use crate::error::Result;

/// What a table's files may take to be read whole for their checksums before any is loaded: the load waits for
/// it, and a slow disk reads few megabytes a second.
const BUDGET_BYTES: u64 = 1024 * 1024 * 1024;
const BUDGET_TIME: Duration = Duration::from_millis(500);
/// Of larger files there are samples alone.
const WHOLE_MAX: u64 = 64 * 1024 * 1024;
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

/// What may still be read whole.
pub struct Budget {
    bytes: u64,
    until: Option<Instant>,
}

impl Budget {
    /// That of a table.
    pub fn of_table() -> Self {
        Self { bytes: BUDGET_BYTES, until: Some(Instant::now() + BUDGET_TIME) }
    }

    /// Samples alone.
    pub fn none() -> Self {
        Self { bytes: 0, until: None }
    }

    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() >= until)
    }
}

impl Content {
    /// What a file holds; nothing of what is no file, or can be read only once, nor of an object, which its
    /// ETag tells. All of a file beyond [`SMALL_MAX`] is read only as far as the budget goes.
    pub fn of(file: &SourceFile, budget: &mut Budget) -> Result<Option<Self>> {
        if !file.is_regular || file.arrow.is_some() || file.object.is_some() {
            return Ok(None);
        }
        let samples = sampled(file)?;
        if file.size <= SMALL_MAX {
            return Ok(Some(Self { whole: Some(samples.clone()), samples }));
        }
        let mut whole = None;
        if file.size <= WHOLE_MAX.min(budget.bytes) && !budget.is_over() {
            budget.bytes -= file.size;
            whole = sum(file, |opened| all(opened, file.size, || budget.is_over()))?;
        }
        Ok(Some(Self { samples, whole }))
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
        if self.whole.is_none() {
            self.whole = sum(file, |opened| all(opened, file.size, || false))?;
        }
        Ok(if self.whole == other.whole { Same::Surely } else { Same::No })
    }
}

fn sum(
    file: &SourceFile,
    of: impl FnOnce(&Opened) -> std::io::Result<Option<u64>>,
) -> Result<Option<String>> {
    let sum = of(&file.open()?).map_err(|error| file.unreadable(error))?;
    Ok(sum.map(|sum| format!("{sum:016x}")))
}

/// Nothing where it was given up.
fn all(file: &Opened, size: u64, is_over: impl Fn() -> bool) -> std::io::Result<Option<u64>> {
    let mut block = vec![0; STEP_BYTES.min(size as usize)];
    let (mut sum, mut at) = (0, 0);
    while at < size {
        if is_over() {
            return Ok(None);
        }
        let bytes = (size - at).min(STEP_BYTES as u64) as usize;
        sum = add(file, at, &mut block[..bytes], sum)?;
        at += bytes as u64;
    }
    Ok(Some(sum))
}

fn sampled(file: &SourceFile) -> Result<String> {
    let size = file.size;
    let samples = sum(file, |opened| {
        if size <= SMALL_MAX {
            return all(opened, size, || false);
        }
        let mut block = vec![0; END_BYTES];
        let mut sum = add(opened, 0, &mut block, 0)?;
        let step = size / (SAMPLES + 1);
        for sample in 1..=SAMPLES {
            sum = add(opened, step * sample, &mut block[..SAMPLE_BYTES], sum)?;
        }
        add(opened, size - END_BYTES as u64, &mut block, sum).map(Some)
    })?;
    Ok(samples.unwrap_or_default())
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
        let known = |mut budget: Budget| {
            let file = file(&folder, "a", &text);
            Content::of(&file, &mut budget).expect("read").expect("a regular file")
        };
        let compare = |name: &str, bytes: &[u8], budget: Budget| {
            let file = file(&folder, name, bytes);
            let content = Content::of(&file, &mut Budget::none()).expect("read");
            content.expect("a regular file").compare(&file, &known(budget)).expect("read")
        };
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        let budget = |bytes, until| Budget { bytes, until: Some(until) };
        let large = || budget(BUDGET_BYTES, later);
        assert_eq!(compare("b", &text, large()), Same::Surely);
        assert_eq!(compare("c", &other, large()), Same::No);
        assert_eq!(compare("d", &text[1..], large()), Same::No);
        // Where all of it was too much to be read, samples tell.
        for (bytes, until) in [(1000, later), (BUDGET_BYTES, now)] {
            assert_eq!(compare("b", &text, budget(bytes, until)), Same::Likely);
            assert_eq!(compare("c", &other, budget(bytes, until)), Same::Likely);
            assert_eq!(compare("d", &text[1..], budget(bytes, until)), Same::No);
        }
        // Of a small one all is a sample.
        let small = file(&folder, "e", &text[..1000]);
        let content = Content::of(&small, &mut Budget::none()).expect("read").expect("a file");
        assert_eq!(content.clone().compare(&small, &content).expect("read"), Same::Surely);
    }
}
