//! The reference parser: slow and obvious, byte by byte, one `String` per field.
//!
//! It is the oracle of the fast parser's tests and fuzzing, and shares no code with it: records
//! and fields as COPY splits them, values by the standard library. It is in the
//! same crate as the fast one so that both change together.

use std::ops::Range;

use super::dialect::{Dialect, Family, LineEnd, Quotes, Ragged};

/// A field's value: `None` is NULL.
pub type Value = Option<Vec<u8>>;

/// A record as the reference splits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The decoded fields.
    Fields(Vec<Value>),
    /// Not a row: wrong number of fields, bad text, bad line end, quotes that don't close.
    Fault,
    /// A blank line or a comment.
    Skipped,
}

/// Splits text into records and decodes their fields; each record should have `fields` fields.
pub fn records(text: &[u8], dialect: &Dialect, fields: usize) -> Vec<Record> {
    let all = placed_records(text, dialect, fields).into_iter().map(|(_, record)| record);
    all.filter(|record| *record != Record::Skipped).collect()
}

/// The same with what was skipped, each with its place in the text, line end included.
pub fn placed_records(
    text: &[u8],
    dialect: &Dialect,
    fields: usize,
) -> Vec<(Range<usize>, Record)> {
    let mut records = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let (length, split) = first_record(&text[start..], dialect);
        let end = start + length;
        records.push((start..end, one_record(&text[start..end], split, dialect, fields)));
        start = end;
    }
    records
}

/// What was found of a record, before its fields are looked at.
#[derive(Default)]
struct Split {
    /// Raw fields, by their places in the record.
    fields: Vec<Range<usize>>,
    is_bad: bool,
    is_comment: bool,
}

/// The first record: its length, line end included, and its fields.
fn first_record(text: &[u8], dialect: &Dialect) -> (usize, Split) {
    if dialect.comment.is_some() && dialect.comment == text.first().copied() {
        let comment = Split { is_comment: true, ..Split::default() };
        return (line_length(text, 0, dialect.line_end), comment);
    }
    let delimiter = dialect.whole_delimiter();
    let (mut split, mut start, mut at) = (Split::default(), 0, 0);
    loop {
        // Quotes at the beginning of a field, where these alone count.
        let is_strict = dialect.family == Family::Csv && dialect.quotes == Quotes::Strict;
        if is_strict && at == start && text.get(at) == Some(&dialect.quote) {
            let end = closing_quote(text, at, dialect);
            let follows = |end: usize| {
                let rest = &text[end..];
                rest.is_empty() || rest.starts_with(&delimiter) || line_end(rest, dialect) > 0
            };
            match end.filter(|end| follows(*end)) {
                Some(end) => at = end,
                None => {
                    let lost = Split { is_bad: true, ..Split::default() };
                    return (line_length(text, start, dialect.line_end), lost);
                }
            }
        }
        let rest = &text[at..];
        if rest.is_empty() || line_end(rest, dialect) > 0 {
            // What no line end ends was cut off, or is quoted to the end.
            split.is_bad |= rest.is_empty();
            let end = at + line_end(rest, dialect);
            // The carriage return of its line end was escaped.
            let is_escaped = dialect.line_end == LineEnd::CrLf
                && end == at + 1
                && text[start..at].ends_with(b"\r");
            split.fields.push(start..at - usize::from(is_escaped));
            return (end, split);
        }
        if rest.starts_with(&delimiter) {
            split.fields.push(start..at);
            at += delimiter.len();
            start = at;
            continue;
        }
        match (dialect.family, rest[0]) {
            (Family::Text, b'\\') => at = (at + 2).min(text.len()),
            (Family::Csv, byte) if byte == dialect.quote && !is_strict => {
                at = closing_quote(text, at, dialect).unwrap_or(text.len());
            }
            (_, byte) => {
                split.is_bad |= byte == b'\r' || byte == b'\n';
                at += 1;
            }
        }
    }
}

