//! How delimited text is written: the dialect.
//!
//! The rules are PostgreSQL's COPY's own, in its two families: `csv` (quotes) and `text`
//! (backslashes); a third, `plain`, knows neither and is what TPC-H's `.tbl` files are.

use serde::{Deserialize, Serialize};

/// The family of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Quotes protect delimiters and line ends; as COPY's `FORMAT csv`.
    Csv,
    /// Backslash sequences; as COPY's `FORMAT text`.
    Text,
    /// Nothing is special but delimiter and line end.
    Plain,
}

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnd {
    Lf,
    CrLf,
}

/// What the first record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Header {
    /// Data: there is no header.
    None,
    /// A header: columns are matched by its names.
    True,
    /// A header whose names must be the columns', in their order.
    Match,
}

/// How delimited text is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    pub family: Family,
    pub delimiter: u8,
    /// The quote character; only `csv` has one.
    pub quote: u8,
    /// What makes a quote inside quotes literal; the quote itself unless said otherwise.
    pub escape: u8,
    /// What an unquoted field must be to be NULL.
    pub null: Vec<u8>,
    pub line_end: LineEnd,
    pub header: Header,
    /// Each record ends with one more delimiter, as TPC-H's dbgen writes it.
    pub trailing_delimiter: bool,
}

impl Dialect {
    /// `COPY ... (FORMAT csv)`.
    pub fn csv() -> Self {
        Self {
            family: Family::Csv,
            delimiter: b',',
            quote: b'"',
            escape: b'"',
            null: Vec::new(),
            line_end: LineEnd::Lf,
            header: Header::None,
            trailing_delimiter: false,
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

    /// Checks that the bytes can be told apart; the sentence says which two clash.
    pub fn check(&self) -> Result<(), String> {
        let name = |b: u8| format!("{:?}", b as char);
        let special = |b: u8| b == b'\n' || b == b'\r' || b == 0 || b >= 0x80;
        if special(self.delimiter) {
            return Err(format!(
                "the delimiter must be one ASCII byte, not {}",
                name(self.delimiter)
            ));
        }
        if self.family == Family::Csv {
            if special(self.quote) || special(self.escape) {
                return Err(
                    "quote and escape must each be one ASCII byte other than a line end".into()
                );
            }
            if self.quote == self.delimiter {
                return Err(format!("delimiter and quote are both {}", name(self.quote)));
            }
            if self.null.contains(&self.quote) {
                return Err("the NULL string must not contain the quote".into());
            }
        }
        if self.family == Family::Text
            && (self.delimiter == b'\\'
                || self.delimiter == b'.'
                || self.delimiter.is_ascii_alphanumeric())
        {
            return Err(format!("{} can't be a delimiter in text format", name(self.delimiter)));
        }
        if self.null.contains(&self.delimiter) {
            return Err("the NULL string must not contain the delimiter".into());
        }
        if self.null.iter().any(|b| *b == b'\n' || *b == b'\r') {
            return Err("the NULL string must not contain a line end".into());
        }
        Ok(())
    }

    /// Whether a quote inside quotes is doubled rather than escaped by another character.
    pub fn quote_is_doubled(&self) -> bool {
        self.escape == self.quote
    }
}
