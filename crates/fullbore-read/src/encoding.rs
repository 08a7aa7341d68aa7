//! Text in other encodings, as UTF-8.
//!
//! The names are those of the WHATWG's list, and mostly its tables. Two things differ, since COPY has
//! them otherwise: `latin1` and its kin are what their standard says, where browsers take them for
//! windows-1252; and bytes that a code page leaves undefined are refused, where browsers make control
//! characters of them.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How a text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// One byte a character: what stands for each, and the encoding's name.
    Bytes(&'static Encoding, Controls),
    /// By the library's decoder.
    Other(&'static Encoding),
    /// UTF-16 whose byte order its first two bytes tell; little-endian without them.
    Utf16,
}

/// What the bytes from 0x80 to 0x9f are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controls {
    /// What the table has.
    Listed,
    /// Control characters, all of them.
    All,
    /// What the table has; where it has control characters, the code page has nothing.
    Undefined,
}

impl TextEncoding {
    /// By one of its names; `Ok(None)` is UTF-8, of which ASCII is a part.
    pub fn by_name(name: &str) -> Result<Option<Self>, UnknownEncoding> {
        let encoding = Encoding::for_label(name.as_bytes()).ok_or(UnknownEncoding)?;
        let name = name.trim().to_ascii_lowercase();
        if encoding == encoding_rs::UTF_8
            || matches!(&*name, "ascii" | "us-ascii" | "ansi_x3.4-1968")
        {
            return Ok(None);
        }
        // Those that browsers take for code pages: 1, 9 and 11 of ISO 8859 go by these names.
        let is_code_page = name != "cp819"
            && ["windows-", "cp", "x-cp", "dos-"].iter().any(|start| name.starts_with(start));
        Ok(Some(match encoding {
            _ if name == "utf-16" => Self::Utf16,
            _ if !encoding.is_single_byte() => Self::Other(encoding),
            _ if !encoding.name().starts_with("windows-") => {
                Self::Bytes(encoding, Controls::Listed)
            }
            _ if is_code_page => Self::Bytes(encoding, Controls::Undefined),
            _ => Self::Bytes(encoding, Controls::All),
        }))
    }

    /// The name that the encoding itself has, whichever of its names it was given by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes(encoding, Controls::All) => match encoding.name() {
                "windows-1254" => "ISO-8859-9",
                "windows-874" => "ISO-8859-11",
                _ => "ISO-8859-1",
            },
            Self::Bytes(encoding, _) | Self::Other(encoding) => encoding.name(),
            Self::Utf16 => "UTF-16",
        }
    }

    /// The text of a reader.
    pub fn reader(self, raw: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let way = match self {
            Self::Bytes(encoding, controls) => Way::Table(table(encoding, controls)),
            Self::Other(encoding) => Way::Decoder(encoding.new_decoder_with_bom_removal()),
            Self::Utf16 => Way::Decoder(encoding_rs::UTF_16LE.new_decoder()),
        };
        Box::new(Recoder::new(raw, self.name(), way))
    }
}

/// No encoding goes by a name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownEncoding;

/// What each byte stands for, if anything.
fn table(encoding: &'static Encoding, controls: Controls) -> Box<[Option<char>; 256]> {
    let character = |byte: u8| -> Option<char> {
        if controls == Controls::All && (0x80..0xa0).contains(&byte) {
            return Some(char::from(byte));
        }
        let byte = [byte];
        let text = encoding.decode_without_bom_handling_and_without_replacement(&byte)?;
        let found = text.chars().next()?;
        let is_undefined = controls == Controls::Undefined && ('\u{80}'..'\u{a0}').contains(&found);
        (!is_undefined).then_some(found)
    };
    Box::new(std::array::from_fn(|byte| character(byte as u8)))
}

enum Way {
    Table(Box<[Option<char>; 256]>),
    Decoder(Decoder),
}

/// Reads text in another encoding as UTF-8.
struct Recoder<R> {
    inner: R,
    name: &'static str,
    way: Way,
    raw: Vec<u8>,
    raw_at: usize,
    text: Vec<u8>,
    text_at: usize,
    ended: bool,
    /// Raw bytes decoded so far, for messages.
    offset: u64,
}

