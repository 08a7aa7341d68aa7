//! How delimited text is written: the dialect.
//!
//! The rules are PostgreSQL's COPY's own, in its two families: `csv` (quotes) and `text`
//! (backslashes); a third, `plain`, knows neither and is what TPC-H's `.tbl` files are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The formats that can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FormatName {
    Csv,
    Tsv,
    /// COPY's text format.
    Text,
    Tbl,
    /// Fields by their places in the line.
    Fixed,
    /// One JSON object a line.
    Ndjson,
    Parquet,
}

/// The family of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Quotes protect delimiters and line ends; as COPY's `FORMAT csv`.
    Csv,
    /// Backslash sequences; as COPY's `FORMAT text`.
    Text,
    /// Nothing is special but delimiter and line end.
    Plain,
    /// One JSON object a line: fields are found by their keys.
    Json,
    /// Fields are found by their places in the line.
    Fixed,
}

/// What ends a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineEnd {
    #[default]
    Lf,
    CrLf,
    /// CR alone, as COPY accepts it where the first record ends so.
    Cr,
    /// Any of the three; COPY refuses such files.
    Mixed,
}

impl LineEnd {
    /// What is put after a last record that has no end.
    pub fn written(self) -> &'static [u8] {
        match self {
            Self::Lf | Self::Mixed => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }

    /// Whether a text ends where a line does.
    pub fn ends(self, text: &[u8]) -> bool {
        match text.last() {
            Some(b'\n') => self != Self::Cr,
            Some(b'\r') => matches!(self, Self::Cr | Self::Mixed),
            _ => false,
        }
    }

    /// The ends of lines in a text, quoted ones too.
    pub fn count(self, text: &[u8]) -> u64 {
        let line_feeds = || memchr::memchr_iter(b'\n', text).count() as u64;
        let returns = || memchr::memchr_iter(b'\r', text).count() as u64;
        match self {
            Self::Lf | Self::CrLf => line_feeds(),
            Self::Cr => returns(),
            Self::Mixed => {
                let pairs = memchr::memmem::find_iter(text, b"\r\n").count() as u64;
                line_feeds() + returns() - pairs
            }
        }
    }

    /// Where the line that a place is in ends, its end included; `None` where the text does not tell,
    /// which `is_whole` says nothing follows.
    pub fn after(self, text: &[u8], place: usize, is_whole: bool) -> Option<usize> {
        let rest = &text[place..];
        let found = match self {
            Self::Lf | Self::CrLf => memchr::memchr(b'\n', rest),
            Self::Cr => memchr::memchr(b'\r', rest),
            Self::Mixed => memchr::memchr2(b'\n', b'\r', rest),
        };
        let Some(at) = found else { return is_whole.then_some(text.len()) };
        let end = place + at + 1;
        if self != Self::Mixed || rest[at] == b'\n' {
            return Some(end);
        }
        match text.get(end) {
            Some(b'\n') => Some(end + 1),
            Some(_) => Some(end),
            // Whether a line feed belongs to it is not known yet.
            None => is_whole.then_some(end),
        }
    }
}

/// Where a quote opens a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quotes {
    /// Anywhere: each quote opens or closes. COPY's own rule.
    #[default]
    Lenient,
    /// At the beginning of a field only; elsewhere in an unquoted field a quote stands for itself. What
    /// follows the closing quote must be a delimiter or a record end.
    Strict,
}

impl Quotes {
    /// The rule where the job names none: COPY's where the job says that the text is COPY's, else the
    /// strict one, under which a stray quote cannot take in the records that follow it.
    pub fn unless_given(format: Option<FormatName>) -> Self {
        if format.is_some() { Self::Lenient } else { Self::Strict }
    }
}

/// What becomes of a record with fewer or more fields than it should have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ragged {
    /// It is rejected.
    #[default]
    Reject,
    /// Missing fields are NULL; one with more fields is rejected.
    Pad,
    /// Further fields are dropped; one with fewer fields is rejected.
    Cut,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What the first record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// Data: there is no header.
    None,
    /// A header: columns are matched by its names.
    True,
    /// A header whose names must be the columns', in their order.
    Match,
    /// A header that is passed over, whatever it says: fields are matched by their places.
    Skip,
}

impl Header {
    /// Whether the first record names the fields.
    pub fn names_fields(self) -> bool {
        matches!(self, Self::True | Self::Match)
    }
}

/// They wait in memory until it is known that nothing follows them.
const SKIP_FOOTER_MAX: u64 = 10_000;

/// How delimited text is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    pub family: Family,
    pub delimiter: u8,
    /// The delimiter's bytes after its first; nearly always none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delimiter_rest: Vec<u8>,
    /// The quote character; only `csv` has one.
    pub quote: u8,
    /// What makes a quote inside quotes literal; the quote itself unless said otherwise.
    pub escape: u8,
    /// What an unquoted field must be to be NULL.
    pub null: Vec<u8>,
    /// Further strings that are NULL too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more_nulls: Vec<Vec<u8>>,
    pub line_end: LineEnd,
    pub header: Header,
    /// Each record ends with one more delimiter, as TPC-H's dbgen writes it.
    pub trailing_delimiter: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub quotes: Quotes,
    #[serde(default, skip_serializing_if = "is_default")]
    pub ragged: Ragged,
    /// Lines that begin with this byte, outside quotes, are no records.
    #[serde(default, skip_serializing_if = "is_default")]
    pub comment: Option<u8>,
    /// Lines at the beginning of each file, before its header, that are passed over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_lines: u64,
    /// Lines at the end of each file that are passed over; blank ones after and between them are not
    /// counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_footer: u64,
    /// Characters of each field, where these are found by their places.
    #[serde(default, skip_serializing_if = "is_default")]
    pub widths: Vec<usize>,
}

