//! Pipes and standard input: inspects a source that can be read only once, without losing bytes.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;

use fullbore_parse::dialect::Dialect;

use super::cancellable::{self, CancellablePipe, Cancellation};
use super::discover::{PACKING_BYTES, packing_of};
use super::margins::preamble;
use super::peeked::Peeked;
use super::sniff::{UTF8_BOM, header_names};
use super::source_file::{Packing, SourceFile};
use crate::constants::SAMPLE_BYTES;
use crate::error::{Error, Result};

/// The longest block of lz4 and what stands before it: nothing can be unpacked of less than one.
const LZ4_BLOCK_BYTES_MAX: usize = (4 << 20) + 64;

/// Opens a pipe and reads its beginning; waits for its writer.
pub fn peek(source: &SourceFile) -> Result<Peeked> {
    let unreadable = |error| Error::Read { path: source.path.clone(), source: error };
    let mut pipe = CancellablePipe::new(open(source)?, &Cancellation::default());
    let mut first = Vec::new();
    let mut limit = SAMPLE_BYTES + 1;
    (&mut pipe).take(limit as u64).read_to_end(&mut first).map_err(unreadable)?;
    if packing_of(&first) == Packing::Lz4 {
        limit = LZ4_BLOCK_BYTES_MAX;
        let more = limit.saturating_sub(first.len()) as u64;
        (&mut pipe).take(more).read_to_end(&mut first).map_err(unreadable)?;
    }
    let is_whole = first.len() < limit;
    Ok(Peeked::new(first, is_whole, pipe))
}

/// Opens what is no regular file.
pub fn open(source: &SourceFile) -> Result<File> {
    let opened = match source.is_stdin() {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => cancellable::open(&source.path),
    };
    opened.map_err(|error| Error::Read { path: source.path.clone(), source: error })
}

/// What a pipe's bytes are packed with, and the pipe with those bytes before it again.
pub fn packing(mut pipe: CancellablePipe) -> io::Result<(Packing, impl Read + Send)> {
    let mut head = Vec::new();
    (&mut pipe).take(PACKING_BYTES).read_to_end(&mut head)?;
    Ok((packing_of(&head), Cursor::new(head).chain(pipe)))
}

/// What stands before the first record of a stream that was not looked at beforehand: reads as far
/// as it must, and gives what was read too much, the bytes skipped, and their lines.
pub fn skip_header(
    reader: &mut dyn Read,
    source: &SourceFile,
    dialect: &Dialect,
) -> Result<(Vec<u8>, u64, u64)> {
    let mut text = Vec::new();
    let mut ended = false;
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let is_marked = text.starts_with(UTF8_BOM);
        let start = if is_marked { UTF8_BOM.len() } else { 0 };
        // So much must be there to see whether it is marked.
        let is_enough = ended || text.len() >= UTF8_BOM.len();
        if let Some(before) = is_enough.then(|| preamble(&text, dialect, start, ended)).flatten() {
            check_header(source, dialect, &text[before.header])?;
            let rest = text.split_off(before.bytes);
            return Ok((rest, before.bytes as u64, before.lines));
        }
        if text.len() > SAMPLE_BYTES {
            return Err(Error::Source {
                path: source.path.clone(),
                message: format!("the header is longer than {SAMPLE_BYTES} bytes"),
                hint: Some(
                    "a quote may be unterminated, or there is no header: --header none".into(),
                ),
            });
        }
        let read = match reader.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(source.broken(error)),
        };
        ended = read == 0;
        text.extend_from_slice(&chunk[..read]);
    }
}

fn check_header(source: &SourceFile, dialect: &Dialect, header: &[u8]) -> Result<()> {
    let Some(expected) = &source.expected_header else { return Ok(()) };
    if header.is_empty() || !dialect.header.names_fields() {
        return Ok(());
    }
    let found = header_names(header, dialect)?;
    if found == *expected {
        return Ok(());
    }
    Err(Error::Source {
        path: source.path.clone(),
        message: format!("its header is {found:?}, but that of the first file is {expected:?}"),
        hint: Some("load files with other columns separately, or use --columns".into()),
    })
}
