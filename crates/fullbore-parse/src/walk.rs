//! Walks records byte by byte: the exact way for text that the index is not made for.
//!
//! The index finds record ends by quote parity and one byte. It does not support CR or mixed line ends,
//! delimiters of several bytes, comments, or quotes in unexpected places. Such text is walked, both to cut
//! and to parse it; the result does not depend on the cuts.

use std::ops::Range;

use super::dialect::{Dialect, Family, LineEnd, Quotes};
use super::rows::FaultReason;

/// What stands in a text from one place to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A record; its fields are in the walker.
    Record,
    /// A line that is no record by the dialect's rule for comments.
    Comment,
    /// A record that can't be a row. Under strict quotes, where a field has no proper end, only the
    /// lines up to the one in which that field begins.
    Fault(FaultReason),
}

/// What a byte may be.
const DELIMITER: u8 = 1;
const LINE_FEED: u8 = 2;
const RETURN: u8 = 3;
const QUOTE: u8 = 4;
const BACKSLASH: u8 = 5;

/// Walks texts of one dialect.
pub struct Walker<'a> {
    dialect: &'a Dialect,
    delimiter: Vec<u8>,
    classes: [u8; 256],
    is_strict: bool,
    /// Where the fields of the record last found stand, quotes included.
    pub fields: Vec<Range<usize>>,
}

/// How the record that is walked ends.
enum End {
    /// Its last field ends here; then its own end.
    At(usize, usize),
    /// Not here: the byte stands bare in it.
    Bare,
    /// The text does not tell.
    Open,
}

impl<'a> Walker<'a> {
    pub fn new(dialect: &'a Dialect) -> Self {
        let mut classes = [0; 256];
        classes[usize::from(dialect.delimiter)] = DELIMITER;
        classes[usize::from(b'\n')] = LINE_FEED;
        classes[usize::from(b'\r')] = RETURN;
        let is_strict = dialect.family == Family::Csv && dialect.quotes == Quotes::Strict;
        match dialect.family {
            Family::Csv if !is_strict => classes[usize::from(dialect.quote)] = QUOTE,
            Family::Text => classes[usize::from(b'\\')] = BACKSLASH,
            Family::Csv | Family::Plain | Family::Json | Family::Fixed => {}
        }
        let delimiter = dialect.whole_delimiter();
        Self { dialect, delimiter, classes, is_strict, fields: Vec::new() }
    }

    /// What begins at `from`, where a record may begin, and where it ends; `None` where the text ends
    /// before it does. A text that `is_whole` is followed by nothing: then its end is that of its last
    /// record too.
    ///
    /// # Panics
    /// If nothing stands there.
    pub fn next(&mut self, text: &[u8], from: usize, is_whole: bool) -> Option<(Found, usize)> {
        self.fields.clear();
        if self.dialect.comment == Some(text[from]) {
            let end = self.dialect.line_end.after(text, from, is_whole)?;
            return Some((Found::Comment, end));
        }
        let mut fault = None;
        let mut start = from;
        loop {
            let mut place = start;
            if self.is_strict && text.get(place) == Some(&self.dialect.quote) {
                match self.closed(text, place + 1) {
                    Some(end) => place = end,
                    None if is_whole => {
                        return self.lost(text, start, FaultReason::UnterminatedQuote, is_whole);
                    }
                    None => return None,
                }
                let end = self.end_at(text, place, from, is_whole);
                let is_delimited = text[place..].starts_with(&self.delimiter);
                if !is_delimited && matches!(end, None | Some(End::Bare)) {
                    // What stands at the end of the text may be the beginning of a delimiter.
                    let is_open = !is_whole && self.delimiter.starts_with(&text[place..]);
                    let reason = match text[place] {
                        _ if is_open => return None,
                        b'\r' => FaultReason::CarriageReturn,
                        b'\n' => FaultReason::LineFeed,
                        _ => FaultReason::DataAfterQuote,
                    };
                    return self.lost(text, start, reason, is_whole);
                }
            }
            // To the end of the field.
            let end = loop {
                match text.get(place).map(|byte| self.classes[usize::from(*byte)]) {
                    Some(0) => place += 1,
                    Some(DELIMITER) if text[place..].starts_with(&self.delimiter) => {
                        self.fields.push(start..place);
                        start = place + self.delimiter.len();
                        break None;
                    }
                    Some(DELIMITER) => place += 1,
                    Some(BACKSLASH)
                        if is_whole && is_last_end_escaped(text, place, self.dialect) =>
                    {
                        return Some((Found::Fault(FaultReason::Unterminated), text.len()));
                    }
                    Some(BACKSLASH) => place = (place + 2).min(text.len()),
                    Some(QUOTE) => match self.closed(text, place + 1) {
                        Some(end) => place = end,
                        None if is_whole => {
                            let fault = Found::Fault(FaultReason::UnterminatedQuote);
                            return Some((fault, text.len()));
                        }
                        None => return None,
                    },
                    Some(_) | None => match self.end_at(text, place, from, is_whole)? {
                        End::At(field_end, end) => break Some((field_end.max(start), end)),
                        End::Bare => {
                            let reason = match text[place] {
                                b'\n' => FaultReason::LineFeed,
                                _ => FaultReason::CarriageReturn,
                            };
                            fault.get_or_insert(reason);
                            place += 1;
                        }
                        End::Open => return None,
                    },
                }
            };
            if let Some((field_end, end)) = end {
                self.fields.push(start..field_end);
                let is_crlf = self.dialect.line_end == LineEnd::CrLf;
                if is_crlf && !text[from..end].ends_with(b"\r\n") {
                    fault = Some(FaultReason::LineFeed);
                }
                return Some((fault.map_or(Found::Record, Found::Fault), end));
            }
        }
    }

