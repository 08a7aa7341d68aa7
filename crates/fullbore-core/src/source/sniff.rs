//! Proposes a dialect from a sample, and says so. What the job fixes is never overruled.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;

use super::attended::Attention;
use super::decompress::{open_stream, unpack};
use super::margins::preamble;
use super::stream::broken;
use super::{Packing, SourceFile, read_little};
use crate::error::{Error, Result};
use crate::job::FormatName;
use crate::parse::dialect::{Dialect, Family, Header, LineEnd, Quotes, Ragged};
use crate::parse::{floats, numbers, temporal, text};
use crate::source::boundary::{QuoteState, first_record_end, whole_records};

/// What the job fixes of the dialect.
#[derive(Debug, Clone, Default)]
pub struct DialectHints {
    pub format: Option<FormatName>,
    pub delimiter: Option<Vec<u8>>,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub quotes: Option<Quotes>,
    pub nulls: Vec<Vec<u8>>,
    pub header: Option<Header>,
    pub line_end: Option<LineEnd>,
    pub ragged: Option<Ragged>,
    pub comment: Option<u8>,
    pub skip_lines: Option<u64>,
    pub skip_footer: Option<u64>,
}

/// A dialect proposed.
#[derive(Debug, Clone)]
pub struct Sniffed {
    pub dialect: Dialect,
    /// What was guessed, in sentences.
    pub notes: Vec<String>,
    /// Fields per record.
    pub fields: usize,
}

/// Text of one file, for guessing.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    pub first: Vec<u8>,
    /// Whole records from further on.
    pub others: Vec<Vec<u8>>,
    pub is_whole: bool,
    /// Length of the byte order mark at the beginning.
    pub bom_bytes: usize,
}

impl Samples {
    /// A whole file's last record needs no line end to be a record.
    #[must_use]
    pub fn with_last_line_ended(mut self) -> Self {
        if self.is_whole && !self.first.is_empty() && !self.first.ends_with(b"\n") {
            let ends_as_crlf = memchr::memmem::find(&self.first, b"\r\n").is_some();
            self.first.extend_from_slice(if ends_as_crlf { b"\r\n" } else { b"\n" });
        }
        self
    }
}

pub(crate) const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
/// Records looked at.
const RECORDS_MAX: usize = 200;
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Reads the beginning of a file, and of one that can be read anywhere also middle and end.
pub fn sample(file: &SourceFile, bytes: usize, dialect: Option<&Dialect>) -> Result<Samples> {
    let mut samples = beginning(file, bytes)?;
    if file.packing == Packing::Plain && file.is_seekable() && !samples.is_whole {
        let plain = Dialect::tbl();
        let dialect = dialect.unwrap_or(&plain);
        for at in [file.size / 2, file.size.saturating_sub(bytes as u64)] {
            samples.others.extend(records_at(file, at, bytes, dialect)?);
        }
    }
    Ok(samples)
}

/// Reads the beginning of a file.
pub fn beginning(file: &SourceFile, bytes: usize) -> Result<Samples> {
    use std::io::Read;
    let mut first = Vec::new();
    let mut stream = match &file.peeked {
        None if file.is_regular => {
            let opened = open_for_a_look(file)?;
            let is_plain = file.packing == Packing::Plain && file.encoding.is_none();
            let limit = if is_plain { bytes as u64 + 1 } else { u64::MAX };
            unpack(file, file.packing, Box::new(opened.take(limit)))?
        }
        None => open_stream(file, &Attention::default())?,
        Some(peeked) => {
            let begun = std::io::Cursor::new(peeked.first.as_ref().clone());
            unpack(file, file.packing, Box::new(begun))?
        }
    }
    .take(bytes as u64 + 1);
    let read = stream.read_to_end(&mut first);
    // Of a packed pipe only the beginning is at hand: that it breaks off there is no fault.
    let is_begun = file.peeked.as_ref().is_some_and(|peeked| !peeked.is_whole);
    if !is_begun {
        read.map_err(|error| broken(file, error))?;
    }
    let is_whole = first.len() <= bytes && !is_begun;
    first.truncate(bytes);
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err(Error::Source {
            path: file.path.clone(),
            message: "is UTF-16".into(),
            hint: Some("load it with --encoding utf-16le or utf-16be".into()),
        });
    }
    let bom_bytes = if first.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    Ok(Samples { first, others: Vec::new(), is_whole, bom_bytes })
}

fn open_for_a_look(file: &SourceFile) -> Result<File> {
    let opened = file.open()?;
    read_little(&opened);
    Ok(opened)
}

