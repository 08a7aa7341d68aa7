//! The reference parser: slow and obvious, byte by byte, one `String` per field.
//!
//! It is the oracle of the fast parser's tests and fuzzing, and shares no code with it: records
//! and fields as COPY splits them, values by the standard library. Kept beside the fast one so
//! that the two are never out of step.

use super::dialect::{Dialect, Family, LineEnd};

/// A field's value: `None` is NULL.
pub type Value = Option<Vec<u8>>;

/// A record as the reference splits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The decoded fields.
    Fields(Vec<Value>),
    /// Not a row: wrong number of fields, bad text, bad line end.
    Fault,
}

/// Splits text into records and decodes their fields; each record should have `fields` fields.
pub fn records(text: &[u8], dialect: &Dialect, fields: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // What no line feed ends was cut off, or is quoted to the end.
        let Some(at) = line_feed(rest, dialect) else {
            records.push(Record::Fault);
            break;
        };
        records.push(one_record(&rest[..=at], dialect, fields));
        rest = &rest[at + 1..];
    }
    records
}

/// The first line feed that ends a record.
fn line_feed(text: &[u8], dialect: &Dialect) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match dialect.family {
            Family::Plain => {}
            Family::Text => {
                if escaped {
                    escaped = false;
                    continue;
                }
                escaped = byte == b'\\';
            }
            Family::Csv => {
                if quoted && dialect.escape != dialect.quote && byte == dialect.escape {
                    escaped = !escaped;
                    continue;
                }
                if byte == dialect.quote && !escaped {
                    quoted = !quoted;
                }
                escaped = false;
            }
        }
        if byte == b'\n' && !quoted {
            return Some(at);
        }
    }
    None
}

fn one_record(record: &[u8], dialect: &Dialect, fields: usize) -> Record {
    if record.contains(&0) || std::str::from_utf8(record).is_err() {
        return Record::Fault;
    }
    let Some(line) = record.strip_suffix(b"\n") else { return Record::Fault };
    let line = match (dialect.line_end, line.strip_suffix(b"\r")) {
        (LineEnd::CrLf, Some(line)) => line,
        (LineEnd::CrLf, None) => return Record::Fault,
        (LineEnd::Lf | LineEnd::Cr | LineEnd::Mixed, _) => line,
    };
    let Some(mut raw) = split(line, dialect) else { return Record::Fault };
    if dialect.trailing_delimiter && raw.pop().is_none_or(|last| !last.is_empty()) {
        return Record::Fault;
    }
    if raw.len() != fields {
        return Record::Fault;
    }
    let is_marked = |field: &&[u8]| **field != *dialect.null && has_end_mark(field);
    if dialect.family == Family::Text && raw.iter().any(is_marked) {
        return Record::Fault;
    }
    Record::Fields(raw.iter().map(|field| decode(field, dialect)).collect())
}

/// Whether a backslash that is not escaped itself stands before a period.
fn has_end_mark(field: &[u8]) -> bool {
    let mut escaped = false;
    for byte in field {
        if escaped && *byte == b'.' {
            return true;
        }
        escaped = !escaped && *byte == b'\\';
    }
    false
}

/// The raw fields of a line; `None` where a carriage return stands bare in it.
fn split<'a>(line: &'a [u8], dialect: &Dialect) -> Option<Vec<&'a [u8]>> {
    let mut fields = Vec::new();
    let mut start = 0;
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in line.iter().enumerate() {
        match dialect.family {
            Family::Plain => {}
            Family::Text if escaped => {
                escaped = false;
                continue;
            }
            Family::Text => escaped = byte == b'\\',
            Family::Csv => {
                if quoted && dialect.escape != dialect.quote && byte == dialect.escape {
                    escaped = !escaped;
                    continue;
                }
                if byte == dialect.quote && !escaped {
                    quoted = !quoted;
                }
                escaped = false;
            }
        }
        if quoted {
            continue;
        }
        if byte == b'\r' {
            return None;
        }
        if byte == dialect.delimiter {
            fields.push(&line[start..at]);
            start = at + 1;
        }
    }
    fields.push(&line[start..]);
    Some(fields)
}

fn decode(raw: &[u8], dialect: &Dialect) -> Value {
    match dialect.family {
        Family::Plain => (raw != dialect.null).then(|| raw.to_vec()),
        Family::Text if raw == dialect.null => None,
        Family::Text => Some(unescape(raw)),
        Family::Csv if raw == dialect.null => None,
        Family::Csv => {
            let mut value = Vec::new();
            let mut quoted = false;
            let mut bytes = raw.iter().copied().peekable();
            while let Some(byte) = bytes.next() {
                let next = bytes.peek().copied();
                if !quoted && byte == dialect.quote {
                    quoted = true;
                } else if quoted
                    && byte == dialect.escape
                    && (next == Some(dialect.quote) || next == Some(dialect.escape))
                {
                    value.extend(bytes.next());
                } else if quoted && byte == dialect.quote {
                    quoted = false;
                } else {
                    value.push(byte);
                }
            }
            Some(value)
        }
    }
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        if raw[at] != b'\\' || at + 1 == raw.len() {
            value.push(raw[at]);
            at += 1;
            continue;
        }
        at += 1;
        let number = |from: usize, digits: usize, radix: u32| {
            let text: String = raw[from..]
                .iter()
                .map(|b| *b as char)
                .take(digits)
                .take_while(|c| c.is_digit(radix))
                .collect();
            (text.len(), u32::from_str_radix(&text, radix).unwrap_or(0) as u8)
        };
        match raw[at] {
            b'0'..=b'7' => {
                let (digits, _) = number(at, 3, 8);
                let text = std::str::from_utf8(&raw[at..at + digits]).unwrap_or("0");
                value.push((u32::from_str_radix(text, 8).unwrap_or(0) & 0xff) as u8);
                at += digits;
                continue;
            }
            b'x' if at + 1 < raw.len() && raw[at + 1].is_ascii_hexdigit() => {
                let (digits, byte) = number(at + 1, 2, 16);
                value.push(byte);
                at += 1 + digits;
                continue;
            }
            b'b' => value.push(8),
            b'f' => value.push(12),
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b't' => value.push(b'\t'),
            b'v' => value.push(11),
            other => value.push(other),
        }
        at += 1;
    }
    value
}
