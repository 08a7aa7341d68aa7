//! Decompresses lz4: all frames of a file.
//!
//! The library's decoder reports an end after each frame, and also if the file ends before a block's
//! length. So it would read only the first of several frames, which the format allows and `lz4 -d`
//! decompresses, and would accept a file truncated between two blocks. Here the frames are followed as the
//! decoder reads them (lz4_Frame_format.md, version 1.6.4), which shows whether an end is a real one.

use std::io::{self, BufRead, Read};

use lz4_flex::frame::{Error, FrameDecoder};

const MAGIC: u32 = 0x184d_2204;
/// The last four bits of these are free.
const MAGIC_SKIPPABLE: u32 = 0x184d_2a50;
/// Flags of a frame: what follows its head, its blocks and its last block.
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY: u8 = 0x01;
/// Of a block's length: it is stored as it is.
const STORED: u32 = 0x8000_0000;

/// Reads the text of all frames.
pub struct Frames<R: Read> {
    decoder: FrameDecoder<Followed<R>>,
}

impl<R: BufRead> Frames<R> {
    pub fn new(raw: R) -> Self {
        Self { decoder: FrameDecoder::new(Followed::new(raw)) }
    }

    /// Passes a frame of somebody else's data, which a reader is to skip.
    fn skip(&mut self, bytes: u32) -> io::Result<()> {
        // That it ends too early is seen by who follows.
        io::copy(&mut self.decoder.get_mut().take(u64::from(bytes)), &mut io::sink()).map(drop)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match self.decoder.read(out) {
                Ok(0) if !self.decoder.get_mut().raw.fill_buf()?.is_empty() => {}
                Ok(read) => return Ok(read),
                Err(error) => match to_skip(&error) {
                    Some(bytes) => self.skip(bytes)?,
                    None => return Err(error),
                },
            }
        }
    }
}

/// The length of the frame to skip, where that is what an error says.
fn to_skip(error: &io::Error) -> Option<u32> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::SkippableFrame(bytes) => Some(*bytes),
        _ => None,
    }
}

/// What comes next in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Magic,
    /// Of a frame to be skipped.
    Length,
    Flags,
    /// The rest of a frame's head.
    Head,
    Block,
    /// A block's bytes, and its checksum.
    Content,
    /// The last block's: nothing but the checksum of the whole.
    End,
}

/// Passes bytes on, knows where in a frame they are, and takes no end for one that is within a frame.
struct Followed<R> {
    raw: R,
    next: Next,
    /// Bytes of it that are still to come.
    missing: u64,
    /// Those that came, of what is a number; the last one came last.
    number: u32,
    flags: u8,
}

impl<R: Read> Followed<R> {
    fn new(raw: R) -> Self {
        Self { raw, next: Next::Magic, missing: 4, number: 0, flags: 0 }
    }

    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.missing.min(bytes.len() as u64) as usize;
            if matches!(self.next, Next::Magic | Next::Length | Next::Flags | Next::Block) {
                for byte in &bytes[..taken] {
                    self.number = self.number >> 8 | u32::from(*byte) << 24;
                }
            }
            self.missing -= taken as u64;
            bytes = &bytes[taken..];
            // What has no bytes is passed at once.
            while self.missing == 0 {
                (self.next, self.missing) = self.after()?;
            }
        }
        Ok(())
    }

    /// What follows what is complete, and how many bytes it has.
    fn after(&mut self) -> io::Result<(Next, u64)> {
        let has = |flags: u8, flag, bytes| if flags & flag != 0 { bytes } else { 0 };
        Ok(match self.next {
            Next::Magic if self.number == MAGIC => (Next::Flags, 1),
            Next::Magic if self.number & !0xf == MAGIC_SKIPPABLE => (Next::Length, 4),
            Next::Magic => {
                let message = "what follows is no frame of lz4";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Next::Length => (Next::End, u64::from(self.number)),
            Next::Flags => {
                self.flags = (self.number >> 24) as u8;
                let more = has(self.flags, CONTENT_SIZE, 8) + has(self.flags, DICTIONARY, 4);
                // The block size and the head's checksum, and what stands between them.
                (Next::Head, 2 + more)
            }
            Next::Head | Next::Content => (Next::Block, 4),
            Next::Block if self.number == 0 => (Next::End, has(self.flags, CONTENT_CHECKSUM, 4)),
            Next::Block => {
                let length = u64::from(self.number & !STORED);
                (Next::Content, length + has(self.flags, BLOCK_CHECKSUMS, 4))
            }
            Next::End => (Next::Magic, 4),
        })
    }

    fn is_between_frames(&self) -> bool {
        self.next == Next::Magic && self.missing == 4
    }
}

impl<R: Read> Read for Followed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(out)?;
        if read == 0 && !out.is_empty() && !self.is_between_frames() {
            // The decoder takes an unexpected end for one.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it ends within a frame"));
        }
        self.follow(&out[..read])?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};

    use super::*;

    /// Frames of several blocks each, with everything a frame can have and with nothing of it.
    fn frame(text: &[u8], is_checked: bool) -> Vec<u8> {
        let mut info = FrameInfo::new().block_size(BlockSize::Max64KB);
        if is_checked {
            info = info.content_checksum(true).block_checksums(true);
            info = info.content_size(Some(text.len() as u64));
        }
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(text).expect("packed");
        encoder.finish().expect("packed")
    }

    fn text(from: u32) -> Vec<u8> {
        (from..from + 30_000).flat_map(|n| format!("{n}\n").into_bytes()).collect()
    }

    fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        Frames::new(packed).read_to_end(&mut found).map(|_| found)
    }

    #[test]
    fn all_frames_are_read() {
        for is_checked in [false, true] {
            let (first, second) = (text(0), text(70_000));
            let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"hello"].concat();
            let packed = [
                frame(&first, is_checked),
                skipped.clone(),
                frame(b"", is_checked),
                frame(&second, is_checked),
                skipped,
            ];
            assert!(unpacked(&packed.concat()).expect("whole") == [first, second].concat());
        }
    }

    #[test]
    fn wherever_a_file_is_cut_it_is_told() {
        for is_checked in [false, true] {
            let packed = frame(&text(0), is_checked);
            let two = [packed.clone(), packed.clone()].concat();
            // Around the ends of blocks and frames most of all; elsewhere now and then.
            for end in 1..two.len() {
                let is_end = end < 200 || end.abs_diff(packed.len()) < 200 || end + 200 > two.len();
                if end == packed.len() || !(is_end || end % 997 == 0) {
                    continue;
                }
                assert!(unpacked(&two[..end]).is_err(), "cut at {end} of {}", two.len());
            }
        }
    }

    #[test]
    fn cut_between_two_blocks() {
        let packed = frame(&text(0), false);
        // The head of the frame, then blocks: their length and as many bytes; 0 at the end.
        let mut at = 7;
        let mut cuts = 0;
        loop {
            assert!(unpacked(&packed[..at]).is_err(), "cut at {at}");
            let length = u32::from_le_bytes(packed[at..at + 4].try_into().expect("4 bytes"));
            if length == 0 {
                break;
            }
            at += 4 + (length & 0x7fff_ffff) as usize;
            cuts += 1;
        }
        assert!(cuts > 2, "{cuts} blocks");
    }
}
