//! Text-like values, and the decoding of quoted and escaped fields.

use super::dialect::{Dialect, Family, Quotes};
use super::numbers::Span;

/// What became of a field that holds a quote or a backslash.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The field is the NULL string.
    Null,
    /// The value was appended to the output.
    Value,
    /// A backslash sequence made a byte sequence that is not text: NUL or broken UTF-8.
    NotText,
    /// It holds `\.`, by which COPY ends the data or refuses the row, as its version has it.
    EndMark,
}

/// Decodes a raw field that holds a quote or a backslash, appending its value to `out`.
pub fn decode(raw: &[u8], dialect: &Dialect, out: &mut Vec<u8>) -> Decoded {
    if dialect.more_nulls.iter().any(|null| null == raw) {
        return Decoded::Null;
    }
    let is_strict = dialect.quotes == Quotes::Strict;
    match dialect.family {
        Family::Plain | Family::Json | Family::Fixed => {
            out.extend_from_slice(raw);
            Decoded::Value
        }
        // A quote that does not open the field stands for itself.
        Family::Csv if is_strict && raw.first() != Some(&dialect.quote) => {
            out.extend_from_slice(raw);
            Decoded::Value
        }
        Family::Csv => {
            unquote(raw, dialect.quote, dialect.escape, out);
            Decoded::Value
        }
        Family::Text if raw == dialect.null => Decoded::Null,
        Family::Text => {
            let start = out.len();
            let Unescaped { made_bytes, has_end_mark } = unescape(raw, out);
            if has_end_mark {
                out.truncate(start);
                return Decoded::EndMark;
            }
            // Only octal and hexadecimal sequences can make bytes that were not checked before.
            if made_bytes
                && (out[start..].contains(&0) || simdutf8::basic::from_utf8(&out[start..]).is_err())
            {
                out.truncate(start);
                return Decoded::NotText;
            }
            Decoded::Value
        }
    }
}

/// The value of any raw field, appended to `out`.
pub fn value(raw: &[u8], dialect: &Dialect, out: &mut Vec<u8>) -> Decoded {
    if raw == dialect.null {
        return Decoded::Null;
    }
    decode(raw, dialect, out)
}

/// Takes the quotes off a CSV field as COPY does: they may open and close anywhere in it.
fn unquote(raw: &[u8], quote: u8, escape: u8, out: &mut Vec<u8>) {
    // What nearly every quoted field looks like: quotes around and none within.
    if raw.len() >= 2 && raw[0] == quote && raw[raw.len() - 1] == quote {
        let inner = &raw[1..raw.len() - 1];
        if memchr::memchr2(quote, escape, inner).is_none() {
            out.extend_from_slice(inner);
            return;
        }
    }
    let mut rest = raw;
    loop {
        // Outside quotes.
        let Some(opening) = memchr::memchr(quote, rest) else {
            out.extend_from_slice(rest);
            return;
        };
        out.extend_from_slice(&rest[..opening]);
        rest = &rest[opening + 1..];
        // Inside, up to a quote that is not escaped.
        loop {
            let Some(at) = memchr::memchr2(quote, escape, rest) else {
                out.extend_from_slice(rest);
                return;
            };
            out.extend_from_slice(&rest[..at]);
            let (byte, next) = (rest[at], rest.get(at + 1).copied());
            rest = &rest[at + 1..];
            match next {
                Some(next) if byte == escape && (next == quote || next == escape) => {
                    out.push(next);
                    rest = &rest[1..];
                }
                _ if byte == quote => break,
                _ => out.push(byte),
            }
        }
    }
}

/// The value of a quoted field where it is the raw bytes but for the quotes around them.
#[inline(always)]
pub fn simply_quoted(raw: &[u8], dialect: &Dialect) -> bool {
    dialect.family == Family::Csv
        && raw.len() >= 2
        && raw[0] == dialect.quote
        && raw[raw.len() - 1] == dialect.quote
        && memchr::memchr2(dialect.quote, dialect.escape, &raw[1..raw.len() - 1]).is_none()
}

/// What stood in a field with backslashes.
#[derive(Default)]
struct Unescaped {
    /// Octal or hexadecimal sequences.
    made_bytes: bool,
    has_end_mark: bool,
}

