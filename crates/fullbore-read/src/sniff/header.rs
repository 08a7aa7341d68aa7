//! Whether the first line of a table names its columns: by how its cells differ from those below.
//!
//! Each column votes for a header, against it, or abstains. An undecided vote is refused, since a header
//! loaded as a row, or a row taken for a header, would go unnoticed.

use std::borrow::Cow;
use std::collections::HashSet;

use super::body::{Body, Column, is_of};
use super::kind::{Kind, shape};
use super::words;

/// What the first line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A header, and why.
    Header(&'static str),
    /// A record like those below, and why.
    Data(&'static str),
    Undecided,
}

/// What speaks for a side, in points; three of them decide, if the other side has less than half.
const ENOUGH: u32 = 3;

/// The most points that one reason can have, however many columns give it.
const MOST: u32 = 9;

/// What speaks for a side: reasons, and their points.
#[derive(Default)]
struct Side {
    reasons: Vec<(&'static str, u32)>,
}

impl Side {
    fn add(&mut self, points: u32, why: &'static str) {
        match self.reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, sum)) => *sum = (*sum + points).min(MOST),
            None => self.reasons.push((why, points)),
        }
    }

    fn points(&self) -> u32 {
        self.reasons.iter().map(|(_, points)| points).sum()
    }

    fn outweighs(&self, other: &Self) -> bool {
        self.points() >= ENOUGH && self.points() > 2 * other.points()
    }

    /// The weightiest reason.
    fn reason(&self) -> &'static str {
        self.reasons.iter().max_by_key(|(_, points)| *points).map_or("", |(why, _)| why)
    }
}

/// A cell of the first line.
pub struct First<'a> {
    pub value: Cow<'a, [u8]>,
    pub is_quoted: bool,
}

