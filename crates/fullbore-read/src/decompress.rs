//! Opens what can only be read from its beginning: compressed files, pipes, other encodings.

use std::io::{self, Read};

use fullbore_objects::Pace;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

use super::cancellable::{CancellablePipe, Cancellation};
use super::lz4::Frames;
use super::pipe;
use super::source_file::{Packing, SourceFile};
use crate::constants::XZ_MEMORY_BYTES;
use crate::error::{Error, Result};

/// Bytes read from a file at a time.
const READ_BYTES: usize = 256 * 1024;

/// Opens a source as one stream of UTF-8 text, decompressed. A pipe is waited for while somebody waits
/// for its text.
pub fn open_stream(file: &SourceFile, attention: &Cancellation) -> Result<Box<dyn Read + Send>> {
    let wrong = |error| file.unreadable(error);
    let raw: Box<dyn Read + Send> = match &file.peeked {
        Some(peeked) => Box::new(peeked.reader(attention).map_err(wrong)?),
        None if file.is_regular => file.open_range(0..file.size, Pace::Full)?,
        None => {
            let pipe = CancellablePipe::new(pipe::open(file)?, attention);
            let (packing, raw) = pipe::packing(pipe).map_err(wrong)?;
            return unpack(file, packing, Box::new(raw));
        }
    };
    unpack(file, file.packing, raw)
}

/// Decodes xz files of one stream or several, within bounds: a file says itself how much memory its
/// dictionary takes.
fn xz_stream(file: &SourceFile) -> Result<Stream> {
    Stream::new_stream_decoder(XZ_MEMORY_BYTES, liblzma::stream::CONCATENATED).map_err(|error| {
        let message = format!("can't be unpacked: {error}");
        Error::Source { path: file.path.clone(), message, hint: None }
    })
}

/// Names the limit of memory where it is what keeps a file from being unpacked.
struct Xz<R>(XzDecoder<R>);

impl<R: io::BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
            match cause {
                Some(liblzma::stream::Error::MemLimit) => io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    format!(
                        "its xz dictionary needs more than {} MiB of memory; unpack it with xz -dc, \
                         or compress it with xz -9 or less",
                        XZ_MEMORY_BYTES >> 20
                    ),
                ),
                _ => error,
            }
        })
    }
}

/// The text of a source's bytes.
pub fn unpack(
    file: &SourceFile,
    packing: Packing,
    raw: Box<dyn Read + Send>,
) -> Result<Box<dyn Read + Send>> {
    let raw = io::BufReader::with_capacity(READ_BYTES, raw);
    let wrong = |error| file.unreadable(error);
    let text: Box<dyn Read + Send> = match packing {
        Packing::Plain => Box::new(raw),
        // Several members one after the other are one file, as gzip itself has it.
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(raw).map_err(wrong)?),
        Packing::Lz4 => Box::new(Frames::new(raw)),
        Packing::Xz => Box::new(Xz(XzDecoder::new_stream(raw, xz_stream(file)?))),
        Packing::Parquet | Packing::Arrow => {
            return Err(Error::Source {
                path: file.path.clone(),
                message: "is a Parquet file, not text".into(),
                hint: Some("omit --format, or name parquet".into()),
            });
        }
    };
    Ok(match file.encoding {
        None => text,
        Some(encoding) => encoding.reader(text),
    })
}
