//! Proposes how a file is written, from samples, and says so. What the job fixes is never overruled.
//!
//! [`samples`] reads; [`trial`] finds delimiter, quote and escape by cutting the text ([`cut`]) in all
//! ways that are likely; [`frame`] finds what stands around the records; [`header`] judges whether the
//! first line names the columns, by [`kind`]s of cells and by [`words`].

mod body;
pub mod cut;
pub mod frame;
pub mod header;
pub mod kind;
pub mod outline;
pub mod samples;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod words;

use std::path::Path;

pub(crate) use self::samples::UTF8_BOM;

use self::cut::{Cuts, Style};
use self::trial::Fixed;
use crate::error::{Error, Result};
use fullbore_parse::dialect::{Dialect, Family, FormatName, Header, LineEnd, Quotes, Ragged};

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

impl DialectHints {
    /// Gives a dialect what is fixed of it, but for its line ends, which a text may contradict.
    pub fn apply(&self, dialect: &mut Dialect) {
        if let Some(quote) = self.quote {
            (dialect.quote, dialect.escape) = (quote, quote);
        }
        if let Some(escape) = self.escape {
            dialect.escape = escape;
        }
        if let Some((null, more)) = self.nulls.split_first() {
            dialect.null.clone_from(null);
            dialect.more_nulls = more.to_vec();
        }
        if let Some((first, rest)) = self.delimiter.as_deref().and_then(<[u8]>::split_first) {
            dialect.delimiter = *first;
            dialect.delimiter_rest = rest.to_vec();
        }
        dialect.quotes = match dialect.family {
            Family::Csv => self.quotes.unwrap_or_else(|| Quotes::unless_given(self.format)),
            Family::Text | Family::Plain | Family::Json | Family::Fixed => {
                self.quotes.unwrap_or_default()
            }
        };
        dialect.ragged = self.ragged.unwrap_or_default();
        dialect.comment = self.comment;
        dialect.skip_lines = self.skip_lines.unwrap_or_default();
        dialect.skip_footer = self.skip_footer.unwrap_or_default();
        dialect.header = self.header.unwrap_or(Header::None);
    }
}

/// A dialect proposed, and what was guessed of it, in sentences.
#[derive(Debug, Clone)]
pub struct Sniffed {
    pub dialect: Dialect,
    pub notes: Vec<String>,
}

/// Rows from which a text is taken to be a `.tbl` file.
const TBL_ROWS: usize = 200;
/// Below this score no choice of delimiter makes even records of the text.
const POOR: f64 = 0.12;

/// Proposes a dialect for a file from its first text (without a byte order mark). Whether there is a
/// header is judged apart, since it depends on the target too.
pub fn sniff(
    sample: &[u8],
    sample_is_whole_file: bool,
    name: &Path,
    hints: &DialectHints,
) -> Result<Sniffed> {
    let mut notes = Vec::new();
    let extensions = extensions(name);
    let format = hints.format.or_else(|| format_by_name(&extensions));
    let is_tsv = format == Some(FormatName::Tsv);
    let mut dialect = match format {
        Some(FormatName::Tbl) => Dialect::tbl(),
        Some(FormatName::Text) => Dialect::text(),
        Some(FormatName::Tsv) if is_copy_text(sample) => {
            notes.push("read as COPY text, which its \\N or \\. shows it to be".to_owned());
            Dialect::text()
        }
        Some(FormatName::Tsv) => Dialect { delimiter: b'\t', ..Dialect::csv() },
        Some(FormatName::Csv | FormatName::Parquet | FormatName::Ndjson | FormatName::Fixed) => {
            Dialect::csv()
        }
        None if ends_with_delimiters(sample) => {
            notes.push("format tbl detected: each line ends with |".to_owned());
            Dialect::tbl()
        }
        None => Dialect::csv(),
    };
    hints.apply(&mut dialect);
    let fixed = Fixed {
        // A file that is tab-separated by its name is, if there are tabs in it.
        delimiter: hints
            .delimiter
            .clone()
            .or_else(|| (is_tsv && sample.contains(&b'\t')).then(|| b"\t".to_vec())),
        quote: hints.quote,
        escape: hints.escape.or(hints.quote),
        is_format: hints.format.is_some(),
    };
    choose(&mut dialect, sample, sample_is_whole_file, &fixed, hints.line_end, &mut notes);
    dialect.check().map_err(|sentence| {
        Error::usage_with_hint(sentence, "set --delimiter, --quote, --escape and --null apart")
    })?;
    Ok(Sniffed { dialect, notes })
}

