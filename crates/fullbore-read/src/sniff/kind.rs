//! What a cell is: a number, a date, a truth value; else text, and how that text is made.

use fullbore_parse::{floats, numbers, temporal, text};

/// What a cell looks like, whatever type its column will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Empty,
    /// A word that people write where there is no value: `NA`, `NULL`, `-`.
    NullWord,
    Boolean,
    Number,
    Date,
    Time,
    Uuid,
    /// A number as people of some country write it: `1,571`, `12,5`, `$3.20`, `40 %`.
    LocalNumber,
    /// A date whose order depends on the country, or with the month's name.
    LocalDate,
    Text,
}

impl Kind {
    pub fn of(cell: &[u8]) -> Self {
        let cell = cell.trim_ascii();
        let Some(first) = cell.first() else { return Self::Empty };
        let begins_with_digit = first.is_ascii_digit();
        // No such word begins with a digit.
        if !begins_with_digit && is_null_word(cell) {
            return Self::NullWord;
        }
        if matches!(cell, b"t" | b"f" | b"T" | b"F")
            || cell.eq_ignore_ascii_case(b"true")
            || cell.eq_ignore_ascii_case(b"false")
        {
            return Self::Boolean;
        }
        let may_be_number = begins_with_digit
            || matches!(first, b'-' | b'+' | b'.' | b'(' | b'$' | b'%' | b'\'')
            || *first >= 0x80;
        if may_be_number {
            let unsigned = cell.strip_prefix(b"+").unwrap_or(cell);
            // What begins like a date is no number, and would be taken apart in vain as one.
            let begins_with_year =
                cell.get(4) == Some(&b'-') && cell[..4].iter().all(u8::is_ascii_digit);
            if numbers::is_plain_decimal(unsigned, None)
                || !begins_with_year && floats::float64(unsigned).is_some()
            {
                return Self::Number;
            }
            if temporal::timestamp_tz(cell, true).is_some() {
                return Self::Date;
            }
            if temporal::time(cell).is_some() {
                return Self::Time;
            }
            if is_local_date(cell) {
                return Self::LocalDate;
            }
            if is_local_number(cell) {
                return Self::LocalNumber;
            }
        }
        if text::uuid(cell).is_some() {
            return Self::Uuid;
        }
        if has_month(cell) { Self::LocalDate } else { Self::Text }
    }

    /// Whether it is something that a column's name hardly ever is.
    pub fn is_value(self) -> bool {
        !matches!(self, Self::Empty | Self::NullWord | Self::Text)
    }

    /// Whether there is a value, of whatever kind.
    pub fn is_given(self) -> bool {
        !matches!(self, Self::Empty | Self::NullWord)
    }
}

/// Words that stand for no value, as programs and people write them.
const NULL_WORDS: [&str; 20] = [
    "NA", "N/A", "#N/A", "<NA>", "NULL", "(null)", "#NULL!", "None", "NaN", "nil", "\\N", "-",
    "--", "---", ".", "..", "?", "#REF!", "#DIV/0!", "#VALUE!",
];

/// Whether a cell is a word that stands for no value.
pub fn is_null_word(cell: &[u8]) -> bool {
    cell.len() <= 7 && NULL_WORDS.iter().any(|word| cell.eq_ignore_ascii_case(word.as_bytes()))
}