/// Resolves backslash sequences as COPY's text format does, and tells which kinds there were.
fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Unescaped {
    let mut found = Unescaped::default();
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((&first, tail)) = rest.split_first() else {
            // A backslash at the very end stands for itself.
            out.push(b'\\');
            return found;
        };
        rest = tail;
        match first {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                let mut taken = 0;
                while taken < 2 && taken < rest.len() && matches!(rest[taken], b'0'..=b'7') {
                    value = value * 8 + u32::from(rest[taken] - b'0');
                    taken += 1;
                }
                rest = &rest[taken..];
                out.push((value & 0xff) as u8);
                found.made_bytes = true;
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let mut value = 0;
                let mut taken = 0;
                while taken < 2 && taken < rest.len() && rest[taken].is_ascii_hexdigit() {
                    value = value * 16 + hex_value(rest[taken]).unwrap_or(0);
                    taken += 1;
                }
                rest = &rest[taken..];
                out.push(value);
                found.made_bytes = true;
            }
            b'.' => found.has_end_mark = true,
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
    found
}

fn hex_value(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Up to eight bytes as a number, the first byte lowest.
const fn word(bytes: &[u8]) -> u64 {
    let (mut word, mut at) = (0, 0);
    while at < bytes.len() {
        word |= (bytes[at] as u64) << (8 * at);
        at += 1;
    }
    word
}

/// The words for true and false that PostgreSQL takes, in the cases in which they are written most
/// often. Which of the two it is, nobody can foresee: so it is found without a branch.
#[inline(always)]
pub fn boolean(field: Span<'_>) -> Option<bool> {
    const YES: [u64; 9] = [
        word(b"t"),
        word(b"true"),
        word(b"1"),
        word(b"T"),
        word(b"TRUE"),
        word(b"True"),
        word(b"y"),
        word(b"yes"),
        word(b"on"),
    ];
    const NO: [u64; 9] = [
        word(b"f"),
        word(b"false"),
        word(b"0"),
        word(b"F"),
        word(b"FALSE"),
        word(b"False"),
        word(b"n"),
        word(b"no"),
        word(b"off"),
    ];
    if !(1..=8).contains(&field.len()) {
        return None;
    }
    let found = field.last_eight() >> (64 - 8 * field.len());
    let is_any = |words: [u64; 9]| words.iter().fold(false, |any, word| any | (*word == found));
    let (yes, no) = (is_any(YES), is_any(NO));
    (yes | no).then_some(yes)
}

/// The standard form of a UUID: 36 characters, hyphens at their places.
pub fn uuid(field: &[u8]) -> Option<[u8; 16]> {
    let field: &[u8; 36] = field.try_into().ok()?;
    let mut uuid = [0; 16];
    let mut at = 0;
    for byte in &mut uuid {
        if matches!(at, 8 | 13 | 18 | 23) {
            if field[at] != b'-' {
                return None;
            }
            at += 1;
        }
        *byte = hex_value(field[at])? << 4 | hex_value(field[at + 1])?;
        at += 2;
    }
    Some(uuid)
}

/// A byte string in hexadecimal form (`\x00ff`), or one without any backslash, appended to `out`;
/// false, and nothing appended, where the server must judge.
pub fn bytea(field: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(digits) = field.strip_prefix(b"\\x") else {
        let literal = memchr::memchr(b'\\', field).is_none();
        if literal {
            out.extend_from_slice(field);
        }
        return literal;
    };
    let start = out.len();
    let (pairs, rest) = digits.as_chunks::<2>();
    for pair in pairs {
        let (Some(high), Some(low)) = (hex_value(pair[0]), hex_value(pair[1])) else {
            out.truncate(start);
            return false;
        };
        out.push(high << 4 | low);
    }
    if !rest.is_empty() {
        out.truncate(start);
    }
    rest.is_empty()
}

/// Whether text has at most `limit` characters.
#[inline(always)]
pub fn fits(field: &[u8], limit: Option<u32>) -> bool {
    match limit {
        Some(limit) if field.len() > limit as usize => {
            // Continuation bytes don't count.
            field.iter().filter(|b| **b & 0xc0 != 0x80).count() <= limit as usize
        }
        _ => true,
    }
}

/// What stands after the backslash where COPY's text format escapes a byte.
#[inline(always)]
pub fn escape_in_copy_text(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        _ => None,
    }
}

/// Appends a value as a field of COPY's text format.
pub fn write_copy_text(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match escape_in_copy_text(*byte) {
            Some(escaped) => out.extend_from_slice(&[b'\\', escaped]),
            None => out.push(*byte),
        }
    }
}
