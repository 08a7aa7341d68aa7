//! The findings for one file: its first line, and where its table begins and ends.

use fullbore_parse::dialect::{Dialect, Header, LineEnd};

use super::cut::{Cuts, Row, Style};
use super::frame::{COMMENT, Frame, Given, Trouble, frame};
use super::header::Verdict;
use super::line_end_of_rows as line_end;
use super::samples::Samples;

/// A place in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub bytes: u64,
    /// Lines before it.
    pub lines: u64,
}

impl Place {
    fn plus(self, bytes: usize, lines: u64) -> Self {
        Self { bytes: self.bytes + bytes as u64, lines: self.lines + lines }
    }
}

/// What was found of one file.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// Where the table begins, with its header if it has one.
    pub table: Place,
    /// Where the records begin if the first line is a header.
    pub records: Place,
    /// The fields of the first line.
    pub names: Vec<Vec<u8>>,
    /// The first line as it stands, its line end included.
    pub first_line: Vec<u8>,
    /// Lines of the header, if it is one.
    pub header_lines: u64,
    pub verdict: Option<Verdict>,
    /// Fields of a record; none where no record was seen.
    pub fields: Option<usize>,
    /// The lines before the table, and those of the header, as they stand.
    pub preamble_text: Vec<u8>,
    pub header_text: Vec<u8>,
    /// The first of the lines before the table that is not blank.
    pub preamble: Option<String>,
    /// Lines at the end that are no records, and where they begin.
    pub footer_lines: u64,
    pub footer: Option<(u64, String)>,
    pub comment: Option<u8>,
    /// Records begin with what would be a comment sign.
    pub has_tags: bool,
    /// What ends its records.
    pub line_end: Option<LineEnd>,
    pub trouble: Option<Trouble>,
    /// Whether the whole first line was seen.
    pub is_complete: bool,
    /// Whether there is a record below the first line.
    pub has_records: bool,
}

impl Outline {
    /// Of a file with nothing in it.
    pub fn of_nothing(bom_bytes: usize) -> Self {
        let start = Place { bytes: bom_bytes as u64, lines: 0 };
        Self { table: start, records: start, is_complete: true, ..Self::default() }
    }

    /// Where the records begin.
    pub fn start(&self, header: Header) -> Place {
        if header == Header::None { self.table } else { self.records }
    }

    /// What stands before the records and must stand before rejected ones, so that they can be loaded as
    /// their file was: the header, and before it what the job skips.
    pub fn before_records(&self, header: Header, skips_lines: bool) -> Vec<u8> {
        let mut text = if skips_lines { self.preamble_text.clone() } else { Vec::new() };
        if header != Header::None {
            text.extend_from_slice(&self.header_text);
        }
        text
    }
}

/// Whether lines that begin with a comment sign are records in a file, if it is judged by itself.
pub fn has_tags(samples: &Samples, dialect: &Dialect, size: u64, given: Given) -> bool {
    let begins = samples.text().first() == Some(&COMMENT);
    if !begins && memchr::memmem::find(samples.text(), b"\n#").is_none() {
        return false;
    }
    let by_itself = Dialect { comment: None, ..dialect.clone() };
    outline(&mut samples.clone(), &by_itself, size, given).has_tags
}

/// What was found of a file. Cuts what is no record off its samples.
pub fn outline(samples: &mut Samples, dialect: &Dialect, size: u64, given: Given) -> Outline {
    let mut style = Style::of(dialect);
    if let Some(lines) = given.skip_lines {
        samples.skip(lines, dialect.line_end);
    }
    samples.open_quotes(&style);
    let (mut head, mut rest) = samples.cut(&style);
    let mut found = frame(&head, &rest, samples.has_end, given);
    if let Some(comment) = found.as_ref().and_then(|frame| frame.comment)
        && style.comment.is_none()
    {
        style.comment = Some(comment);
        (head, rest) = samples.cut(&style);
        found = frame(&head, &rest, samples.has_end, given);
    }
    let comment = style.comment.filter(|_| dialect.comment.is_none());
    let (bom, skipped) = (samples.bom_bytes, samples.skipped_bytes);
    let start = Place { bytes: (bom + skipped) as u64, lines: samples.skipped_lines };
    let Some(frame) = found else {
        let is_complete = samples.is_whole;
        let preamble_text = samples.first[bom..bom + skipped].to_vec();
        return Outline {
            table: start,
            records: start,
            is_complete,
            preamble_text,
            ..Outline::default()
        };
    };
    let place = |at: usize| match head.rows.get(at) {
        Some(row) => start.plus(row.range.start, row.line),
        None => match head.rows.last() {
            Some(row) => start.plus(row.range.end, row.line + 1),
            None => start,
        },
    };
    let first = head.rows.get(frame.first);
    let tail = rest.last().unwrap_or(&head);
    // Counted from the file's end: a quote may have been put before the text.
    let in_file = |row: &Row| match rest.last() {
        Some(cuts) => size.saturating_sub(cuts.bytes() - row.range.start as u64),
        None => start.bytes + row.range.start as u64,
    };
    let footer_row = (frame.footer_lines > 0).then(|| footer_row(tail, &frame)).flatten();
    let footer = footer_row.map(|row| (in_file(row), text_of(tail.line(row))));
    let cut_bytes = footer_row.map(|row| tail.bytes() as usize - row.range.start);
    let text =
        |from: Place, to: Place| samples.first[from.bytes as usize..to.bytes as usize].to_vec();
    let (table, records) = (place(frame.first), place(frame.first + frame.header_rows));
    let outline = Outline {
        preamble_text: text(Place { bytes: bom as u64, lines: 0 }, table),
        header_text: text(table, records),
        table,
        records,
        names: first.map(|row| names(&head, row, frame.lacks_first)).unwrap_or_default(),
        first_line: first.map(|row| head.whole_line(row).to_vec()).unwrap_or_default(),
        header_lines: frame.header_rows as u64,
        verdict: Some(frame.verdict),
        fields: Some(frame.width),
        preamble: head.rows[..frame.first]
            .iter()
            .find(|row| !row.is_blank && !row.is_comment)
            .map(|row| text_of(head.line(row))),
        footer_lines: frame.footer_lines,
        footer,
        comment,
        has_tags: frame.has_tags,
        line_end: line_end(&head),
        trouble: frame.trouble,
        is_complete: first.is_some(),
        has_records: frame.body.rows > 0,
    };
    drop((head, rest));
    samples.starts = [outline.table.bytes as usize, outline.records.bytes as usize];
    if let Some(bytes) = cut_bytes {
        samples.cut_end(bytes);
    }
    outline
}

fn names(head: &Cuts<'_>, row: &Row, lacks_first: bool) -> Vec<Vec<u8>> {
    let first = lacks_first.then(Vec::new);
    let names = head.values(row).into_iter().map(|name| name.into_owned());
    first.into_iter().chain(names).collect()
}

fn footer_row<'a>(tail: &'a Cuts<'_>, frame: &Frame<'_>) -> Option<&'a Row> {
    tail.rows.get(super::frame::footer_start(tail, frame.footer_lines as usize))
}

/// A line for a message: the first of it.
pub fn text_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut shown: String = text.trim().chars().take(60).collect();
    if text.trim().chars().count() > 60 {
        shown.push_str("...");
    }
    shown
}
