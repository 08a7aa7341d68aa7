//! Opens what can only be read from its beginning: compressed files, pipes, other encodings.

use std::io::{self, Read};

use super::lz4::Frames;
use super::{Packing, SourceFile, pipe};
use crate::error::{Error, Result};

/// Bytes read from a file at a time.
const READ_BYTES: usize = 256 * 1024;

/// Opens a source as one stream of UTF-8 text, decompressed.
pub fn open_stream(file: &SourceFile) -> Result<Box<dyn Read + Send>> {
    let wrong = |source| Error::Read { path: file.path.clone(), source };
    let raw: Box<dyn Read + Send> = match &file.peeked {
        Some(peeked) => Box::new(peeked.reader().map_err(wrong)?),
        None if file.is_regular => Box::new(file.open()?),
        None => {
            let (packing, raw) = pipe::packing(pipe::open(file)?).map_err(wrong)?;
            return unpack(file, packing, Box::new(raw));
        }
    };
    unpack(file, file.packing, raw)
}

/// The text of a source's bytes.
pub fn unpack(
    file: &SourceFile,
    packing: Packing,
    raw: Box<dyn Read + Send>,
) -> Result<Box<dyn Read + Send>> {
    let raw = io::BufReader::with_capacity(READ_BYTES, raw);
    let wrong = |source| Error::Read { path: file.path.clone(), source };
    let text: Box<dyn Read + Send> = match packing {
        Packing::Plain => Box::new(raw),
        // Several members one after the other are one file, as gzip itself has it.
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(raw).map_err(wrong)?),
        Packing::Lz4 => Box::new(Frames::new(raw)),
        Packing::Parquet => {
            return Err(Error::Source {
                path: file.path.clone(),
                message: "is a Parquet file, not text".into(),
                hint: Some("leave --format away, or name parquet".into()),
            });
        }
    };
    Ok(match file.encoding {
        None => text,
        Some(encoding) => Box::new(Recoder::new(text, encoding)),
    })
}

/// Reads text in another encoding as UTF-8.
struct Recoder<R> {
    inner: R,
    decoder: encoding_rs::Decoder,
    raw: Vec<u8>,
    raw_at: usize,
    text: Vec<u8>,
    text_at: usize,
    ended: bool,
    /// Raw bytes decoded so far, for messages.
    offset: u64,
}

impl<R: Read> Recoder<R> {
    fn new(inner: R, encoding: &'static encoding_rs::Encoding) -> Self {
        Self {
            inner,
            decoder: encoding.new_decoder_with_bom_removal(),
            raw: Vec::new(),
            raw_at: 0,
            text: Vec::new(),
            text_at: 0,
            ended: false,
            offset: 0,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.raw_at == self.raw.len() {
            self.raw.resize(READ_BYTES, 0);
            let read = self.inner.read(&mut self.raw)?;
            self.raw.truncate(read);
            self.raw_at = 0;
            self.ended = read == 0;
        }
        self.text.resize(READ_BYTES, 0);
        let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
            &self.raw[self.raw_at..],
            &mut self.text,
            self.ended,
        );
        self.text.truncate(written);
        self.text_at = 0;
        self.raw_at += read;
        self.offset += read as u64;
        if let encoding_rs::DecoderResult::Malformed(..) = result {
            let name = self.decoder.encoding().name();
            let message = format!("byte {} is not valid {name}", self.offset);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(())
    }
}

impl<R: Read> Read for Recoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.text_at == self.text.len() {
            if self.ended {
                return Ok(0);
            }
            self.fill()?;
        }
        let bytes = (self.text.len() - self.text_at).min(out.len());
        out[..bytes].copy_from_slice(&self.text[self.text_at..self.text_at + bytes]);
        self.text_at += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_become_utf8() {
        let latin1 = encoding_rs::Encoding::for_label(b"latin1").expect("known");
        let mut text = String::new();
        Recoder::new(&b"caf\xe9\n"[..], latin1).read_to_string(&mut text).expect("reads");
        assert_eq!(text, "caf\u{e9}\n");
    }

    #[test]
    fn bytes_that_an_encoding_lacks_are_refused() {
        let mut text = String::new();
        let error = Recoder::new(&b"ab\x81\xff\n"[..], encoding_rs::SHIFT_JIS)
            .read_to_string(&mut text)
            .expect_err("malformed");
        assert!(error.to_string().contains("not valid Shift_JIS"), "{error}");
    }
}
