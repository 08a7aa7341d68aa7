//! Text cut into rows and cells, for guessing: faster than the reference, and forgiving.
//!
//! A quote opens a cell at its beginning only, whatever the dialect says of quotes, and one that is
//! never closed is a character like any other: so that a wrong guess at the dialect costs some cells
//! and not the rest of the sample.

use std::borrow::Cow;
use std::ops::Range;

use fullbore_parse::dialect::{Dialect, Family, LineEnd, Quotes};
use fullbore_parse::text;

/// How the text is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    pub delimiter: Vec<u8>,
    pub quote: Option<u8>,
    /// What makes a quote within quotes literal; the quote itself where it is doubled.
    pub escape: u8,
    /// A quote opens anywhere, as COPY has it.
    pub is_lenient: bool,
    /// Backslashes escape; there are no quotes.
    pub is_copy_text: bool,
    /// A carriage return alone ends a record.
    pub cr_ends: bool,
    /// Each record has one delimiter more.
    pub is_trailing: bool,
    pub comment: Option<u8>,
}

impl Style {
    pub fn of(dialect: &Dialect) -> Self {
        Self {
            delimiter: dialect.whole_delimiter(),
            quote: (dialect.family == Family::Csv).then_some(dialect.quote),
            escape: dialect.escape,
            is_lenient: dialect.quotes == Quotes::Lenient,
            is_copy_text: dialect.family == Family::Text,
            cr_ends: matches!(dialect.line_end, LineEnd::Cr | LineEnd::Mixed),
            is_trailing: dialect.trailing_delimiter,
            comment: dialect.comment,
        }
    }
}

/// A cell: where it stands, its quotes left out.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    start: u32,
    end: u32,
    /// It stood in quotes that opened and closed it.
    pub is_quoted: bool,
    /// It has quotes where they should not be, or such as must be decoded.
    has_quotes: bool,
    /// A quote that opened was not closed before a delimiter or a record's end.
    pub is_unsound: bool,
}

/// A record, a blank line or a comment.
#[derive(Debug, Clone)]
pub struct Row {
    /// Where it stands in the text, its line end included.
    pub range: Range<usize>,
    /// Lines before it.
    pub line: u64,
    /// Its cells among those of all rows.
    cells: Range<usize>,
    pub is_comment: bool,
    pub is_blank: bool,
    /// What ended it, if anything did.
    pub end: Option<LineEnd>,
}

impl Row {
    /// Cells in it; a blank line and a comment have none.
    pub fn width(&self) -> usize {
        if self.is_blank || self.is_comment { 0 } else { self.cells.len() }
    }
}

/// The rows of a text.
#[derive(Debug, Clone)]
pub struct Cuts<'a> {
    text: &'a [u8],
    pub rows: Vec<Row>,
    cells: Vec<Cell>,
    dialect: Dialect,
}

impl<'a> Cuts<'a> {
    /// Cuts text into rows, at most so many; what no record end ends counts only if the text is whole.
    pub fn of(text: &'a [u8], is_whole: bool, style: &Style, rows_max: usize) -> Self {
        let mut dialect = if style.is_copy_text { Dialect::text() } else { Dialect::csv() };
        if let Some(quote) = style.quote {
            (dialect.quote, dialect.escape) = (quote, style.escape);
        }
        let mut cuts = Self { text, rows: Vec::new(), cells: Vec::new(), dialect };
        let (mut at, mut line) = (0, 0);
        while at < text.len() && cuts.rows.len() < rows_max {
            let first = cuts.cells.len();
            let is_comment = style.comment == Some(text[at]);
            let (after, end) =
                if is_comment { line_after(text, at, style) } else { cuts.record(at, style) };
            if end.is_none() && !is_whole {
                cuts.cells.truncate(first);
                break;
            }
            let content = &text[at..after];
            let is_blank =
                content.iter().all(u8::is_ascii_whitespace) && cuts.cells.len() - first <= 1;
            if style.is_trailing && cuts.cells.len() > first + 1 {
                let last = cuts.cells[cuts.cells.len() - 1];
                if last.start == last.end {
                    cuts.cells.pop();
                }
            }
            cuts.rows.push(Row {
                range: at..after,
                line,
                cells: first..cuts.cells.len(),
                is_comment,
                is_blank,
                end,
            });
            line += lines_in(content, style);
            at = after;
        }
        cuts
    }

