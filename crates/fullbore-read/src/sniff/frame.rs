//! What stands around a table's records: lines before its header, lines of the header beyond its first,
//! lines after the records, further tables.

use std::borrow::Cow;

use super::body::{Body, Column, is_of};
use super::cut::{Cuts, Row};
use super::header::{First, Verdict, judge};
use super::kind::Kind;
use super::trial::mode;
use super::words;

/// Rows at the beginning among which a table's first is looked for.
const PREAMBLE_ROWS_MAX: usize = 60;
/// Rows at the end that may be a footer.
const FOOTER_ROWS_MAX: usize = 20;
/// What comments begin with.
pub const COMMENT: u8 = b'#';

/// What is fixed of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    pub skip_lines: Option<u64>,
    pub skip_footer: Option<u64>,
    pub width: Option<usize>,
    /// The first line is passed over, whatever it says.
    pub skips_header: bool,
}

/// What was found around the records of a file.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Cells of a record.
    pub width: usize,
    /// The first row of the table in the first sample: its header, if it has one.
    pub first: usize,
    /// Rows of the header, if the first row is one.
    pub header_rows: usize,
    /// The header has no name for the first column, which names the rows.
    pub lacks_first: bool,
    pub verdict: Verdict,
    /// Records, from all samples.
    pub body: Body<'a>,
    /// Lines at the end that are no records.
    pub footer_lines: u64,
    /// Lines that begin with this byte are comments.
    pub comment: Option<u8>,
    /// Records begin with what would be a comment sign.
    pub has_tags: bool,
    /// What can't be read without being told how.
    pub trouble: Option<Trouble>,
}

/// What can't be loaded as it is; lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Another table begins on this line.
    Tables { line: Option<u64>, width: usize },
    /// The header has another number of fields than the records.
    Header { line: u64, fields: usize },
    /// The last line may be a sum of the others, or a record.
    Total { text: String },
    /// The header stands again on this line, among texts that it can't be told from.
    Again { line: u64 },
    /// The header that is to be skipped may be either of these lines.
    Skipped { line: u64, or: u64 },
}

/// Finds what stands around the records. `head` is the file's beginning, `rest` further places, the last
/// of them the file's end where `has_end`.
pub fn frame<'a>(
    head: &Cuts<'a>,
    rest: &[Cuts<'a>],
    has_end: bool,
    given: Given,
) -> Option<Frame<'a>> {
    let widths = || head.rows.iter().chain(rest.iter().flat_map(|cuts| &cuts.rows)).map(Row::width);
    let width = given.width.or_else(|| mode(widths()))?;
    let mut frame = Frame {
        width,
        first: 0,
        header_rows: 1,
        lacks_first: false,
        verdict: Verdict::Undecided,
        body: Body::new(width),
        footer_lines: 0,
        comment: None,
        has_tags: false,
        trouble: None,
    };
    let tail = rest.last().unwrap_or(head);
    let overview = overview(head, rest, width);
    frame.comment = comment(head, &overview, width);
    frame.first = match given.skip_lines {
        Some(_) => head.rows.iter().position(|row| row.width() > 0)?,
        None => first_row(head, &overview, width, &mut frame.trouble),
    };
    let footer = match given.skip_footer {
        _ if !has_end => 0,
        Some(lines) => lines as usize,
        None => footer(tail, &overview, width, &mut frame.trouble),
    };
    // Of lines that the job skips nothing is found.
    frame.footer_lines = if given.skip_footer.is_none() { footer as u64 } else { 0 };
    let is_marked = |cuts: &Cuts<'_>, row: &Row| {
        frame.comment.is_some_and(|comment| cuts.line(row).first() == Some(&comment))
    };
    let footer_from = |cuts: &Cuts<'_>| footer_start(cuts, footer);
    let head_end = if rest.is_empty() { footer_from(head) } else { head.rows.len() };
    frame.header_rows = header_rows(head, frame.first, &overview);
    // The header may begin so too.
    let is_tagged = |row: &Row| width > 1 && row.width() == width && begins_marked(head, row);
    let mut records = head.rows.iter().skip(frame.first + frame.header_rows);
    frame.has_tags = frame.comment.is_none() && records.any(is_tagged);
    let below = head.rows[..head_end].iter().skip(frame.first + frame.header_rows);
    frame.body.take_first(head, below.filter(|row| !is_marked(head, row)));
    for (at, cuts) in rest.iter().enumerate() {
        let end = if at + 1 == rest.len() { footer_from(cuts) } else { cuts.rows.len() };
        // The first row may have begun before the sample.
        frame.body.take_first(cuts, cuts.rows[..end.max(1)].iter().skip(1));
    }
    if let Some(row) = head.rows.get(frame.first) {
        let mut cells = first_cells(head, row);
        let names_rows = matches!(frame.trouble, Some(Trouble::Header { .. }))
            && cells.len() + 1 == width
            && frame.body.columns.first().is_some_and(Column::names_rows);
        if names_rows {
            // As R writes it.
            cells.insert(0, First { value: Default::default(), is_quoted: false });
            frame.lacks_first = true;
            frame.trouble = None;
        }
        frame.verdict = judge(&cells, &frame.body);
        if matches!(frame.verdict, Verdict::Header(_)) && may_be_group(head, frame.first, &overview)
        {
            frame.verdict = Verdict::Undecided;
        }
    }
    if given.skips_header && given.skip_lines.is_none() && frame.first > 0 {
        skip_header(head, &mut frame);
    }
    if frame.trouble.is_none() {
        frame.trouble = further_tables(head, rest, head_end, &frame);
    }
    Some(frame)
}