/// Behind the quote that closes the one at a place.
fn closing_quote(text: &[u8], opening: usize, dialect: &Dialect) -> Option<usize> {
    let mut at = opening + 1;
    while at < text.len() {
        let next = text.get(at + 1).copied();
        let is_escaped = next == Some(dialect.quote) || next == Some(dialect.escape);
        if text[at] == dialect.escape && is_escaped {
            at += 2;
        } else if text[at] == dialect.quote {
            return Some(at + 1);
        } else {
            at += 1;
        }
    }
    None
}

/// The length of the line end at the beginning of a text; 0 where there is none.
fn line_end(text: &[u8], dialect: &Dialect) -> usize {
    let ends: &[&[u8]] = match dialect.line_end {
        LineEnd::Lf => &[b"\n"],
        // LF alone ends a record too, which is a bad one then.
        LineEnd::CrLf => &[b"\r\n", b"\n"],
        LineEnd::Cr => &[b"\r"],
        LineEnd::Mixed => &[b"\r\n", b"\n", b"\r"],
    };
    ends.iter().find(|end| text.starts_with(end)).map_or(0, |end| end.len())
}

/// The length of the first lines of a text, up to the end of the one that a place is in.
fn line_length(text: &[u8], from: usize, line_end: LineEnd) -> usize {
    let ends: &[&[u8]] = match line_end {
        LineEnd::Lf | LineEnd::CrLf => &[b"\n"],
        LineEnd::Cr => &[b"\r"],
        LineEnd::Mixed => &[b"\r\n", b"\n", b"\r"],
    };
    for at in from..text.len() {
        if let Some(end) = ends.iter().find(|end| text[at..].starts_with(end)) {
            return at + end.len();
        }
    }
    text.len()
}

fn one_record(record: &[u8], split: Split, dialect: &Dialect, fields: usize) -> Record {
    let mut raw: Vec<&[u8]> = split.fields.into_iter().map(|field| &record[field]).collect();
    let is_blank = raw.len() == 1 && fields > 1 && record.trim_ascii().is_empty();
    if split.is_comment || is_blank {
        return Record::Skipped;
    }
    if split.is_bad {
        return Record::Fault;
    }
    if record.contains(&0) || std::str::from_utf8(record).is_err() {
        return Record::Fault;
    }
    if dialect.line_end == LineEnd::CrLf && !record.ends_with(b"\r\n") {
        return Record::Fault;
    }
    let is_closed = raw.last().is_some_and(|last| last.is_empty());
    if dialect.trailing_delimiter {
        // What stands behind the last delimiter is nothing, or one field more.
        match dialect.ragged {
            _ if is_closed => _ = raw.pop(),
            Ragged::Reject => return Record::Fault,
            Ragged::Pad if raw.len() > fields => return Record::Fault,
            Ragged::Cut if raw.len() <= fields => return Record::Fault,
            Ragged::Pad | Ragged::Cut => {}
        }
    }
    match dialect.ragged {
        Ragged::Cut if raw.len() > fields => raw.truncate(fields),
        Ragged::Pad if raw.len() < fields => {}
        _ if raw.len() == fields => {}
        _ => return Record::Fault,
    }
    let has_mark = |field: &&[u8]| !is_null(field, dialect) && has_end_mark(field);
    if dialect.family == Family::Text && raw.iter().any(has_mark) {
        return Record::Fault;
    }
    let mut values: Vec<Value> = raw.iter().map(|field| decode(field, dialect)).collect();
    values.resize(fields, None);
    Record::Fields(values)
}

fn is_null(raw: &[u8], dialect: &Dialect) -> bool {
    dialect.nulls().any(|null| null == raw)
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

fn decode(raw: &[u8], dialect: &Dialect) -> Value {
    if is_null(raw, dialect) {
        return None;
    }
    let is_strict = dialect.quotes == Quotes::Strict;
    match dialect.family {
        Family::Plain | Family::Json | Family::Fixed => Some(raw.to_vec()),
        Family::Text => Some(unescape(raw)),
        Family::Csv if is_strict && raw.first() != Some(&dialect.quote) => Some(raw.to_vec()),
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