    /// Takes one record from a place; gives where the next begins, and what ended it.
    fn record(&mut self, mut at: usize, style: &Style) -> (usize, Option<LineEnd>) {
        loop {
            let (cell, after) = self.cell(at, style);
            self.cells.push(cell);
            if self.text[after..].starts_with(&style.delimiter) {
                at = after + style.delimiter.len();
                continue;
            }
            return ended(self.text, after, style);
        }
    }

    /// One cell, and where it ends.
    fn cell(&self, start: usize, style: &Style) -> (Cell, usize) {
        let text = self.text;
        let cell = |start: usize, end: usize| Cell {
            start: start as u32,
            end: end as u32,
            is_quoted: false,
            has_quotes: false,
            is_unsound: false,
        };
        if style.is_copy_text {
            let mut at = start;
            while at < text.len() && !is_cell_end(text, at, style) {
                at += if text[at] == b'\\' { 2 } else { 1 };
            }
            let at = at.min(text.len());
            return (Cell { has_quotes: true, ..cell(start, at) }, at);
        }
        let opens = style.quote.is_some_and(|quote| text.get(start) == Some(&quote));
        if !opens {
            let end = cell_end(text, start, style);
            let has_quotes =
                style.quote.is_some_and(|quote| memchr::memchr(quote, &text[start..end]).is_some());
            if has_quotes && style.is_lenient {
                return self.lenient(start, style);
            }
            return (cell(start, end), end);
        }
        let quote = text[start];
        let mut at = start + 1;
        let mut has_quotes = false;
        while let Some(found) = memchr::memchr2(quote, style.escape, &text[at..]) {
            let here = at + found;
            let next = text.get(here + 1).copied();
            let escapes = text[here] == style.escape
                && next.is_some_and(|next| next == quote || next == style.escape);
            if escapes {
                has_quotes = true;
                at = here + 2;
                continue;
            }
            if text[here] != quote {
                at = here + 1;
                continue;
            }
            if here + 1 >= text.len() || is_cell_end(text, here + 1, style) {
                let inner = Cell { is_quoted: true, has_quotes, ..cell(start + 1, here) };
                return (inner, here + 1);
            }
            break;
        }
        if style.is_lenient {
            return self.lenient(start, style);
        }
        // Nothing closes it where it should be closed.
        let end = cell_end(text, start, style);
        (Cell { is_unsound: true, ..cell(start, end) }, end)
    }

    /// A cell by COPY's rule, each quote opening or closing; one that runs to the text's end ends with
    /// its line.
    fn lenient(&self, start: usize, style: &Style) -> (Cell, usize) {
        let quote = style.quote.unwrap_or(b'"');
        let (mut at, mut inside, mut escaped) = (start, false, false);
        while at < self.text.len() {
            let byte = self.text[at];
            if inside && style.escape != quote && byte == style.escape {
                escaped = !escaped;
            } else {
                inside ^= byte == quote && !escaped;
                escaped = false;
            }
            if !inside && byte != quote && is_cell_end(self.text, at, style) {
                break;
            }
            at += 1;
        }
        let end = if inside { cell_end(self.text, start, style) } else { at };
        let cell = Cell {
            start: start as u32,
            end: end as u32,
            is_quoted: false,
            has_quotes: !inside,
            is_unsound: inside,
        };
        (cell, end)
    }

    pub fn cells(&self, row: &Row) -> &[Cell] {
        &self.cells[row.cells.clone()]
    }

