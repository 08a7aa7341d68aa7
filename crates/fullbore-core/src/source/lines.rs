//! Counts lines of files that can be read anywhere, for messages.

use std::os::unix::fs::FileExt;
use std::path::Path;

use super::SourceFile;
use crate::constants::SCAN_CHUNK_BYTES;

/// Line feeds between two places of a file; `None` where it can't be read.
pub fn count(path: &Path, start: u64, end: u64) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    let mut chunk = vec![0; SCAN_CHUNK_BYTES];
    let (mut at, mut lines) = (start, 0);
    while at < end {
        let want = (end - at).min(chunk.len() as u64) as usize;
        file.read_exact_at(&mut chunk[..want], at).ok()?;
        lines += memchr::memchr_iter(b'\n', &chunk[..want]).count() as u64;
        at += want as u64;
    }
    Some(lines)
}

/// The line, from 1, in which a byte stands.
pub fn line_at(source: &SourceFile, byte: u64) -> Option<u64> {
    let lines = count(&source.path, source.data_start.min(byte), byte)?;
    Some(source.data_start_lines + lines + 1)
}
