//! Decompresses pages, up to a limit: a page's header is not trusted, and the real size is known only
//! after decompression. The library's own codecs trust the header, or read to the end.

use std::io::Read;

use lz4_flex::block::DecompressError;
use parquet::basic::Compression;

/// Why a page was not unpacked.
#[derive(Debug, PartialEq, Eq)]
pub enum Unpacking {
    /// It comes to more than the limit, or the space at hand.
    TooLong,
    Damaged(String),
    /// Its codec is not known here; the codec's name.
    Unknown(&'static str),
}

/// A page's bytes, at most `limit`.
pub fn unpack(codec: Compression, packed: &[u8], limit: usize) -> Result<Vec<u8>, Unpacking> {
    match codec {
        Compression::UNCOMPRESSED => Ok(packed.to_vec()),
        Compression::SNAPPY => {
            let bytes = snap::raw::decompress_len(packed).map_err(damaged)?;
            if bytes > limit {
                return Err(Unpacking::TooLong);
            }
            let mut out = vec![0; bytes];
            snap::raw::Decoder::new().decompress(packed, &mut out).map_err(damaged)?;
            Ok(out)
        }
        Compression::GZIP(_) => read_out(flate2::read::MultiGzDecoder::new(packed), limit),
        Compression::BROTLI(_) => {
            read_out(brotli_decompressor::Decompressor::new(packed, READ_BYTES), limit)
        }
        Compression::ZSTD(_) => {
            let claimed = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
            // What says itself that it is too long is not unpacked to see.
            if claimed.is_some_and(|bytes| bytes > limit as u64) {
                return Err(Unpacking::TooLong);
            }
            let first = claimed.map_or(RATIO_GUESSED * packed.len(), |bytes| bytes as usize);
            let mut decoder = zstd::bulk::Decompressor::new().map_err(damaged)?;
            growing(first, limit, |space| {
                decoder.decompress_to_buffer(packed, space).map_err(|error| {
                    let is_small = error.to_string().contains("too small");
                    if is_small { Unpacking::TooLong } else { damaged(error) }
                })
            })
        }
        Compression::LZ4_RAW => raw_lz4(packed, limit),
        // Files call three things so: Hadoop's framing, lz4's own, and none.
        Compression::LZ4 => match (hadoop_lz4(packed, limit), packed) {
            (Err(Unpacking::Damaged(_)), [0x04, 0x22, 0x4d, 0x18, ..]) => {
                read_out(lz4_flex::frame::FrameDecoder::new(packed), limit)
            }
            (Err(Unpacking::Damaged(_)), _) => raw_lz4(packed, limit),
            (unpacked, _) => unpacked,
        },
        Compression::LZO => Err(Unpacking::Unknown("lzo")),
    }
}

/// Bytes that a decoder reads at a time.
const READ_BYTES: usize = 64 << 10;

/// How much of its packed bytes a page is taken for that does not say.
const RATIO_GUESSED: usize = 4;

fn damaged(error: impl std::fmt::Display) -> Unpacking {
    Unpacking::Damaged(error.to_string())
}

fn read_out(reader: impl Read, limit: usize) -> Result<Vec<u8>, Unpacking> {
    let mut out = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut out).map_err(damaged)?;
    if out.len() > limit { Err(Unpacking::TooLong) } else { Ok(out) }
}

fn raw_lz4(packed: &[u8], limit: usize) -> Result<Vec<u8>, Unpacking> {
    growing(RATIO_GUESSED * packed.len(), limit, |space| {
        lz4_flex::block::decompress_into(packed, space).map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } => Unpacking::TooLong,
            error => damaged(error),
        })
    })
}

/// Unpacks into twice the space as long as it is too small.
fn growing(
    first: usize,
    limit: usize,
    mut unpack: impl FnMut(&mut [u8]) -> Result<usize, Unpacking>,
) -> Result<Vec<u8>, Unpacking> {
    let mut bytes = first.min(limit);
    loop {
        // Zeroed by the kernel, where it is as large as that: what is not touched costs nothing.
        let mut out = vec![0; bytes];
        match unpack(&mut out) {
            Ok(length) => {
                out.truncate(length);
                return Ok(out);
            }
            Err(Unpacking::TooLong) if bytes < limit => {
                bytes = (2 * bytes.max(READ_BYTES)).min(limit)
            }
            Err(error) => return Err(error),
        }
    }
}

/// Hadoop's framing: before each block its length unpacked and its length, big-endian.
fn hadoop_lz4(packed: &[u8], limit: usize) -> Result<Vec<u8>, Unpacking> {
    let mut out = Vec::new();
    let mut rest = packed;
    while !rest.is_empty() {
        let (unpacked, after) = number(rest)?;
        let (length, after) = number(after)?;
        let block = after.get(..length).ok_or_else(|| damaged("a block is cut off"))?;
        let start = out.len();
        if unpacked > limit - start {
            return Err(Unpacking::TooLong);
        }
        out.resize(start + unpacked, 0);
        let made = lz4_flex::block::decompress_into(block, &mut out[start..]).map_err(damaged)?;
        if made != unpacked {
            return Err(damaged("a block has another length than it says"));
        }
        rest = &after[length..];
    }
    Ok(out)
}

fn number(bytes: &[u8]) -> Result<(usize, &[u8]), Unpacking> {
    let (number, rest) =
        bytes.split_first_chunk::<4>().ok_or_else(|| damaged("a block's head is cut off"))?;
    Ok((u32::from_be_bytes(*number) as usize, rest))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(text: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).expect("packed");
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(text).expect("packed");
        let block = lz4_flex::block::compress(text);
        let head = [text.len() as u32, block.len() as u32].map(u32::to_be_bytes).concat();
        let mut zstd_without_length = zstd::Encoder::new(Vec::new(), 1).expect("begun");
        zstd_without_length.write_all(text).expect("packed");
        vec![
            (Compression::UNCOMPRESSED, text.to_vec()),
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(text).expect("packed")),
            (Compression::GZIP(Default::default()), gzip.finish().expect("packed")),
            (Compression::ZSTD(Default::default()), zstd::bulk::compress(text, 1).expect("packed")),
            (Compression::ZSTD(Default::default()), zstd_without_length.finish().expect("packed")),
            (Compression::LZ4_RAW, block.clone()),
            (Compression::LZ4, [head, block.clone()].concat()),
            (Compression::LZ4, frame.finish().expect("packed")),
            (Compression::LZ4, block),
        ]
    }

    #[test]
    fn pages_come_out_as_they_were_up_to_the_limit() {
        let texts = [Vec::new(), b"some text".to_vec(), vec![b' '; 3 << 20]];
        for text in texts {
            for (codec, packed) in packed(&text) {
                let out = unpack(codec, &packed, text.len());
                assert_eq!(out.as_deref(), Ok(&text[..]), "{codec:?} of {}", text.len());
                if text.len() < 10 || codec == Compression::UNCOMPRESSED {
                    continue;
                }
                let out = unpack(codec, &packed, text.len() - 1);
                assert_eq!(out, Err(Unpacking::TooLong), "{codec:?} of {}", text.len());
                if packed.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
                    // Its reader takes an end between two blocks for the frame's; values would be missing.
                    continue;
                }
                let cut = unpack(codec, &packed[..packed.len() - 3], text.len());
                assert!(matches!(cut, Err(Unpacking::Damaged(_))), "{codec:?}: {cut:?}");
            }
        }
        assert_eq!(unpack(Compression::LZO, b"x", 9), Err(Unpacking::Unknown("lzo")));
    }
}