/// `03.04.2024`, `4/3/24`, `2024/04/03`, with a time or without.
pub fn is_local_date(cell: &[u8]) -> bool {
    let day = cell.split(|byte| matches!(byte, b' ' | b'T' | b',')).next().unwrap_or_default();
    let Some(separator) = day.iter().find(|byte| !byte.is_ascii_digit()) else { return false };
    if !matches!(separator, b'.' | b'/' | b'-') {
        return false;
    }
    let parts: Vec<&[u8]> = day.split(|byte| byte == separator).collect();
    let is_part =
        |part: &&[u8]| matches!(part.len(), 1 | 2 | 4) && part.iter().all(u8::is_ascii_digit);
    if parts.len() != 3 || !parts.iter().all(is_part) || parts[1].len() == 4 {
        return false;
    }
    let values: Vec<u32> = parts
        .iter()
        .map(|part| part.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
        .collect();
    let is_day = |value: u32| (1..=31).contains(&value);
    let is_year = |at: usize| parts[at].len() == 4 && (1000..=2999).contains(&values[at]);
    let years = [0, 2].into_iter().filter(|at| is_year(*at)).count();
    let are_days = match years {
        0 => parts.iter().all(|part| part.len() <= 2) && is_day(values[0]) && is_day(values[1]),
        1 if is_year(0) => is_day(values[1]) && is_day(values[2]),
        1 => is_day(values[0]) && is_day(values[1]),
        _ => false,
    };
    // A time may follow.
    let rest = cell[day.len()..].trim_ascii();
    let is_time = rest.iter().all(|byte| byte.is_ascii_digit() || b":.APMapm ,".contains(byte));
    are_days && is_time
}

/// `5 January 2024`, `Jan-24`: a month's name among numbers, and nothing else.
fn has_month(cell: &[u8]) -> bool {
    const MONTHS: [&[u8]; 12] = [
        b"january",
        b"february",
        b"march",
        b"april",
        b"may",
        b"june",
        b"july",
        b"august",
        b"september",
        b"october",
        b"november",
        b"december",
    ];
    if cell.len() > 30 || !cell.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let mut months = 0;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    let parts = cell.split(|byte| !is_word(byte)).filter(|part| !part.is_empty());
    for part in parts {
        let letters: Vec<u8> =
            part.iter().filter(|byte| !byte.is_ascii_digit()).map(u8::to_ascii_lowercase).collect();
        if letters.is_empty() {
            continue;
        }
        if letters.len() < 3 || !MONTHS.iter().any(|month| month.starts_with(&letters)) {
            return false;
        }
        months += 1;
    }
    months == 1
}

/// `1,571`, `1.234,50`, `12,5`, `$1,571.00`, `(3.20)`, `40%`, `1'000`.
pub fn is_local_number(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let is_around =
        |c: char| matches!(c, '$' | '€' | '£' | '¥' | '%' | '+' | '-' | '(' | ')' | '\u{a0}' | ' ');
    let number = text.trim_matches(is_around);
    let mut parts = Vec::new();
    let mut separators = Vec::new();
    let mut start = 0;
    for (at, c) in number.char_indices() {
        if c.is_ascii_digit() {
            continue;
        }
        if !matches!(c, ',' | '.' | '\'' | '\u{a0}') {
            return false;
        }
        parts.push(&number[start..at]);
        separators.push(c);
        start = at + c.len_utf8();
    }
    parts.push(&number[start..]);
    if parts.iter().any(|part| part.is_empty()) {
        return false;
    }
    let Some((last, before)) = separators.split_last() else {
        return true;
    };
    // One kind of separator between groups of three; another before the fraction.
    let is_grouped =
        |groups: &[&str]| groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3);
    let all_same = before.iter().all(|c| c == last);
    if all_same && is_grouped(&parts) {
        return true;
    }
    let is_decimal = matches!(last, ',' | '.');
    let fraction_apart = before.iter().all(|c| Some(c) == before.first() && c != last);
    is_decimal && fraction_apart && (before.is_empty() || is_grouped(&parts[..parts.len() - 1]))
}

/// How a text is made: runs of letters, digits and blanks, and whatever else stands in it.
pub fn shape(cell: &[u8]) -> Vec<u8> {
    let mut shape: Vec<u8> = cell
        .iter()
        .map(|byte| match byte {
            b'a'..=b'z' | 0x80.. => b'a',
            b'A'..=b'Z' => b'A',
            b'0'..=b'9' => b'9',
            other => *other,
        })
        .collect();
    shape.dedup();
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_kinds() {
        for (kind, cells) in [
            (Kind::Empty, &["", " "][..]),
            (Kind::NullWord, &["NA", "n/a", "#N/A", "null", "-", "?", "\\N", "nan"]),
            (Kind::Boolean, &["true", "F"]),
            (Kind::Number, &["1", "-2.50", "+4", ".5", "1e9", "007", " 5 "]),
            (Kind::Date, &["2024-02-29", "2024-02-29 10:00", "2024-02-29T10:00:00Z"]),
            (Kind::Time, &["10:00", "23:59:59.5"]),
            (Kind::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
            (
                Kind::LocalNumber,
                &["1,571", "1.234,50", "12,5", "$1,571.00", "40 %", "€ 3", "1'000"],
            ),
            (
                Kind::LocalDate,
                &["03.04.2024", "4/3/24", "2024/04/03 10:00", "5 Jan 2024", "Mar-21"],
            ),
            (Kind::Text, &["x", "10.0.0.1", "1.2.3.4", "a-1", "Marseille 5", "2024-02-30x", "id"]),
        ] {
            for cell in cells {
                assert_eq!(Kind::of(cell.as_bytes()), kind, "{cell:?}");
            }
        }
    }

    #[test]
    fn shapes_are_runs() {
        assert_eq!(shape(b"AB-1234 x"), b"A-9 a");
        assert_eq!(shape("Zürich".as_bytes()), b"Aa");
    }
}