    /// What stands in a cell, its quotes and escapes taken off.
    pub fn value(&self, cell: &Cell) -> Cow<'a, [u8]> {
        let raw = &self.text[cell.start as usize..cell.end as usize];
        if !cell.has_quotes {
            return Cow::Borrowed(raw);
        }
        let mut value = Vec::new();
        if cell.is_quoted {
            let (quote, escape) = (self.dialect.quote, self.dialect.escape);
            let mut bytes = raw.iter().copied().peekable();
            while let Some(byte) = bytes.next() {
                let next = bytes.peek().copied();
                match next {
                    Some(next) if byte == escape && (next == quote || next == escape) => {
                        value.extend(bytes.next());
                    }
                    _ => value.push(byte),
                }
            }
        } else {
            text::decode(raw, &self.dialect, &mut value);
        }
        Cow::Owned(value)
    }

    /// The bytes of a cell as they stand there.
    pub fn raw(&self, cell: &Cell) -> &'a [u8] {
        &self.text[cell.start as usize..cell.end as usize]
    }

    pub fn values(&self, row: &Row) -> Vec<Cow<'a, [u8]>> {
        self.cells(row).iter().map(|cell| self.value(cell)).collect()
    }

    /// A row as it stands, its line end included.
    pub fn whole_line(&self, row: &Row) -> &'a [u8] {
        &self.text[row.range.clone()]
    }

    /// Bytes of the text.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// The value of a cell; none where it is one of the NULL strings, unquoted.
    pub fn field<'n>(
        &self,
        cell: &Cell,
        mut nulls: impl Iterator<Item = &'n [u8]>,
    ) -> Option<Cow<'a, [u8]>> {
        let raw = self.raw(cell);
        let is_null = !cell.is_quoted && nulls.any(|null| null == raw);
        (!is_null).then(|| self.value(cell))
    }

    /// A row as it stands, without its line end.
    pub fn line(&self, row: &Row) -> &'a [u8] {
        let line = &self.text[row.range.clone()];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }
}

fn is_line_end(text: &[u8], at: usize, style: &Style) -> bool {
    match text[at] {
        b'\n' => true,
        b'\r' => style.cr_ends || text.get(at + 1).is_none_or(|next| *next == b'\n'),
        _ => false,
    }
}

fn is_cell_end(text: &[u8], at: usize, style: &Style) -> bool {
    is_line_end(text, at, style) || text[at..].starts_with(&style.delimiter)
}

/// Where an unquoted cell ends.
fn cell_end(text: &[u8], start: usize, style: &Style) -> usize {
    let mut at = start;
    let first = style.delimiter[0];
    while let Some(found) = memchr::memchr3(first, b'\n', b'\r', &text[at..]) {
        if is_cell_end(text, at + found, style) {
            return at + found;
        }
        at += found + 1;
    }
    text.len()
}

/// Where what follows a record's last cell begins, and what ended it.
fn ended(text: &[u8], at: usize, style: &Style) -> (usize, Option<LineEnd>) {
    match text.get(at) {
        Some(b'\n') => (at + 1, Some(LineEnd::Lf)),
        Some(b'\r') if text.get(at + 1) == Some(&b'\n') => (at + 2, Some(LineEnd::CrLf)),
        Some(b'\r') if style.cr_ends => (at + 1, Some(LineEnd::Cr)),
        _ => (text.len(), None),
    }
}

fn line_after(text: &[u8], at: usize, style: &Style) -> (usize, Option<LineEnd>) {
    let mut end = at;
    while end < text.len() && !is_line_end(text, end, style) {
        end += 1;
    }
    ended(text, end, style)
}

/// Line ends in a text; where carriage returns end lines, they count too.
fn lines_in(text: &[u8], style: &Style) -> u64 {
    let feeds = memchr::memchr_iter(b'\n', text).count();
    if !style.cr_ends {
        return feeds as u64;
    }
    let returns = memchr::memchr_iter(b'\r', text).filter(|at| text.get(at + 1) != Some(&b'\n'));
    (feeds + returns.count()) as u64
}
