//! A checksum of a file's contents, by which it is known again under another name or time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::SourceFile;
use crate::error::{Error, Result};
use crate::run::checksum;

/// Up to this size all of a file is read; of a larger one, samples.
const WHOLE_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of the first and the last sample.
const END_BYTES: usize = 1024 * 1024;
/// Bytes of the samples between them, and their number.
const SAMPLE_BYTES: usize = 16 * 1024;
const SAMPLES: u64 = 62;
/// What is read at once.
const STEP_BYTES: usize = 1024 * 1024;

/// The checksum of what a file holds; `None` of what can be read only once.
///
/// It begins with what it covers, so that two that are made differently are never the same. Equal ones
/// mean equal contents only where the sizes are equal, too.
pub fn of(file: &SourceFile) -> Result<Option<String>> {
    if !file.is_regular {
        return Ok(None);
    }
    let opened = file.open()?;
    let read = |source| Error::Read { path: file.path.clone(), source };
    let sum = match file.size <= WHOLE_MAX {
        true => format!("whole {:016x}", whole(&opened, file.size).map_err(read)?),
        false => format!("samples {:016x}", sampled(&opened, file.size).map_err(read)?),
    };
    Ok(Some(sum))
}

fn whole(file: &File, size: u64) -> std::io::Result<u64> {
    let mut block = vec![0; STEP_BYTES.min(size as usize)];
    let (mut sum, mut at) = (0, 0);
    while at < size {
        let bytes = (size - at).min(STEP_BYTES as u64) as usize;
        sum = add(file, at, &mut block[..bytes], sum)?;
        at += bytes as u64;
    }
    Ok(sum)
}

fn sampled(file: &File, size: u64) -> std::io::Result<u64> {
    let mut block = vec![0; END_BYTES];
    let mut sum = add(file, 0, &mut block, 0)?;
    let step = size / (SAMPLES + 1);
    for sample in 1..=SAMPLES {
        sum = add(file, step * sample, &mut block[..SAMPLE_BYTES], sum)?;
    }
    add(file, size - END_BYTES as u64, &mut block, sum)
}

fn add(file: &File, at: u64, block: &mut [u8], sum: u64) -> std::io::Result<u64> {
    file.read_exact_at(block, at)?;
    Ok(checksum::joined(sum, checksum::of(block), block.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::discover::discover;

    fn sum(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        let found = discover(path.to_str().expect("UTF-8")).expect("found");
        of(&found[0]).expect("read").expect("a regular file")
    }

    #[test]
    fn contents_make_the_checksum_and_names_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let text: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut other = text.clone();
        other[2_345_678] ^= 1;
        let first = sum(&folder, "a", &text);
        assert_eq!(sum(&folder, "b", &text), first);
        assert_ne!(sum(&folder, "c", &other), first);
        assert_ne!(sum(&folder, "d", &text[1..]), first);
        assert_eq!(sum(&folder, "e", b""), "whole 0000000000000000");
    }
}