/// Judges the first line by the records below it.
pub fn judge(first: &[First<'_>], below: &Body<'_>) -> Verdict {
    let (mut header, mut data) = (Side::default(), Side::default());
    if below.rows == 0 {
        // Nothing to compare with: only values speak for themselves.
        let values = first.iter().filter(|cell| Kind::of(&cell.value).is_value()).count();
        return match values * 2 > first.len() {
            true => Verdict::Data("its only line holds values"),
            false => Verdict::Undecided,
        };
    }
    let counts_up = counts_up(first, below);
    let mut has_hole = false;
    for (place, (cell, column)) in first.iter().zip(&below.columns).enumerate() {
        let kind = Kind::of(&cell.value);
        match (kind, column.kind()) {
            (Kind::NullWord, _) => {}
            (Kind::Empty, _) => {
                has_hole |= column.empty == 0 && column.values.len() > 2;
                unnamed(place, column, &mut header);
            }
            (Kind::Text, Some(_)) => header.add(3, "its cells are text, the columns below are not"),
            (_, _) if counts_up[place] => {
                header.add(2, "its numbers are years or count up, those below do not");
            }
            // In quotes above numbers without them it is a word.
            (_, Some(_)) if cell.is_quoted && column.quoted == 0 => {
                header.add(1, "it is quoted differently from the lines below");
            }
            (_, Some(of)) if is_of(of, &cell.value) => {
                data.add(3, "it holds values like those below");
            }
            (_, Some(_)) => header.add(1, "its cells have other types than those below"),
            (_, None) => among_texts(cell, kind, column, &mut header, &mut data),
        }
    }
    quoting(first, below, &mut header);
    if header.outweighs(&data) {
        Verdict::Header(header.reason())
    } else if data.outweighs(&header) && !has_hole {
        Verdict::Data(data.reason())
    } else {
        Verdict::Undecided
    }
}

/// A column without a name: most often one of row numbers.
fn unnamed(place: usize, column: &Column<'_>, header: &mut Side) {
    if column.empty > 0 || column.values.len() < 2 {
        return;
    }
    let numbers = column.values.iter().map(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let numbers: Option<Vec<i64>> = numbers.collect();
    let is_index = numbers.is_some_and(|n| {
        matches!(n[0], 0..=2) && n.windows(2).all(|two| two[1] == two[0] + 1 || two[1] > two[0])
    });
    match is_index && place == 0 {
        true => header.add(6, "it has no name above a column of row numbers"),
        false => header.add(1, "it is empty above a column that never is"),
    }
}

/// A cell above texts: whether it could be one of them.
fn among_texts(
    cell: &First<'_>,
    kind: Kind,
    column: &Column<'_>,
    header: &mut Side,
    data: &mut Side,
) {
    let value = &cell.value;
    let count = column.values.len();
    if count == 0 {
        return;
    }
    let distinct: HashSet<&[u8]> = column.values.iter().map(AsRef::as_ref).collect();
    let occurs = distinct.contains(value.as_ref());
    if occurs {
        data.add(2, "its cells occur again below");
        return;
    }
    if kind != Kind::Text {
        data.add(1, "it holds values");
        return;
    }
    if words::is_name(value) {
        header.add(2, "its cells are common column names");
    } else if words::is_written_as_name(value)
        && !column.values.iter().any(|value| words::is_written_as_name(value))
    {
        header.add(2, "its cells are written like names");
    }
    if count < 4 {
        return;
    }
    if distinct.len() * 3 <= count {
        let points = if distinct.len() * 10 <= count { 3 } else { 2 };
        header.add(points, "the values below repeat, its cells do not");
    }
    let shapes: HashSet<Vec<u8>> = column.values.iter().map(|value| shape(value)).collect();
    let lengths = || column.values.iter().map(|value| value.len());
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    // One shape of several parts, or one of a fixed length, is a code.
    if shapes.len() == 1 && shapes.iter().all(|shape| shape.len() > 1 || least == most) {
        let is_like = shapes.contains(&shape(value)) && (least..=most).contains(&value.len());
        match is_like {
            true => data.add(1, "its cells are written like those below"),
            false => header.add(2, "its cells are written differently from those below"),
        }
    } else if !shapes.contains(&shape(value)) && shapes.len() * 10 <= count {
        header.add(1, "its cells are written differently from those below");
    } else if value.len() * 2 < least || value.len() > most * 2 {
        header.add(1, "its cells differ in length from those below");
    }
}

/// Quotes around all of its cells and none of the texts below, or the other way round.
fn quoting(first: &[First<'_>], below: &Body<'_>, header: &mut Side) {
    let quoted = first.iter().filter(|cell| cell.is_quoted).count();
    let texts = || {
        below.columns.iter().filter(|column| column.kind().is_none() && !column.values.is_empty())
    };
    let count: usize = texts().map(Column::given).sum();
    let of_them: usize = texts().map(|column| column.quoted).sum();
    if count < 4 {
        return;
    }
    if quoted == first.len() && of_them == 0 || quoted == 0 && of_them >= count {
        header.add(3, "it is quoted differently from the lines below");
    }
}

/// For each cell, whether it is a year, or a number of a row of numbers in even steps, above numbers that
/// are not such: 2019, 2020, 2021 above amounts.
fn counts_up(first: &[First<'_>], below: &Body<'_>) -> Vec<bool> {
    let numbers: Vec<Option<f64>> = first.iter().map(|cell| number(&cell.value)).collect();
    let is_year = |n: f64| n.fract() == 0.0 && (1800.0..=2100.0).contains(&n);
    let rows = below.columns.iter().map(|column| column.values.len()).min().unwrap_or(0).min(20);
    let counting_rows = (0..rows).filter(|row| {
        let value = |column: &Column<'_>| column.values.get(*row).and_then(|value| number(value));
        let of_row: Vec<_> = below.columns.iter().map(value).collect();
        in_steps(&of_row).contains(&true)
    });
    // What is below must not count up the same way.
    let rows_do = counting_rows.count() * 4 > rows;
    let steps = in_steps(&numbers);
    let mut flags: Vec<bool> = numbers
        .iter()
        .enumerate()
        .map(|(at, n)| {
            // It may have more cells than the records below.
            let (Some(n), Some(column)) = (n, below.columns.get(at)) else { return false };
            let values = &column.values;
            let years = values.iter().filter(|value| number(value).is_some_and(is_year)).count();
            let is_year_above_others = is_year(*n) && years * 4 < values.len();
            is_year_above_others && values.len() > 1 || steps[at] && !rows_do
        })
        .collect();
    // One number alone says nothing.
    let has_text = first.iter().any(|cell| Kind::of(&cell.value) == Kind::Text);
    if !has_text && flags.iter().filter(|flag| **flag).count() < 2 {
        flags.fill(false);
    }
    flags
}

fn number(value: &[u8]) -> Option<f64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok().filter(|n: &f64| n.is_finite())
}

/// Which numbers belong to a row of them in even steps: of one, five or ten, or four numbers in any.
fn in_steps(numbers: &[Option<f64>]) -> Vec<bool> {
    let mut flags = vec![false; numbers.len()];
    let step = |at: usize| Some(numbers.get(at + 1)?.as_ref()? - numbers[at].as_ref()?);
    let mut start = 0;
    while start + 1 < numbers.len() {
        let Some(first) = step(start) else {
            start += 1;
            continue;
        };
        let is_same =
            |at: &usize| step(*at).is_some_and(|next| (next - first).abs() <= first.abs() * 0.02);
        let end = (start + 1..).take_while(is_same).last().unwrap_or(start) + 1;
        let is_round = [1.0, 5.0, 10.0].contains(&first);
        if first != 0.0 && (end - start >= 3 || is_round) {
            flags[start..=end].fill(true);
        }
        start = end;
    }
    flags
}