/// Sets what is not fixed of delimiter, quote, escape and record ends to what suits the text best.
fn choose(
    dialect: &mut Dialect,
    sample: &[u8],
    is_whole: bool,
    fixed: &Fixed,
    line_end: Option<LineEnd>,
    notes: &mut Vec<String>,
) {
    let base = Style { is_lenient: false, ..Style::of(dialect) };
    let is_cr = |end: LineEnd| matches!(end, LineEnd::Cr | LineEnd::Mixed);
    let with = |cr_ends: bool| Style { cr_ends, ..base.clone() };
    let tried = |style: Style| match dialect.family {
        Family::Csv => trial::best(sample, is_whole, &style, fixed),
        Family::Text | Family::Plain | Family::Json | Family::Fixed => {
            let score = trial::score(&sample[..sample.len().min(64 * 1024)], is_whole, &style);
            (style, score)
        }
    };
    let (style, score) = match line_end {
        Some(end) => tried(with(is_cr(end))),
        None => match lone_returns(sample) {
            0 => tried(with(false)),
            returns if returns > memchr::memchr_iter(b'\n', sample).count() => tried(with(true)),
            _ => {
                let (lines, by_cr) = (tried(with(false)), tried(with(true)));
                if by_cr.1 > lines.1 { by_cr } else { lines }
            }
        },
    };
    dialect.line_end = line_end.unwrap_or_else(|| line_end_of(sample, is_whole, &style));
    if dialect.line_end == LineEnd::Cr || dialect.line_end == LineEnd::Mixed {
        notes.push(match dialect.line_end {
            LineEnd::Cr => "records end with CR".to_owned(),
            _ => "records end in several ways: LF, CRLF or CR".to_owned(),
        });
    }
    if dialect.family != Family::Csv {
        return;
    }
    let is_comma = style.delimiter == b",";
    let quote = style.quote.unwrap_or(dialect.quote);
    let mut found = Vec::new();
    if fixed.delimiter.is_none() && !is_comma && score >= POOR {
        found.push(format!("delimiter {}", shown(&style.delimiter)));
    }
    if fixed.quote.is_none() && quote != b'"' {
        found.push(format!("quote {}", shown(&[quote])));
    }
    if fixed.escape.is_none() && style.escape != quote {
        found.push(format!("escape {}", shown(&[style.escape])));
    }
    if fixed.delimiter.is_some() || score >= POOR {
        dialect.delimiter = style.delimiter[0];
        dialect.delimiter_rest = style.delimiter[1..].to_vec();
        (dialect.quote, dialect.escape) = (quote, style.escape);
        if !found.is_empty() {
            notes.push(format!("detected: {}", found.join(", ")));
        }
    }
}

/// Bytes as they are written in code.
pub fn shown(bytes: &[u8]) -> String {
    match bytes {
        [byte] => format!("{:?}", char::from(*byte)),
        more => format!("{:?}", String::from_utf8_lossy(more)),
    }
}

/// The names in a header record.
pub fn header_names(record: &[u8], dialect: &Dialect) -> Result<Vec<String>> {
    let cuts = Cuts::of(record, true, &Style::of(dialect), 1);
    let names = cuts.rows.first().map(|row| cuts.values(row)).unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            String::from_utf8(name.into_owned()).map_err(|_| {
                Error::usage_with_hint("the header is not UTF-8", "name the file's --encoding")
            })
        })
        .collect()
}

/// Carriage returns that no line feed follows.
fn lone_returns(text: &[u8]) -> usize {
    let returns = memchr::memchr_iter(b'\r', text);
    returns.filter(|at| text.get(at + 1).is_some_and(|next| *next != b'\n')).count()
}

/// What ends the records: of those within quotes nothing is said.
fn line_end_of(sample: &[u8], is_whole: bool, style: &Style) -> LineEnd {
    let cuts = Cuts::of(sample, is_whole, style, usize::MAX);
    line_end_of_rows(&cuts).unwrap_or(LineEnd::Lf)
}

/// What ends the rows, if anything does.
fn line_end_of_rows(cuts: &Cuts<'_>) -> Option<LineEnd> {
    let count = |end| cuts.rows.iter().filter(|row| row.end == Some(end)).count();
    let (lf, crlf, cr) = (count(LineEnd::Lf), count(LineEnd::CrLf), count(LineEnd::Cr));
    match (lf, crlf, cr) {
        (0, 0, 0) => None,
        (_, 0, 0) => Some(LineEnd::Lf),
        (0, _, 0) => Some(LineEnd::CrLf),
        (0, 0, _) => Some(LineEnd::Cr),
        _ => Some(LineEnd::Mixed),
    }
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

/// COPY's text format is proven by a field `\N` or by the end mark `\.`; backslashes alone are text.
fn is_copy_text(sample: &[u8]) -> bool {
    sample.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line == b"\\." || line.split(|byte| *byte == b'\t').any(|field| field == b"\\N")
    })
}

fn ends_with_delimiters(sample: &[u8]) -> bool {
    let Some(end) = memchr::memrchr(b'\n', sample) else { return false };
    let mut lines = sample[..end].split(|b| *b == b'\n').take(TBL_ROWS).peekable();
    lines.peek().is_some()
        && lines.all(|line| line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"|"))
}