impl<R: Read> Recoder<R> {
    fn new(inner: R, name: &'static str, way: Way) -> Self {
        Self {
            inner,
            name,
            way,
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
            self.raw_at = 0;
            let read = self.inner.read(&mut self.raw);
            // Of a read that failed nothing is there.
            self.raw.truncate(read.as_ref().map_or(0, |read| *read));
            self.ended = read? == 0;
        }
        let raw = &self.raw[self.raw_at..];
        self.text_at = 0;
        let (read, is_right) = match &mut self.way {
            Way::Table(table) => {
                self.text.clear();
                by_table(table, raw, &mut self.text)
            }
            Way::Decoder(decoder) => {
                self.text.resize(READ_BYTES, 0);
                let (result, read, written) =
                    decoder.decode_to_utf8_without_replacement(raw, &mut self.text, self.ended);
                self.text.truncate(written);
                (read, !matches!(result, DecoderResult::Malformed(..)))
            }
        };
        self.raw_at += read;
        self.offset += read as u64;
        if is_right {
            return Ok(());
        }
        let message = format!("byte {} is not valid {}", self.offset, self.name);
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }
}

/// Appends what bytes stand for; how many were taken, the first that stands for nothing among them,
/// and whether there was none such.
fn by_table(table: &[Option<char>; 256], raw: &[u8], text: &mut Vec<u8>) -> (usize, bool) {
    let mut at = 0;
    while at < raw.len() {
        let plain = Encoding::ascii_valid_up_to(&raw[at..]);
        text.extend_from_slice(&raw[at..at + plain]);
        at += plain;
        let Some(byte) = raw.get(at) else { break };
        at += 1;
        let Some(found) = table[usize::from(*byte)] else { return (at, false) };
        text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
    }
    (at, true)
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

    fn read(name: &str, raw: &[u8]) -> io::Result<String> {
        let encoding = TextEncoding::by_name(name).expect("known").expect("not UTF-8");
        let mut text = String::new();
        encoding.reader(Box::new(io::Cursor::new(raw.to_vec()))).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn other_encodings_become_utf8() {
        assert_eq!(read("latin1", b"caf\xe9\n").expect("text"), "caf\u{e9}\n");
        assert_eq!(read("shift_jis", b"\x83\x5c").expect("text"), "\u{30bd}");
        let long = vec![b'a'; 3 * READ_BYTES + 1];
        assert_eq!(read("windows-1251", &long).expect("text").len(), long.len());
    }

    #[test]
    fn latin1_is_not_what_browsers_take_it_for() {
        for name in ["latin1", "ISO-8859-1", "iso_8859-1", "l1"] {
            let all: Vec<u8> = (0..=255).collect();
            let wanted: String = (0..=255).map(char::from).collect();
            assert_eq!(read(name, &all).expect("text"), wanted, "{name}");
        }
        assert_eq!(read("iso-8859-9", b"\x93\xf0").expect("text"), "\u{93}\u{11f}");
        assert_eq!(read("windows-1252", b"\x93").expect("text"), "\u{201c}");
        assert_eq!(read("cp1252", b"\x93").expect("text"), "\u{201c}");
        assert_eq!(read("koi8-r", b"\x81\xc1").expect("text"), "\u{2502}\u{430}");
        assert_eq!(TextEncoding::by_name("us-ascii"), Ok(None));
    }

    #[test]
    fn bytes_that_an_encoding_lacks_are_refused() {
        for (name, raw, words) in [
            ("shift_jis", &b"ab\x81\xff\n"[..], "not valid Shift_JIS"),
            ("windows-1252", b"ab\x81\n", "byte 3 is not valid windows-1252"),
            ("iso-8859-7", b"\xae", "byte 1 is not valid ISO-8859-7"),
        ] {
            let error = read(name, raw).expect_err("malformed");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(TextEncoding::by_name("klingon"), Err(UnknownEncoding));
    }

    #[test]
    fn a_mark_tells_the_byte_order() {
        assert_eq!(read("utf-16", b"\xfe\xff\0a").expect("text"), "a");
        assert_eq!(read("utf-16", b"\xff\xfea\0").expect("text"), "a");
        assert_eq!(read("utf-16", b"a\0").expect("text"), "a");
        assert_eq!(read("utf-16be", b"\0a").expect("text"), "a");
    }
}