/// Which line a header is that is skipped by its place: a damaged one looks like a remark before the
/// table, whose first row is a record then.
fn skip_header(head: &Cuts<'_>, frame: &mut Frame<'_>) {
    let Some(before) = head.rows[..frame.first].iter().rposition(|row| row.width() > 0) else {
        return;
    };
    match frame.verdict {
        Verdict::Header(_) => {}
        Verdict::Data(_) => (frame.first, frame.header_rows) = (before, 1),
        Verdict::Undecided => {
            let line = |at: usize| head.rows[at].line + 1;
            frame.trouble = Some(Trouble::Skipped { line: line(before), or: line(frame.first) });
        }
    }
}

pub fn first_cells<'a>(cuts: &Cuts<'a>, row: &Row) -> Vec<First<'a>> {
    let cells = cuts.cells(row).iter();
    cells.map(|cell| First { value: cuts.value(cell), is_quoted: cell.is_quoted }).collect()
}

/// The columns as the rows have them, but for the first few and the last few.
fn overview<'a>(head: &Cuts<'a>, rest: &[Cuts<'a>], width: usize) -> Body<'a> {
    let mut body = Body::new(width);
    let even: Vec<&Row> = head.rows.iter().filter(|row| row.width() == width).collect();
    let first = (even.len() / 2).min(4);
    let left = even.len() - first;
    let last = if rest.is_empty() { (left.max(1) - 1) / 2 } else { 0 };
    body.take_first(head, even[first..even.len() - last.min(3)].iter().copied());
    for cuts in rest {
        body.take_first(cuts, cuts.rows.iter().skip(1));
    }
    body
}

/// Cells that are not empty.
fn filled(cuts: &Cuts<'_>, row: &Row) -> usize {
    cuts.cells(row).iter().filter(|cell| !cuts.value(cell).trim_ascii().is_empty()).count()
}

fn begins_marked(head: &Cuts<'_>, row: &Row) -> bool {
    head.line(row).first() == Some(&COMMENT)
}

/// The comment sign of a file that has lines which begin with it and are no records.
fn comment(head: &Cuts<'_>, overview: &Body<'_>, width: usize) -> Option<u8> {
    let marked: Vec<&Row> = head.rows.iter().filter(|row| begins_marked(head, row)).collect();
    if marked.is_empty() || overview.rows == 0 {
        return None;
    }
    // A first column of colours or tags begins so too.
    let is_tag = |value: &[u8]| value.first() == Some(&b'#');
    let first = overview.columns.first()?;
    let tags = first.values.iter().filter(|value| is_tag(value)).count();
    let records = marked.iter().filter(|row| row.width() == width && width > 1).count();
    // The header may be such a line too: `#id	name`.
    (tags * 2 <= marked.len() && records <= 1 && marked.len() > records).then_some(COMMENT)
}

/// Whether a row is a title or a remark rather than a record: fewer cells, none of them a value of its
/// column.
fn is_beside(cuts: &Cuts<'_>, row: &Row, overview: &Body<'_>, width: usize) -> bool {
    if row.width() == 0 {
        return true;
    }
    let cells = cuts.cells(row);
    let first = cuts.value(&cells[0]);
    let is_value =
        overview.columns.first().and_then(|c| c.kind()).is_some_and(|kind| is_of(kind, &first));
    if row.width() == width {
        let filled = filled(cuts, row);
        let is_sparse = width > 2 && filled * 2 < width && overview.filled_least() > filled;
        let is_first = !first.trim_ascii().is_empty();
        return is_sparse && !is_value && (filled == 0 || filled == 1 && is_first);
    }
    width > 1 && row.width() == 1 && !is_value
}

/// The first row of the table.
fn first_row(
    head: &Cuts<'_>,
    overview: &Body<'_>,
    width: usize,
    trouble: &mut Option<Trouble>,
) -> usize {
    let rows = &head.rows;
    let is_full = |at: usize| {
        rows[at].width() == width
            && !is_beside(head, &rows[at], overview, width)
            && !is_group(head, at, overview)
    };
    let is_data = |at: &usize| rows[*at].width() > 0;
    let Some(first_any) = (0..rows.len()).find(is_data) else { return 0 };
    let Some(first) = (0..rows.len().min(PREAMBLE_ROWS_MAX)).find(|at| is_full(*at)) else {
        return first_any;
    };
    // What stands before it must not be records.
    let before = &rows[..first];
    let others: Vec<&Row> =
        before.iter().filter(|row| !is_beside(head, row, overview, width)).collect();
    let Some(other) = others.first() else { return first };
    let other_at = before.iter().position(|row| row.line == other.line).unwrap_or(first);
    if other.width() == width {
        // A line that groups columns.
        return first;
    }
    // Pairs of a word and what it stands for are no table; three columns are one.
    let is_pairs = others.iter().all(|row| row.width() == 2) && width > 2;
    let has_blank = before[other_at..].iter().any(|row| row.is_blank);
    if is_pairs && (has_blank || others.len() > 1) {
        return first;
    }
    let same = others.iter().all(|row| row.width() == other.width());
    if others.len() > 1 && same && has_blank {
        *trouble = Some(Trouble::Tables { line: Some(rows[first].line + 1), width });
        return other_at;
    }
    let last = others[others.len() - 1];
    let values = head.values(last);
    let texts = values.iter().filter(|value| Kind::of(value) == Kind::Text).count();
    let typed = overview.typed().count();
    let next_is_data = {
        let cells = first_cells(head, &rows[first]);
        overview
            .typed()
            .any(|(place, kind)| cells.get(place).is_some_and(|cell| is_of(kind, &cell.value)))
    };
    if others.len() == 1 && typed > 0 && next_is_data && texts * 2 > values.len() {
        *trouble = Some(Trouble::Header { line: last.line + 1, fields: last.width() });
    }
    other_at
}

/// Whether a row groups the columns that the next row names: `,2019,,2020,`.
fn is_group(cuts: &Cuts<'_>, at: usize, overview: &Body<'_>) -> bool {
    let Some(next) = cuts.rows.get(at + 1) else { return false };
    let row = &cuts.rows[at];
    let (here, there) = (filled(cuts, row), filled(cuts, next));
    if next.width() != row.width() || here * 2 > row.width() || here >= there || overview.rows == 0
    {
        return false;
    }
    there + 1 >= row.width()
        && overview.filled_median() > here
        && names_columns(cuts, next, overview)
}

/// Whether a row would be a header if it were the first.
fn names_columns(cuts: &Cuts<'_>, row: &Row, overview: &Body<'_>) -> bool {
    matches!(judge(&first_cells(cuts, row), overview), Verdict::Header(_))
}

/// Whether a header that lacks a name may be a line which groups the columns that the next row names.
fn may_be_group(cuts: &Cuts<'_>, at: usize, overview: &Body<'_>) -> bool {
    let width = overview.columns.len();
    let Some(next) = cuts.rows.get(at + 1).filter(|next| next.width() == width) else {
        return false;
    };
    filled(cuts, &cuts.rows[at]) < width
        && filled(cuts, next) == width
        && names_columns(cuts, next, overview)
}

/// Rows of the header, if the first row is one: the first again, or one of units, may follow.
fn header_rows(head: &Cuts<'_>, first: usize, overview: &Body<'_>) -> usize {
    let Some(names) = head.rows.get(first).map(|row| head.values(row)) else { return 1 };
    let mut count = 1;
    while let Some(next) = head.rows.get(first + count) {
        if head.rows.len() <= first + count + 1 || next.width() != names.len() || count > 3 {
            break;
        }
        let cells = head.values(next);
        let is_again = cells == names && cells.iter().any(|cell| Kind::of(cell) == Kind::Text);
        if !is_again && !are_units(&cells, overview) {
            break;
        }
        count += 1;
    }
    count
}

/// Whether cells are units or remarks of the columns: texts above all columns of values, or such in
/// brackets where nothing else of the column is.
fn are_units(cells: &[Cow<'_, [u8]>], overview: &Body<'_>) -> bool {
    // They may be fewer than the columns.
    let typed = overview.typed().map(|(place, _)| place).filter(|place| *place < cells.len());
    let typed: Vec<usize> = typed.collect();
    let kind = |place: usize| Kind::of(&cells[place]);
    let texts = typed.iter().filter(|place| kind(**place) == Kind::Text).count();
    let is_bracketed = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        let is_in = |open, close| cell.first() == Some(&open) && cell.last() == Some(&close);
        is_in(b'(', b')') || is_in(b'[', b']')
    };
    let is_alone = |place: usize| {
        let below = overview.columns.get(place);
        kind(place) == Kind::Text
            && is_bracketed(&cells[place])
            && below.is_some_and(|column| !column.values.iter().any(|value| is_bracketed(value)))
    };
    let mut given = (0..cells.len()).filter(|place| kind(*place) != Kind::Empty).peekable();
    if overview.rows > 1 && given.peek().is_some() && given.all(is_alone) {
        return true;
    }
    let is_unit = |cell: &[u8]| cell.trim_ascii().len() <= 6 || is_bracketed(cell);
    let others = typed.iter().all(|place| matches!(kind(*place), Kind::Text | Kind::Empty));
    let all_units = cells.iter().all(|cell| is_unit(cell));
    others && texts > 0 && texts * 2 >= typed.len() && (typed.len() > 1 || all_units)
}

/// Rows at the end that are no records, blank ones not counted.
fn footer(
    tail: &Cuts<'_>,
    overview: &Body<'_>,
    width: usize,
    trouble: &mut Option<Trouble>,
) -> usize {
    if overview.rows < 2 {
        return 0;
    }
    let mut count = 0;
    let rows = tail.rows.iter().enumerate().rev().take(FOOTER_ROWS_MAX);
    for (at, row) in rows {
        if row.width() == 0 {
            continue;
        }
        let follows_blank = at > 0 && tail.rows[at - 1].is_blank;
        let is_remark = follows_blank
            || count > 0
            || match row.width() == width {
                // A record may have one value only.
                true => words::is_certain_remark(&tail.value(&tail.cells(row)[0])),
                false => words::is_remark(tail.line(row)),
            };
        if is_beside(tail, row, overview, width) && is_remark {
            count += 1;
            continue;
        }
        if row.width() == width && width > 1 {
            match total(tail, row, overview, follows_blank) {
                Some(true) => {
                    count += 1;
                    continue;
                }
                Some(false) if trouble.is_none() => {
                    let text = String::from_utf8_lossy(tail.line(row)).into_owned();
                    *trouble = Some(Trouble::Total { text });
                }
                _ => {}
            }
        }
        break;
    }
    // A file of remarks alone has no footer.
    if count >= tail.rows.iter().filter(|row| row.width() > 0).count() { 0 } else { count }
}

/// Whether a row sums up the others: `Some(true)` if it certainly does, `Some(false)` if it may.
fn total(tail: &Cuts<'_>, row: &Row, overview: &Body<'_>, follows_blank: bool) -> Option<bool> {
    let cells = tail.values(row);
    let place = cells.iter().position(|cell| words::is_total(cell))?;
    let before = cells[..place].iter().all(|cell| cell.trim_ascii().is_empty());
    let column = overview.columns.get(place)?;
    let is_another = |value: &[u8]| words::is_total(value) && *value != *cells[place];
    if !before || column.values.iter().any(|value| is_another(value)) {
        return None;
    }
    let is_of_another_kind = column.kind().is_some();
    let is_sparser = filled(tail, row) < overview.filled_least();
    // A title or a name may begin with the word, and such a record be sparse by chance; a sum has the last number.
    let last = overview.typed().last();
    let sums_up =
        last.is_some_and(|(place, kind)| cells.get(place).is_some_and(|cell| is_of(kind, cell)));
    let is_sum = words::is_total_alone(&cells[place]) || sums_up;
    Some(follows_blank || is_of_another_kind || is_sparser && is_sum)
}

/// The row at which a footer of so many lines begins.
pub fn footer_start(cuts: &Cuts<'_>, lines: usize) -> usize {
    let mut left = lines;
    let mut start = cuts.rows.len();
    while left > 0 && start > 0 {
        start -= 1;
        if cuts.rows[start].width() > 0 {
            left -= 1;
        }
    }
    start
}

/// Whether words of the first row, among texts, occur again in rows that are the same throughout and in
/// no others: a header that is repeated, or a record.
fn stands_again(head: &Cuts<'_>, rows: &[Row], start: usize, names: &[Cow<'_, [u8]>]) -> bool {
    let are_words = names.len() > 1 && names.iter().all(|name| Kind::of(name) == Kind::Text);
    let mut again = false;
    for row in rows.iter().skip(start).filter(|row| row.width() == names.len()) {
        let cells = head.values(row);
        if cells.as_slice() == names {
            again = true;
        } else if cells.iter().zip(names).any(|(cell, name)| cell == name) {
            return false;
        }
    }
    are_words && again
}

