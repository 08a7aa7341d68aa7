//! What was found of one file: where its table begins and ends, and its first line.

use super::cut::{Cuts, Row, Style};
use super::frame::{Frame, Given, Trouble, frame};
use super::header::Verdict;
use super::line_end_of_rows as line_end;
use super::samples::Samples;
use crate::parse::dialect::{Dialect, Header, LineEnd};

/// A place in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub bytes: u64,
    /// Lines before it.
    pub lines: u64,
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
    /// The first of the lines before the table that is not blank.
    pub preamble: Option<String>,
    /// Lines at the end that are no records, and where they begin.
    pub footer_lines: u64,
    pub footer: Option<(u64, String)>,
    pub comment: Option<u8>,
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

    /// The header line, its line end included.
    pub fn header(&self) -> Vec<u8> {
        self.first_line.clone()
    }
}

/// What was found of a file. Cuts what is no record off its samples.
pub fn outline(samples: &mut Samples, dialect: &Dialect, size: u64, given: Given) -> Outline {
    let mut style = Style::of(dialect);
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
    let bom = samples.bom_bytes as u64;
    let Some(frame) = found else {
        let is_complete = samples.is_whole;
        return Outline { is_complete, ..Outline::of_nothing(samples.bom_bytes) };
    };
    let place = |at: usize| match head.rows.get(at) {
        Some(row) => Place { bytes: bom + row.range.start as u64, lines: row.line },
        None => after(&head, bom),
    };
    let first = head.rows.get(frame.first);
    let tail = rest.last().unwrap_or(&head);
    // Counted from the file's end: a quote may have been put before the text.
    let in_file = |row: &Row| match rest.last() {
        Some(cuts) => size.saturating_sub(cuts.bytes() - row.range.start as u64),
        None => bom + row.range.start as u64,
    };
    let footer_row = (frame.footer_lines > 0).then(|| footer_row(tail, &frame)).flatten();
    let footer = footer_row.map(|row| (in_file(row), text_of(tail.line(row))));
    let cut_at = footer_row.map(|row| row.range.start);
    let outline = Outline {
        table: place(frame.first),
        records: place(frame.first + frame.header_rows),
        names: first
            .map(|row| head.values(row).into_iter().map(|name| name.into_owned()).collect())
            .unwrap_or_default(),
        first_line: first.map(|row| head.whole_line(row).to_vec()).unwrap_or_default(),
        header_lines: frame.header_rows as u64,
        verdict: Some(frame.verdict),
        fields: Some(frame.width),
        preamble: head.rows[..frame.first]
            .iter()
            .find(|row| !row.is_blank)
            .map(|row| text_of(head.line(row))),
        footer_lines: frame.footer_lines,
        footer,
        comment,
        line_end: line_end(&head),
        trouble: frame.trouble,
        is_complete: first.is_some(),
        has_records: frame.body.rows > 0,
    };
    let has_rest = !rest.is_empty();
    drop((head, rest));
    samples.starts = [outline.table.bytes as usize, outline.records.bytes as usize];
    if let Some(at) = cut_at {
        match samples.others.last_mut() {
            Some(text) if has_rest => text.truncate(at),
            _ => samples.first.truncate(samples.bom_bytes + at),
        }
    }
    outline
}

/// Where the text ends.
fn after(cuts: &Cuts<'_>, bom: u64) -> Place {
    let lines = cuts.rows.last().map_or(0, |row| row.line + 1);
    Place { bytes: bom + cuts.rows.last().map_or(0, |row| row.range.end) as u64, lines }
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
