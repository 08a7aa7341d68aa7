//! Frames of the direct method: what is sent between server and client (extension/PROTOCOL.md).

use std::sync::Arc;
use std::time::Instant;

use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Codec;

use super::packing::Packing;

/// Bytes of the header that each payload follows.
pub const HEADER_BYTES: usize = 24;
const MAGIC: &[u8; 4] = b"FBF1";

/// Most bytes of a payload of bodies.
pub const BODIES_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a payload of rows out of band: what a COPY message can hold.
pub const OUT_OF_BAND_BYTES_MAX: usize = (1 << 30) - 1;

/// What a frame's payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bodies,
    CopyBinary,
    CopyText,
}

/// Makes room for the header of a frame whose payload is appended to `out` next.
pub fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    at
}

/// Writes the header of the frame that begins at `at` and ends with `out`.
pub fn end(
    out: &mut Vec<u8>,
    at: usize,
    kind: Kind,
    rows: usize,
    packer: &mut Packer,
) -> Result<()> {
    let raw_bytes = out.len() - at - HEADER_BYTES;
    let most = if kind == Kind::Bodies { BODIES_BYTES_MAX } else { OUT_OF_BAND_BYTES_MAX };
    if raw_bytes > most {
        return Err(Error::usage_with_hint(
            format!("a row of {raw_bytes} bytes is more than COPY can take ({most})"),
            "take the row out of the file; a value can have at most 1 GB in PostgreSQL",
        ));
    }
    let codec = packer.pack(out, at + HEADER_BYTES);
    let header = header(kind, codec, rows, raw_bytes, &out[at + HEADER_BYTES..]);
    out[at..at + HEADER_BYTES].copy_from_slice(&header);
    Ok(())
}

/// The header of a payload.
pub fn header(
    kind: Kind,
    codec: Codec,
    rows: usize,
    raw_bytes: usize,
    payload: &[u8],
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(MAGIC);
    header[4] = match kind {
        Kind::Bodies => b'B',
        Kind::CopyBinary => b'C',
        Kind::CopyText => b'T',
    };
    header[5] = codec as u8;
    let checksum = crc_fast::crc32_iscsi(payload);
    let words = [rows as u32, raw_bytes as u32, payload.len() as u32, checksum];
    for (place, word) in header[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// Packs payloads; keeps its memory from one to the next.
pub struct Packer {
    packing: Arc<Packing>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
}

impl Packer {
    pub fn new(packing: Arc<Packing>) -> Self {
        Self { packing, zstd: None, packed: Vec::new() }
    }

    /// Packs what `out` holds from `start` on, if that makes it shorter; how it stands there then.
    fn pack(&mut self, out: &mut Vec<u8>, start: usize) -> Codec {
        if self.packing.wants_samples() {
            for codec in [Codec::Lz4, Codec::Zstd] {
                let began = Instant::now();
                let packed = self.packed(&out[start..], codec);
                let bytes = packed.unwrap_or(out.len() - start);
                self.packing.note(codec, out.len() - start, bytes, began.elapsed());
            }
        }
        let codec = self.packing.codec();
        match self.packed(&out[start..], codec) {
            Some(bytes) if bytes < out.len() - start => {
                out.truncate(start);
                out.extend_from_slice(&self.packed[..bytes]);
                codec
            }
            _ => Codec::None,
        }
    }

    /// Packs bytes into our own memory; how long they are there.
    fn packed(&mut self, raw: &[u8], codec: Codec) -> Option<usize> {
        let bound = match codec {
            Codec::None => return None,
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            Codec::Zstd => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.packed.len() < bound {
            self.packed.resize(bound, 0);
        }
        if codec == Codec::Lz4 {
            return lz4_flex::block::compress_into(raw, &mut self.packed).ok();
        }
        let zstd = self.zstd.get_or_insert_with(|| {
            zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("a level that zstd has")
        });
        zstd.compress_to_buffer(raw, self.packed.as_mut_slice()).ok()
    }
}

/// The fastest of zstd's ordinary levels: a slow network is still faster than the others.
const ZSTD_LEVEL: i32 = 1;