/// A further table: other records after a blank line or a title, or a header among values.
fn further_tables(
    head: &Cuts<'_>,
    rest: &[Cuts<'_>],
    head_end: usize,
    frame: &Frame<'_>,
) -> Option<Trouble> {
    let width = frame.width;
    let rows = &head.rows[..head_end];
    let names = head.rows.get(frame.first).map(|row| head.values(row)).unwrap_or_default();
    let is_named = matches!(frame.verdict, Verdict::Header(_));
    let typed: Vec<(usize, Kind)> = frame.body.typed().collect();
    let start = frame.first + frame.header_rows;
    let stands_again = !is_named && typed.is_empty() && stands_again(head, rows, start, &names);
    for at in start..rows.len() {
        let row = &rows[at];
        let is_apart = rows[at - 1].is_blank || rows[at - 1].width() == 1 && width > 1;
        if row.width() > 1 && row.width() != width && is_apart {
            let alike = rows[at..].iter().take_while(|next| next.width() == row.width()).count();
            if alike > 1 {
                return Some(Trouble::Tables { line: Some(row.line + 1), width: row.width() });
            }
        }
        if row.width() != width || !(is_named || stands_again) {
            continue;
        }
        let cells = head.values(row);
        if cells == names && width > 1 {
            return match typed.is_empty() {
                true => Some(Trouble::Again { line: row.line + 1 }),
                false if is_apart => Some(Trouble::Tables { line: Some(row.line + 1), width }),
                // Each of them is a reject, since it is no record of values.
                false => None,
            };
        }
        let is_header = !typed.is_empty()
            && typed.iter().all(|(place, _)| Kind::of(&cells[*place]) == Kind::Text);
        let is_followed = rows.get(at + 1).is_some_and(|next| next.width() == width);
        if is_apart && is_header && is_followed {
            return Some(Trouble::Tables { line: Some(row.line + 1), width });
        }
    }
    for cuts in rest {
        let widths = || cuts.rows.iter().skip(1).map(Row::width).filter(|width| *width > 0);
        let Some(here) = mode(widths()) else { continue };
        let alike = widths().filter(|width| *width == here).count();
        if here != width && here > 1 && alike >= 10 && alike * 10 >= widths().count() * 9 {
            return Some(Trouble::Tables { line: None, width: here });
        }
    }
    None
}