impl Dialect {
    /// `COPY ... (FORMAT csv)`.
    pub fn csv() -> Self {
        Self {
            family: Family::Csv,
            delimiter: b',',
            delimiter_rest: Vec::new(),
            quote: b'"',
            escape: b'"',
            null: Vec::new(),
            more_nulls: Vec::new(),
            line_end: LineEnd::Lf,
            header: Header::None,
            trailing_delimiter: false,
            quotes: Quotes::Lenient,
            ragged: Ragged::Reject,
            comment: None,
            skip_lines: 0,
            skip_footer: 0,
            widths: Vec::new(),
        }
    }

    /// `COPY ... (FORMAT text)`: tab separated, `\N` is NULL.
    pub fn text() -> Self {
        Self { family: Family::Text, delimiter: b'\t', null: b"\\N".to_vec(), ..Self::csv() }
    }

    /// TPC-H's `.tbl`: fields end with `|`, nothing is quoted, an empty field is NULL.
    pub fn tbl() -> Self {
        Self { family: Family::Plain, delimiter: b'|', trailing_delimiter: true, ..Self::csv() }
    }

    /// One JSON object a line.
    pub fn json() -> Self {
        Self { family: Family::Json, ..Self::csv() }
    }

    /// Fixed-width text: characters of each field. Nothing is NULL but what is blank.
    pub fn fixed(widths: Vec<usize>) -> Self {
        Self { family: Family::Fixed, widths, ..Self::csv() }
    }

    /// Checks that the bytes can be told apart; the sentence says which two clash.
    pub fn check(&self) -> Result<(), String> {
        let name = |b: u8| format!("{:?}", b as char);
        let special = |b: u8| b == b'\n' || b == b'\r' || b == 0 || b >= 0x80;
        let delimiter = self.whole_delimiter();
        if let [one] = delimiter.as_slice()
            && special(*one)
        {
            return Err(format!(
                "the delimiter must be one ASCII byte, or several, not {}",
                name(*one)
            ));
        }
        if delimiter.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
            return Err("the delimiter must not contain a line end".into());
        }
        if self.family == Family::Csv {
            if special(self.quote) || special(self.escape) {
                return Err(
                    "quote and escape must each be one ASCII byte other than a line end".into()
                );
            }
            if delimiter == [self.quote] {
                return Err(format!("delimiter and quote are both {}", name(self.quote)));
            }
            if delimiter.contains(&self.quote) || delimiter.contains(&self.escape) {
                return Err("the delimiter must not contain the quote or the escape".into());
            }
            if self.nulls().any(|null| null.contains(&self.quote)) {
                return Err("the NULL string must not contain the quote".into());
            }
        }
        if self.family != Family::Csv && self.quotes == Quotes::Strict {
            return Err("--quotes strict is for CSV; the other formats have no quotes".into());
        }
        if self.family == Family::Text && !self.delimiter_rest.is_empty() {
            return Err("text format has delimiters of one byte".into());
        }
        if self.family == Family::Text
            && (self.delimiter == b'\\'
                || self.delimiter == b'.'
                || self.delimiter.is_ascii_alphanumeric())
        {
            return Err(format!("{} can't be a delimiter in text format", name(self.delimiter)));
        }
        if self.nulls().any(|null| self.is_delimiter_in(null)) {
            return Err("the NULL string must not contain the delimiter".into());
        }
        if self.nulls().flatten().any(|b| *b == b'\n' || *b == b'\r') {
            return Err("the NULL string must not contain a line end".into());
        }
        if self.skip_footer > SKIP_FOOTER_MAX {
            return Err(format!("--skip-footer can be at most {SKIP_FOOTER_MAX}"));
        }
        if let Some(comment) = self.comment {
            if special(comment) {
                return Err("--comment must be one ASCII byte other than a line end".into());
            }
            if comment == self.delimiter || self.family == Family::Csv && comment == self.quote {
                return Err(format!(
                    "{} begins comments and is a delimiter or quote too",
                    name(comment)
                ));
            }
        }
        Ok(())
    }

    /// All strings that are NULL where a field is nothing else.
    pub fn nulls(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.null.as_slice()).chain(self.more_nulls.iter().map(Vec::as_slice))
    }

    /// The delimiter, all of its bytes.
    pub fn whole_delimiter(&self) -> Vec<u8> {
        [&[self.delimiter], self.delimiter_rest.as_slice()].concat()
    }

    fn is_delimiter_in(&self, text: &[u8]) -> bool {
        memchr::memmem::find(text, &self.whole_delimiter()).is_some()
    }

    /// Whether a short record may become a row of many columns.
    pub fn pads_records(&self) -> bool {
        self.ragged == Ragged::Pad || matches!(self.family, Family::Json | Family::Fixed)
    }

    /// Whether line feeds and the parity of quotes tell records apart in any text.
    pub fn is_told_by_parity(&self) -> bool {
        self.delimiter_rest.is_empty()
            && self.comment.is_none()
            && matches!(self.line_end, LineEnd::Lf | LineEnd::CrLf)
            && (self.family != Family::Csv || self.quotes == Quotes::Lenient)
    }

    /// Whether they do in text whose quotes all stand where they should.
    pub fn is_often_told_by_parity(&self) -> bool {
        let lenient = Self { quotes: Quotes::Lenient, ..self.clone() };
        lenient.is_told_by_parity() && self.quote_is_doubled()
    }

    /// Whether a quote inside quotes is doubled rather than escaped by another character.
    pub fn quote_is_doubled(&self) -> bool {
        self.escape == self.quote
    }
}