    /// Behind the quote that closes what was opened before `from`.
    fn closed(&self, text: &[u8], from: usize) -> Option<usize> {
        let Dialect { quote, escape, .. } = *self.dialect;
        let mut place = from;
        loop {
            place += memchr::memchr2(quote, escape, text.get(place..)?)?;
            let next = text.get(place + 1);
            if quote == escape {
                if next != Some(&quote) {
                    return Some(place + 1);
                }
                place += 2;
            } else if text[place] == quote {
                return Some(place + 1);
            } else {
                // An escape makes one quote literal, or one escape.
                place +=
                    1 + usize::from(next.is_some_and(|next| *next == quote || *next == escape));
            }
        }
    }

    /// Whether the record ends at a place; `None` where nothing there can end one.
    fn end_at(&self, text: &[u8], place: usize, from: usize, is_whole: bool) -> Option<End> {
        let line_end = self.dialect.line_end;
        Some(match text.get(place) {
            None if is_whole => End::At(place, place),
            None => End::Open,
            Some(b'\n') => match line_end {
                LineEnd::Lf | LineEnd::Mixed => End::At(place, place + 1),
                LineEnd::CrLf => {
                    let has_return = text[from..place].ends_with(b"\r");
                    End::At(place - usize::from(has_return), place + 1)
                }
                LineEnd::Cr => End::Bare,
            },
            Some(b'\r') => match (line_end, text.get(place + 1)) {
                (LineEnd::Cr, _) => End::At(place, place + 1),
                (LineEnd::Lf, _) => End::Bare,
                (LineEnd::CrLf | LineEnd::Mixed, None) if !is_whole => End::Open,
                (LineEnd::CrLf | LineEnd::Mixed, Some(b'\n')) => End::At(place, place + 2),
                (LineEnd::Mixed, _) => End::At(place, place + 1),
                (LineEnd::CrLf, _) => End::Bare,
            },
            Some(_) => return None,
        })
    }

    /// A field that begins at `start` has no proper end: its line is lost, and what stands before it in
    /// its record.
    fn lost(
        &self,
        text: &[u8],
        start: usize,
        reason: FaultReason,
        is_whole: bool,
    ) -> Option<(Found, usize)> {
        let end = self.dialect.line_end.after(text, start, is_whole)?;
        Some((Found::Fault(reason), end))
    }
}

/// Whether the backslash at a place escapes the very end of the last line.
fn is_last_end_escaped(text: &[u8], place: usize, dialect: &Dialect) -> bool {
    place + 2 == text.len() && dialect.line_end.ends(text)
}