/// Whole records from somewhere in a file. Whether the place is inside quotes is not known; for
/// guessing types that is good enough.
fn records_at(
    file: &SourceFile,
    at: u64,
    bytes: usize,
    dialect: &Dialect,
) -> Result<Option<Vec<u8>>> {
    use std::os::unix::fs::FileExt;
    let open = open_for_a_look(file)?;
    let mut text = vec![0; bytes.min((file.size - at) as usize)];
    open.read_exact_at(&mut text, at)
        .map_err(|source| Error::Read { path: file.path.clone(), source })?;
    let Some(start) = first_record_end(&text, QuoteState::default(), b"", dialect) else {
        return Ok(None);
    };
    let Some(whole) = whole_records(&text[start..], dialect, false) else { return Ok(None) };
    Ok(Some(text[start..start + whole.end].to_vec()))
}

/// Proposes a dialect for a file from its first text (without a byte order mark).
pub fn sniff(
    sample: &[u8],
    sample_is_whole_file: bool,
    name: &Path,
    hints: &DialectHints,
) -> Result<Sniffed> {
    let mut notes = Vec::new();
    let extensions = extensions(name);
    let format = hints.format.or_else(|| format_by_name(&extensions));
    let mut dialect = match format {
        Some(FormatName::Tbl) => Dialect::tbl(),
        Some(FormatName::Text) => Dialect::text(),
        Some(FormatName::Tsv) => tsv(sample),
        Some(FormatName::Csv | FormatName::Parquet) => Dialect::csv(),
        None if ends_with_delimiters(sample) => {
            notes.push("format tbl guessed: each line ends with |".to_owned());
            Dialect::tbl()
        }
        None => Dialect::csv(),
    };
    if let Some(quote) = hints.quote {
        (dialect.quote, dialect.escape) = (quote, quote);
    }
    if let Some(escape) = hints.escape {
        dialect.escape = escape;
    }
    if let Some((null, more)) = hints.nulls.split_first() {
        dialect.null.clone_from(null);
        dialect.more_nulls = more.to_vec();
    }
    dialect.ragged = hints.ragged.unwrap_or_default();
    dialect.comment = hints.comment;
    dialect.skip_lines = hints.skip_lines.unwrap_or_default();
    dialect.skip_footer = hints.skip_footer.unwrap_or_default();
    // Of the first record: a line feed within quotes says nothing of how records end.
    let first = first_record_end(sample, QuoteState::default(), b"", &dialect);
    if first.is_some_and(|end| sample[..end].ends_with(b"\r\n")) {
        dialect.line_end = LineEnd::CrLf;
    }
    dialect.line_end = hints.line_end.unwrap_or(dialect.line_end);
    if dialect.family == Family::Csv {
        dialect.quotes = hints.quotes.unwrap_or_else(|| Quotes::unless_given(hints.format));
    }
    match hints.delimiter.as_deref().and_then(<[u8]>::split_first) {
        Some((first, rest)) => {
            dialect.delimiter = *first;
            dialect.delimiter_rest = rest.to_vec();
        }
        None if dialect.family == Family::Csv && format != Some(FormatName::Tsv) => {
            guess_delimiter(&mut dialect, sample, sample_is_whole_file, &mut notes);
        }
        None => {}
    }
    dialect.check().map_err(|sentence| {
        Error::usage_with_hint(sentence, "set --delimiter, --quote, --escape and --null apart")
    })?;
    let records = split_records(sample, sample_is_whole_file, &dialect);
    match hints.header {
        Some(header) => {
            dialect.header = header;
            dialect.check().map_err(|sentence| Error::usage_with_hint(sentence, ""))?;
        }
        None if looks_like_header(&records) => {
            dialect.header = Header::True;
            notes.push(
                "the first line is taken as a header, guessed from what follows it; \
                 --header none if it is data"
                    .to_owned(),
            );
        }
        None => {}
    }
    let fields = records.first().map_or(0, Vec::len);
    Ok(Sniffed { dialect, notes, fields })
}

fn extensions(name: &Path) -> Vec<String> {
    let name = name.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    name.split('.').skip(1).map(str::to_owned).collect()
}

fn format_by_name(extensions: &[String]) -> Option<FormatName> {
    extensions.iter().rev().find_map(|extension| match extension.as_str() {
        "csv" => Some(FormatName::Csv),
        "tsv" | "tab" => Some(FormatName::Tsv),
        "tbl" => Some(FormatName::Tbl),
        "copy" => Some(FormatName::Text),
        _ => None,
    })
}

/// Tab-separated text is COPY's text format where backslashes are used, else CSV with tabs.
fn tsv(sample: &[u8]) -> Dialect {
    let quoted = memchr::memchr(b'"', sample).is_some();
    let backslashes = memchr::memchr(b'\\', sample).is_some();
    if quoted && !backslashes {
        Dialect { delimiter: b'\t', ..Dialect::csv() }
    } else {
        Dialect::text()
    }
}

fn ends_with_delimiters(sample: &[u8]) -> bool {
    let Some(end) = memchr::memrchr(b'\n', sample) else { return false };
    let mut lines = sample[..end].split(|b| *b == b'\n').take(RECORDS_MAX).peekable();
    lines.peek().is_some()
        && lines.all(|line| line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"|"))
}

/// The delimiter that gives most records the same number of fields, and more than one.
fn guess_delimiter(dialect: &mut Dialect, sample: &[u8], is_whole: bool, notes: &mut Vec<String>) {
    let mut best = (0, 0, b',');
    for delimiter in DELIMITERS {
        let tried = Dialect { delimiter, ..dialect.clone() };
        let records = split_records(sample, is_whole, &tried);
        let Some(fields) = records.first().map(Vec::len).filter(|fields| *fields > 1) else {
            continue;
        };
        let same = records.iter().filter(|record| record.len() == fields).count();
        let share = same * 100 / records.len();
        // A comma that is nearly as good stays: it is what the name CSV says.
        if (share, fields) > (best.0, best.1)
            && (delimiter == b',' || best.0 < 90 || share > best.0)
        {
            best = (share, fields, delimiter);
        }
    }
    dialect.delimiter = best.2;
    if best.2 != b',' {
        notes.push(format!("delimiter {:?} guessed", best.2 as char));
    }
}

/// The decoded fields of the first records; the last one is left out where it may be cut.
fn split_records(sample: &[u8], is_whole: bool, dialect: &Dialect) -> Vec<Vec<Vec<u8>>> {
    let mut records = Vec::new();
    let mut rest = sample;
    while records.len() < RECORDS_MAX && !rest.is_empty() {
        let end = match first_record_end(rest, QuoteState::default(), b"", dialect) {
            Some(end) => end,
            None if is_whole => rest.len(),
            None => break,
        };
        records.push(fields_of(&rest[..end], dialect));
        rest = &rest[end..];
    }
    records
}

/// The decoded fields of one record.
fn fields_of(record: &[u8], dialect: &Dialect) -> Vec<Vec<u8>> {
    let line = record.strip_suffix(b"\n").unwrap_or(record);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut fields = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in line.iter().enumerate() {
        match dialect.family {
            Family::Csv if quoted && !dialect.quote_is_doubled() && *byte == dialect.escape => {
                escaped = !escaped;
                continue;
            }
            Family::Csv if *byte == dialect.quote && !escaped => quoted = !quoted,
            Family::Text if escaped => {
                escaped = false;
                continue;
            }
            Family::Text if *byte == b'\\' => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
        if *byte == dialect.delimiter && !quoted {
            fields.push(decoded(&line[start..at], dialect));
            start = at + 1;
        }
    }
    if !(dialect.trailing_delimiter && start == line.len() && !fields.is_empty()) {
        fields.push(decoded(&line[start..], dialect));
    }
    fields
}

fn decoded(raw: &[u8], dialect: &Dialect) -> Vec<u8> {
    let mut value = Vec::new();
    text::decode(raw, dialect, &mut value);
    value
}

/// A header's names are unique, not empty and no values; some column below it mostly holds values.
fn looks_like_header(records: &[Vec<Vec<u8>>]) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let mut names: Vec<_> = first.iter().collect();
    names.sort();
    names.dedup();
    if names.len() != first.len() || first.iter().any(|name| name.is_empty() || is_value(name)) {
        return false;
    }
    (0..first.len()).any(|column| {
        let given = rest.iter().filter_map(|r| r.get(column)).filter(|v| !v.is_empty());
        let (values, others): (Vec<_>, Vec<_>) = given.partition(|value| is_value(value));
        values.len() > others.len()
    })
}

/// Whether a field is a number, a date or a time.
fn is_value(field: &[u8]) -> bool {
    numbers::is_plain_decimal(field, None)
        || floats::float64(field).is_some()
        || temporal::date(field).is_some()
        || temporal::timestamp_tz(field, true).is_some()
        || temporal::time(field).is_some()
}

/// The names in a header record.
pub fn header_names(record: &[u8], dialect: &Dialect) -> Result<Vec<String>> {
    fields_of(record, dialect)
        .into_iter()
        .map(|name| {
            String::from_utf8(name).map_err(|_| {
                Error::usage_with_hint("the header is not UTF-8", "name the file's --encoding")
            })
        })
        .collect()
}

/// Where the first record of data begins: bytes and lines before it. `None` where the header does
/// not end within the text.
pub fn data_start(first: &[u8], dialect: &Dialect, bom_bytes: usize) -> Option<(u64, u64)> {
    // What is shorter than a sample is the whole file.
    let is_whole = first.len() < crate::constants::SAMPLE_BYTES;
    let before = preamble(first, dialect, bom_bytes, is_whole)?;
    Some((before.bytes as u64, before.lines))
}
